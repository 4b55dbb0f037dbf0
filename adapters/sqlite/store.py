"""SQLiteStore: the RunStore port on one SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ...domain.errors import RUN_CONFLICT, RunStoreError
from ...domain.ports import (
    SETS_ASIDE,
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
from ..ciphering import Cipher
from ..rows import from_microseconds, to_microseconds
from . import statements as sql
from .backup import SQLiteBackup
from .database import Database
from .deliveries import SQLiteDeliveries
from .epoch import SQLiteEpoch, epoch_of
from .history import SQLiteHistory
from .inspection import SQLiteInspection
from .projections import SQLiteProjections
from .pruning import SQLitePruning
from .records import event_of, run_of
from .shapes import Shape
from .writes import write_changes

_ATTENTION = Shape("id TEXT, attention TEXT")


class SQLiteStore(
    SQLiteDeliveries,
    SQLiteHistory,
    SQLiteProjections,
    SQLiteInspection,
    SQLiteEpoch,
    SQLiteBackup,
    SQLitePruning,
):
    """Streams, records and the outbox in one file, for all processes of one host.

    synchronous  FULL: a commit is on disk when it returns. NORMAL: a power loss may take the last
                 ones back, never part of one.

    Instants are judged after BEGIN IMMEDIATE, so waiting for another writer counts. A record is
    the row of `runs`: short columns, `checkpoint` and `body` as JSON bytes.
    """

    def __init__(
        self,
        database: Database | str | Path,
        synchronous: str = "FULL",
        cipher: Cipher | None = None,
    ) -> None:
        super().__init__(
            database if isinstance(database, Database) else Database(database, synchronous)
        )
        self.cipher = cipher

    @property
    def atomicity(self) -> Atomicity:
        return "cross-process"

    #: The host's clock; without a Python frame of its own, since every checkpoint asks for it.
    now = staticmethod(partial(datetime.now, UTC))

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        with self.database.reading() as conn:
            row = conn.execute(sql.GET_RUN, (run_id,)).fetchone()
        record = None if row is None else run_of(row, self.cipher)
        return Reading(record, now or self.now())

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        conn = self.database.begin(patience)
        try:
            instant = now or datetime.now(UTC)  # only now: waiting for the lock counts
            reply = write_changes(conn, changes, guard, instant, self.cipher)
            if reply is None:
                self._epoch = epoch_of(conn)
        except BaseException as e:
            self.database.rollback(conn)
            if isinstance(e, sqlite3.Error):
                raise self.database.error(e) from e
            raise
        if reply is None:
            self.database.rollback(conn)
        else:
            self.database.commit(conn)
        return reply

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        replies = {}
        with self.database.writing(min((lease.ttl for lease in leases), default=None)) as conn:
            instant = now or datetime.now(UTC)
            at = to_microseconds(instant)
            for run_id, token, ttl in leases:
                until = at + int(ttl * 1e6)
                row = conn.execute(sql.RENEW, (until, run_id, token, at)).fetchone()
                if row is not None:
                    try:
                        deadline = from_microseconds(row[0])
                    except (OverflowError, TypeError):
                        continue  # a damaged one: what became of the lease is not known
                    replies[run_id] = Reply(instant, deadline, row[0] == until)
        return replies

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        granted: list[Granted] = []
        seen: set[str] = set()
        with self.database.writing() as conn:
            instant = now or datetime.now(UTC)
            at = to_microseconds(instant)
            self._epoch = epoch_of(conn)  # nobody raises it before this transaction ends
            while len(granted) < limit and (rows := _due(conn, kinds, at, limit)):
                for row in rows[: limit - len(granted)]:
                    if row[0] in seen:  # a ttl below the clock's step: due again at once
                        return granted
                    seen.add(row[0])
                    try:
                        changes = grant(run_of(row, self.cipher), instant)
                    except RunStoreError as e:
                        if e.code not in SETS_ASIDE:
                            raise
                        conn.execute(sql.SET_ASIDE, (e.message, row[0]))
                        continue
                    record = changes[0].record
                    reply = write_changes(conn, changes, None, instant, self.cipher)
                    assert isinstance(record, RunRecord)  # the first change is the run's
                    if reply is None:  # nobody else writes meanwhile: a delivery was there before
                        raise RunStoreError(
                            RUN_CONFLICT,
                            "different_request",
                            f"run {record.run_id!r} has not ended yet, and its delivery exists",
                        )
                    if record.lease is not None:
                        granted.append(Granted(record, reply))
        return granted

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        with self.database.reading() as conn:
            rows = conn.execute(
                sql.READ_STREAM, (stream, after_version, -1 if limit is None else limit)
            ).fetchall()
        return [event_of(row) for row in rows]

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        with self.database.reading() as conn:
            rows = conn.execute(sql.LIST_RUNS, (status, kind, after, limit)).fetchall()
        return [run_of(row, self.cipher) for row in rows]

    def set_aside(self, run_id: str, reason: str) -> None:
        with self.database.writing() as conn:
            conn.execute(sql.SET_ASIDE_QUEUED, (reason, run_id))

    def attention(self) -> list[Attention]:
        with self.database.reading() as conn:
            rows = conn.execute(sql.ATTENTION).fetchall()
        return [Attention(*_ATTENTION.check(row, f"the mark of {row[0]!r}")) for row in rows]


def _due(
    conn: sqlite3.Connection, kinds: Sequence[str] | None, at: int, limit: int
) -> list[tuple[Any, ...]]:
    """The longest due runs of these kinds, or of all kinds that have any."""
    if kinds is None:
        kinds = [kind for (kind,) in conn.execute(sql.CLAIMABLE_KINDS)]
    rows: list[tuple[Any, ...]] = []
    for kind in kinds:
        rows += conn.execute(sql.DUE, (kind, at, limit)).fetchall()
    return sorted(rows, key=lambda row: (row[5], str(row[0])))[:limit]
