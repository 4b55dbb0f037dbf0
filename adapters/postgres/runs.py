"""Runs in Postgres, and the leases on them: the RunStore port without claims."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg

from ...domain.errors import RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE, RunStoreError
from ...domain.ports import (
    Attention,
    Change,
    Guard,
    LeaseRef,
    Reading,
    Reply,
    StoredEvent,
)
from ...domain.record import RunRecord
from ..ciphering import Cipher
from ..rows import EPOCH, record_of
from . import statements as sql
from .append_statements import LOOKING, TELLING
from .database import LOCK_TIMEOUT
from .epoch import PostgresEpoch
from .session import Session
from .writes import lease_values, renewals, write_command

_NO_LIMIT = 2**62


class PostgresRuns(PostgresEpoch):
    """What PostgresStore does for one run at a time, and for lists of them."""

    cipher: Cipher | None
    _ahead: timedelta | None
    _notify: bool
    _within_host: bool

    def now(self) -> datetime:
        if self._ahead is None:
            self.get("-")
        return EPOCH + (self._ahead or timedelta()) + timedelta(seconds=time.monotonic())

    def _heard(self, now: datetime) -> datetime:
        """Take note of the server's instant in a reply, against the time since start-up here."""
        self._ahead = now - EPOCH - timedelta(seconds=time.monotonic())
        return now

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        ((*row, server),) = self.database.read(sql.GET, run_id)
        heard = self._heard(server)
        record = None if row[0] is None else record_of(self.cipher, *row)
        return Reading(record, now or heard)

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        try:
            statement, values = write_command(changes, guard, now, self.cipher)
            if self._within_host:
                statement = LOOKING.get(statement.name, statement)
            if self._notify:
                statement = TELLING.get(statement.name, statement)
            rows = self.database.write(statement, *values)
        except RunStoreError as e:
            if isinstance(e.__cause__, psycopg.errors.UniqueViolation):
                return None  # a stream is already past its expected version, or was pruned
            raise
        if rows:
            return self._reply(rows[0], changes[0].record, now)
        self.after_lost_guard(changes[0].record, guard)
        return None

    def _reply(self, row: tuple[Any, ...], record: Any, now: datetime | None) -> Reply:
        at, ready_at, moved = row
        if now is None:
            self._heard(at)
        if not moved or record.lease is None:
            return Reply(at, None, False)
        return Reply(at, ready_at, True)

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        if not leases:
            return {}
        # A renewal that was carried out twice is a renewal: it may be sent again.
        replies = renewals(self.database.read(sql.RENEW, *lease_values(leases), now))
        skipped = [lease for lease in leases if lease.run_id not in replies]
        for lease in skipped:
            left = self._time_left(lease, now)
            # A lease of its own may wait until it has expired, and then is known to be lost. Of
            # many, the locked ones share a quarter of a ttl: the others hear nothing before.
            wait = left + 0.05 if len(leases) == 1 else min(left, lease.ttl / 4 / len(skipped))
            if left > 0:
                replies |= self._renew_patiently(lease, min(wait, LOCK_TIMEOUT), now)
        return replies

    def _renew_patiently(
        self, lease: LeaseRef, seconds: float, now: datetime | None
    ) -> dict[str, Reply]:
        """Renew a lease whose row was locked, if it is let go in time."""

        def work(session: Session) -> list[tuple[Any, ...]]:
            return session.run_batch(
                (sql.BEGIN, ()),
                (sql.SET_LOCK_TIMEOUT, (f"{max(1, int(seconds * 1000))}ms",)),
                (sql.RENEW_PATIENTLY, (*lease_values([lease]), now)),
                (sql.COMMIT, ()),
            )[2]

        try:
            return renewals(self.database.transaction(work))
        except RunStoreError as e:
            if e.code not in (RUN_STORE_UNAVAILABLE, RUN_OUTCOME_UNKNOWN):
                raise
            return {}  # unknown: the next beat asks again

    def _time_left(self, lease: LeaseRef, given: datetime | None) -> float:
        """Seconds left of a lease that was not renewed; if there are any, its row was locked."""
        record, now = self.get(lease.run_id, given)
        if record is None or record.lease is None or record.fencing_token != lease.fencing_token:
            return 0.0
        return (record.lease.expires_at - now).total_seconds()

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
        return [record_of(self.cipher, *row) for row in rows]

    def set_aside(self, run_id: str, reason: str) -> None:
        self.database.write(sql.SET_ASIDE_QUEUED, run_id, reason)

    def attention(self) -> list[Attention]:
        return [Attention(*row) for row in self.database.read(sql.ATTENTION)]
