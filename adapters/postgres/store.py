"""PostgresStore: the RunStore port on one Postgres schema."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from ...domain.delivery import DeliveryRecord
from ...domain.errors import (
    RUN_INTEGRITY_ERROR,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RunStoreError,
)
from ...domain.ports import (
    Atomicity,
    Attention,
    Change,
    Granted,
    Granting,
    Guard,
    LeaseRef,
    Reading,
    Reply,
    StoredEvent,
)
from ...domain.record import RunRecord
from ..rows import body_of, checkpoint_of, delivery_body_of, record_of
from . import statements as sql
from .database import Database
from .host import HostTransaction
from .listener import Listener
from .recorder import PostgresProcessRecorder
from .session import Command, Session

_NO_LIMIT = 2**62
#: What is sent instead where the journal tells of claimable runs.
_TELLING = {sql.CREATE.name: sql.CREATE_TELLING, sql.ADVANCE.name: sql.ADVANCE_TELLING}


class PostgresStore(PostgresProcessRecorder):
    """Streams, records and the outbox in one schema, for any number of hosts.

    Leases are judged on the server's clock, inside the statement that writes. The stamps inside
    events are the server's instant of the last reply plus the time since then.
    """

    def __init__(self, database: Database, *, notify: bool = False) -> None:
        super().__init__(database)
        self._offset: timedelta | None = None
        self._notify = notify
        self.listener = Listener(database)

    def wait_for_work(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds to be told that a run became claimable."""
        return self.listener.wait(timeout)

    def close(self) -> None:
        self.listener.close()
        super().close()

    def within(self, conn: psycopg.Connection[Any]) -> PostgresStore:
        """The same journal through a connection of the host's, inside its transaction."""
        host = HostTransaction(conn, self.database.schema)
        store = PostgresStore(host, notify=self._notify)
        store._offset = self._offset
        return store

    @property
    def atomicity(self) -> Atomicity:
        return "cross-process"

    def now(self) -> datetime:
        if self._offset is None:
            self.get("-")
        return datetime.fromtimestamp(time.monotonic(), UTC) + (self._offset or timedelta())

    def _heard(self, now: datetime) -> datetime:
        """Take note of the server's instant in a reply."""
        self._offset = now - datetime.fromtimestamp(time.monotonic(), UTC)
        return now

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        ((*row, server),) = self.database.read(sql.GET, run_id)
        heard = self._heard(server)
        record = None if row[0] is None else record_of(*row)
        return Reading(record, now or heard)

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        try:
            statement, values = _command(changes, guard, now)
            if self._notify:
                statement = _TELLING.get(statement.name, statement)
            rows = self.database.write(statement, *values)
        except RunStoreError as e:
            if isinstance(e.__cause__, psycopg.errors.UniqueViolation):
                return None  # one of the streams is already past its expected version
            raise
        return self._reply(rows[0], changes[0].record, now) if rows else None

    def _reply(self, row: tuple[Any, ...], record: Any, now: datetime | None) -> Reply:
        at, ready_at, moved = row
        if now is None:
            self._heard(at)
        held = isinstance(record, RunRecord) and record.lease is not None
        return Reply(at, ready_at if held else None, bool(moved) and held)

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        replies = self._renew(sql.RENEW, leases, now)
        for lease in leases:
            if lease.run_id not in replies and self._still_held(lease, now):
                try:
                    replies |= self._renew(sql.RENEW_PATIENTLY, [lease], now)
                except RunStoreError as e:
                    if e.code != RUN_STORE_UNAVAILABLE:
                        raise
        return replies

    def _renew(
        self, statement: sql.Statement, leases: Sequence[LeaseRef], now: datetime | None
    ) -> dict[str, Reply]:
        if not leases:
            return {}
        ids, tokens, ttls = zip(*leases, strict=True)
        # A renewal that was carried out twice is a renewal: it may be sent again.
        rows = self.database.read(statement, ids, tokens, ttls, now)
        return {run_id: Reply(at, ready_at, moved) for run_id, at, ready_at, moved in rows}

    def _still_held(self, lease: LeaseRef, given: datetime | None) -> bool:
        """Whether a lease that was not renewed looks held: then its row was locked."""
        record, now = self.get(lease.run_id, given)
        return (
            record is not None
            and record.lease is not None
            and record.fencing_token == lease.fencing_token
            and now < record.lease.expires_at
        )

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        if kinds is None:
            kinds = [kind for (kind,) in self.database.read(sql.CLAIMABLE_KINDS)]
        granted: list[Granted] = []
        while len(granted) < limit:
            attempted: list[Change] = []
            try:
                found, taken = self._claim(kinds, limit - len(granted), grant, now, attempted)
            except RunStoreError as e:
                if e.code != RUN_OUTCOME_UNKNOWN:
                    raise
                return granted + self._settled(attempted, now)
            granted += taken
            # Only runs that had to be set aside make another look worth while.
            if found == len(taken):
                break
        return granted

    def _claim(
        self,
        kinds: Sequence[str],
        limit: int,
        grant: Granting,
        now: datetime | None,
        attempted: list[Change],
    ) -> tuple[int, list[Granted]]:
        """Two trips: lock the longest due runs of each kind; write the grants and commit."""

        def work(session: Session) -> tuple[int, list[Granted]]:
            probes = [(sql.DUE, (kind, now, limit)) for kind in kinds]
            _, *found = session.run_batch((sql.BEGIN, ()), *probes)
            rows = sorted((r for rows in found for r in rows), key=lambda row: (row[5], row[0]))
            rows = rows[:limit]
            if not rows:
                session.run(sql.ROLLBACK)
                return 0, []
            changes = [self._granting(row, grant, now) for row in rows]
            attempted[:] = [c for c in changes if isinstance(c, Change)]
            commands = [
                (sql.SET_ASIDE, (row[0], change.message))
                if isinstance(change, RunStoreError)
                else _command([change], None, now)
                for row, change in zip(rows, changes, strict=True)
            ]
            *written, _ = session.run_batch(*commands, (sql.COMMIT, ()))
            taken = [
                Granted(change.record, self._reply(answer[0], change.record, now))
                for change, answer in zip(changes, written, strict=True)
                if isinstance(change, Change) and isinstance(change.record, RunRecord) and answer
            ]
            return len(rows), taken

        return self.database.transaction(work)

    def _settled(self, attempted: Sequence[Change], now: datetime | None) -> list[Granted]:
        """What a claim granted whose reply was lost: written once more, or found to be there.

        Writing it again waits for the old transaction if that is still open, and a lost version
        with our very event in its place shows that it had been committed.
        """
        granted = []
        for change in attempted:
            record = change.record
            assert isinstance(record, RunRecord)  # a grant is a run's
            reply = self.append([change], None, now)
            if reply is None:
                written = self.read(change.stream, change.expected_version, 1)
                if not written or written[0].data != change.events[0].data:
                    continue  # somebody else's
                stored, instant = self.get(record.run_id, now)
                if stored is None or stored.lease is None:
                    continue
                reply = Reply(instant, stored.lease.expires_at, True)
            granted.append(Granted(record, reply))
        return granted

    def _granting(
        self, row: tuple[Any, ...], grant: Granting, now: datetime | None
    ) -> Change | RunStoreError:
        """The change that grants a run, or why it has to be set aside."""
        *columns, server = row
        try:
            return grant(record_of(*columns), now or self._heard(server))
        except RunStoreError as e:
            if e.code != RUN_INTEGRITY_ERROR:
                raise
            return e

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        rows = self.database.read(
            sql.READ_STREAM, stream, after_version, _NO_LIMIT if limit is None else limit
        )
        return [StoredEvent(*row) for row in rows]

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        rows = self.database.read(sql.LIST, status, kind, after, limit)
        return [record_of(*row) for row in rows]

    def set_aside(self, run_id: str, reason: str) -> None:
        self.database.write(sql.SET_ASIDE_QUEUED, run_id, reason)

    def attention(self) -> list[Attention]:
        return [Attention(*row) for row in self.database.read(sql.ATTENTION)]


