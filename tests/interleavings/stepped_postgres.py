"""A journal on Postgres whose commands stop before each statement, and the server's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from runjournal import Journal, RunStoreError
from runjournal.adapters.postgres.database import Database
from runjournal.adapters.postgres.session import Command, Session
from runjournal.adapters.postgres.statements import BEGIN, COMMIT, ROLLBACK
from runjournal.adapters.postgres.store import PostgresStore
from runjournal.adapters.postgres.wire import Statement

from .scheduler import Act, current
from .world import World, journal_on

_WRITES = (b"INSERT", b"UPDATE", b"DELETE")

#: The statements ask for clock_timestamp() without a schema, so one that is found before the
#: server's own takes its place. A sequence: what it says is seen at once, by every snapshot.
_CLOCK = """
    CREATE SCHEMA clock;
    CREATE SEQUENCE clock.microseconds MINVALUE 0;
    CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE plpgsql AS
        $$ BEGIN RETURN to_timestamp((SELECT last_value FROM clock.microseconds) / 1e6); END $$;
"""


class SteppedSession(Session):
    """Stops before each statement of a command that an order governs.

    A statement that is a transaction by itself gets a begin and a commit that can be seen.
    """

    def run(self, statement: Statement, *values: Any) -> list[tuple[Any, ...]]:
        player = current()
        if player is None:
            return super().run(statement, *values)
        me = self.connection.info.backend_pid
        if statement is COMMIT:
            return self._commit(me)
        own = self.idle and statement is not BEGIN and any(w in statement.text for w in _WRITES)
        if own:
            # A begin takes no lock and no snapshot: no order of it makes a difference.
            super().run(BEGIN)
        if statement is not BEGIN:
            player.step(statement.name.decode().removeprefix("runjournal_"), me)
        rows = super().run(statement, *values)
        if own:
            self._commit(me)
        return rows

    def run_batch(self, *commands: Command) -> list[list[tuple[Any, ...]]]:
        if current() is None:
            return super().run_batch(*commands)
        return [self.run(statement, *values) for statement, values in commands]

    def _commit(self, me: int) -> list[tuple[Any, ...]]:
        player = current()
        assert player is not None
        player.step("commit", me)
        fault = player.take_fault()
        super().run(ROLLBACK if fault == "rolled back" else COMMIT)
        if fault is not None:
            self.in_flight = True
            raise psycopg.OperationalError("the connection was lost")
        return []


class SteppedDatabase(Database):
    def _session(self, conn: psycopg.Connection[Any]) -> Session:
        return SteppedSession(conn, self.schema, self._number)


class PostgresWorld(World):
    """Several connections to one Postgres journal."""

    def __init__(self, url: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        self._conn.execute(_CLOCK)
        self._url = make_conninfo(url, options="-c search_path=public,clock,pg_catalog")
        self._locker = psycopg.connect(url, autocommit=True)
        self._now = datetime(2030, 1, 1, tzinfo=UTC)
        super().__init__()

    def open(self) -> Journal:
        return journal_on(PostgresStore(SteppedDatabase(self._url)))

    def set_clock(self, now: datetime) -> None:
        self._now = now
        since = (now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        self._conn.execute("SELECT setval('clock.microseconds', %s)", (since,))

    def waiting(self, sessions: Sequence[int]) -> int:
        row = self._conn.execute(
            "SELECT count(DISTINCT pid) FROM pg_locks WHERE pid = ANY (%s) AND NOT granted"
            " AND locktype IN ('transactionid', 'tuple', 'spectoken', 'advisory')",
            (list(sessions),),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def lock(self, run_id: str) -> Act:
        def act() -> None:
            player = current()
            assert player is not None
            me = self._locker.info.backend_pid
            player.step("lock", me)
            self._locker.execute("BEGIN")
            self._locker.execute("SELECT 1 FROM runs WHERE run_id = %s FOR UPDATE", (run_id,))
            player.step("let go", me)
            self._locker.execute("ROLLBACK")

        return act

    def execute(self, text: str, *values: Any) -> Any:
        row = self._conn.execute(text.replace("?", "%s").encode(), values)
        return row.fetchone() if row.description else None

    def within(self, number: int, work: Callable[[Any], Any], *, commit: bool) -> Act:
        def act() -> Any:
            player = current()
            assert player is not None
            with psycopg.connect(self._url) as host:
                try:
                    answer = work(self.journals[number].in_transaction(host))
                except RunStoreError:
                    player.step("rollback", host.info.backend_pid)
                    host.rollback()
                    raise
                player.step("commit" if commit else "rollback", host.info.backend_pid)
                if commit:
                    host.commit()
                else:
                    host.rollback()
            return answer

        return act

    def close(self) -> None:
        super().close()
        self._locker.close()
        self._conn.close()
