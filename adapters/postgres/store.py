"""PostgresStore: the RunStore port on one Postgres schema."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import psycopg

from ...domain.errors import (
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RunStoreError,
)
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
from ...domain.unsettled import SETTLE_TRIES
from ..ciphering import Cipher
from ..rows import EPOCH, record_of
from . import statements as sql
from .append_statements import LOOKING, TELLING
from .database import LOCK_TIMEOUT, Database
from .deliveries import PostgresDeliveries
from .epoch import PostgresEpoch
from .history import PostgresHistory
from .horizon import Horizon, Probe
from .host import HostTransaction
from .inspection import PostgresInspection
from .listener import Listener
from .projections import PostgresProjections
from .pruning import PostgresPruning
from .session import Session
from .writes import grant_command, lease_values, renewals, write_command

_NO_LIMIT = 2**62


class PostgresStore(
    PostgresDeliveries,
    PostgresHistory,
    PostgresProjections,
    PostgresInspection,
    PostgresEpoch,
    PostgresPruning,
):
    """Streams, records and the outbox in one schema, for any number of hosts.

    Leases are judged on the server's clock, inside the statement that writes. The stamps inside
    events are the server's instant of the last reply plus the time since then.
    """

    def __init__(
        self, database: Database, *, notify: bool = False, cipher: Cipher | None = None
    ) -> None:
        super().__init__(database)
        self.cipher = cipher
        self._ahead: timedelta | None = None
        self._notify = notify
        self._within_host = False
        self.listener = Listener(database)
        self.horizon = Horizon()

    def wait_for_work(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds to be told that a run became claimable."""
        return self.listener.wait(timeout)

    def close(self) -> None:
        self.listener.close()
        super().close()

    def within(self, conn: psycopg.Connection[Any]) -> PostgresStore:
        """The same journal through a connection of the host's, inside its transaction."""
        host = HostTransaction(conn, self.database.schema)
        store = PostgresStore(host, notify=self._notify, cipher=self.cipher)
        store._ahead, store._epoch = self._ahead, self._epoch
        store._within_host = True
        return store

    @property
    def atomicity(self) -> Atomicity:
        return "cross-process"

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

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        granted: list[Granted] = []
        for probe in self.horizon.probes(whole_only=now is not None):
            wanted = self._kinds(probe) if kinds is None else kinds
            while wanted and len(granted) < limit:
                attempted: list[Change] = []
                try:
                    found, taken, lost = self._claim(
                        wanted, limit - len(granted), grant, now, probe, attempted
                    )
                except RunStoreError as e:
                    if e.code != RUN_OUTCOME_UNKNOWN:
                        raise
                    return granted + self._settled(attempted, now)
                granted += taken
                # Only runs that were set aside or ended make another look worth while.
                if found == len(taken):
                    break
                if lost and not self.may_look_again(granted):
                    return granted
            if len(granted) >= limit:
                break
        return granted

    def _kinds(self, probe: Probe) -> Sequence[str]:
        """The kinds with anything to claim: as last seen, or looked up for a whole probe."""
        if probe.whole:
            self.horizon.kinds = [k for (k,) in self.database.read(sql.CLAIMABLE_KINDS)]
        return self.horizon.kinds

    def _claim(
        self,
        kinds: Sequence[str],
        limit: int,
        grant: Granting,
        now: datetime | None,
        probe: Probe,
        attempted: list[Change],
    ) -> tuple[int, list[Granted], bool]:
        """Two trips: lock the longest due runs of each kind; write the grants and commit.

        How many were found, what was granted, and whether a guard was lost.
        """

        def work(session: Session) -> tuple[int, list[Granted], bool]:
            probes = [(sql.DUE, (kind, now, limit, probe.since(kind))) for kind in kinds]
            _, *found = session.run_batch((sql.BEGIN, ()), *probes)
            for kind, rows in zip(kinds, found, strict=True):
                self.horizon.seen(kind, rows[0][5] if rows else None)
            rows = sorted((r for rows in found for r in rows), key=lambda row: (row[5], row[0]))
            rows = rows[:limit]
            if not rows:
                session.run(sql.ROLLBACK)
                return 0, [], False
            decided = [self._granting(row, grant, now) for row in rows]
            # Only grants: whether a run was ended is for nobody here to know.
            attempted[:] = [
                d[0] for d in decided if not isinstance(d, RunStoreError) and _granted(d)
            ]
            commands = [
                (sql.SET_ASIDE, (row[0], outcome.message))
                if isinstance(outcome, RunStoreError)
                else grant_command(outcome, now, self.cipher)
                for row, outcome in zip(rows, decided, strict=True)
            ]
            *written, _ = session.run_batch(*commands, (sql.COMMIT, ()))
            taken = [
                Granted(record, self._reply(answer[0], record, now))
                for outcome, answer in zip(decided, written, strict=True)
                if answer and (record := _granted(outcome)) is not None
            ]
            lost = any(
                not answer and not isinstance(outcome, RunStoreError)
                for outcome, answer in zip(decided, written, strict=True)
            )
            return len(rows), taken, lost

        return self.database.transaction(work)

    def _settled(self, attempted: Sequence[Change], now: datetime | None) -> list[Granted]:
        """What a claim granted whose reply was lost: written once more, or found to be there.

        Writing it again waits for the old transaction if that is still open, and a lost version
        with our very event in its place shows that it had been committed.
        """
        return [g for change in attempted if (g := self._settle(change, now)) is not None]

    def _settle(self, change: Change, now: datetime | None) -> Granted | None:
        record = change.record
        assert isinstance(record, RunRecord)  # a grant is a run's
        for _ in range(SETTLE_TRIES):
            try:
                reply = self.append([change], None, now)
            except RunStoreError as e:
                if e.code != RUN_OUTCOME_UNKNOWN:
                    raise
                continue
            if reply is not None:
                return Granted(record, reply)
            written = self.read(change.stream, change.expected_version, 1)
            if not written or written[0].data != change.events[0].data:
                return None  # somebody else's
            stored, instant = self.get(record.run_id, now)
            if stored is None or stored.lease is None:
                return None
            return Granted(record, Reply(instant, stored.lease.expires_at, True))
        return None  # held by us, and nobody here knows: it expires

    def _granting(
        self, row: tuple[Any, ...], grant: Granting, now: datetime | None
    ) -> Sequence[Change] | RunStoreError:
        """The changes that grant or end a run, or why it has to be set aside."""
        *columns, server = row
        try:
            return grant(record_of(self.cipher, *columns), now or self._heard(server))
        except RunStoreError as e:
            if e.code not in SETS_ASIDE:
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
        return [record_of(self.cipher, *row) for row in rows]

    def set_aside(self, run_id: str, reason: str) -> None:
        self.database.write(sql.SET_ASIDE_QUEUED, run_id, reason)

    def attention(self) -> list[Attention]:
        return [Attention(*row) for row in self.database.read(sql.ATTENTION)]


def _granted(decided: Sequence[Change] | RunStoreError) -> RunRecord | None:
    """The record of a run that is granted by this, and neither ended nor set aside."""
    record = None if isinstance(decided, RunStoreError) else decided[0].record
    return record if isinstance(record, RunRecord) and record.lease is not None else None