def _command(changes: Sequence[Change], guard: Guard | None, now: datetime | None) -> Command:
    """The statement that writes these changes, and its values."""
    change = changes[0]
    record = change.record
    assert isinstance(record, RunRecord)  # the first change is the run's
    first = change.events[0]
    if (
        guard is not None
        and guard.lease == "live"
        and len(changes) == len(change.events) == 1
        and first.topic == "run.checkpoint_saved"
        and record.lease is not None
    ):
        return sql.SAVE_CHECKPOINT, (
            record.run_id,
            change.expected_version,
            guard.fencing_token,
            now,
            record.updated_at,
            checkpoint_of(record),
            record.head,
            record.lease.ttl,
            first.stream,
            first.topic,
            first.data,
        )
    events = [e for c in changes for e in c.events]
    streams, versions, topics, states, _hashes = zip(*events, strict=True)
    shared = (streams, versions, topics, states, *_delivery(changes), now)
    ttl = None if record.lease is None else record.lease.ttl
    if change.expected_version == 0:
        return sql.CREATE, (
            *shared,
            record.run_id,
            record.kind,
            record.status.value,
            record.version,
            record.fencing_token,
            ttl,
            record.available_at,
            record.created_at,
            record.updated_at,
            checkpoint_of(record),
            record.head,
            body_of(record),
        )
    return sql.ADVANCE, (
        *shared,
        record.run_id,
        change.expected_version,
        record.status.value,
        record.version,
        record.fencing_token,
        ttl,
        record.available_at,
        record.updated_at,
        checkpoint_of(record),
        record.head,
        body_of(record),
        None if guard is None else guard.fencing_token,
        guard is not None and guard.lease == "live",
    )


def _delivery(changes: Sequence[Change]) -> tuple[Any, ...]:
    """The outbox row of the second change; one append has one delivery at most."""
    if len(changes) == 1:
        return (None,) * 9
    record = changes[1].record
    assert len(changes) == 2 and isinstance(record, DeliveryRecord)  # noqa: PT018
    return (
        record.invocation_id,
        record.run_id,
        record.delivery_ref,
        record.status.value,
        record.version,
        record.created_at,
        record.updated_at,
        record.head,
        delivery_body_of(record),
    )
