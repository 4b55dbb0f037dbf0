"""KeyValueStore: the whole RunStore port over an ordered map of keys to bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock

from ...domain.checks import EXCLUSIVE_NAME, check_plain_name, refuse
from ...domain.errors import RUN_CONFLICT, RunStoreError
from ...domain.history_store import ExclusiveHold
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
    RunStore,
    StoredEvent,
)
from ...domain.record import RunRecord
from ...domain.status import RunLifecycleStatus
from .deliveries import KeyValueDeliveries
from .history import KeyValueHistory
from .recorder import KeyValueRecorder
from .rows import Row, marked_deliveries, put_delivery, put_row, read_row, set_aside
from .space import Space, event_of, key_of, under, write_events


class _LostGuardError(Exception):
    """Rolls an append back."""


class KeyValueStore(KeyValueHistory, KeyValueDeliveries, KeyValueRecorder, RunStore):
    """A RunStore for whoever has an ordered map with transactions: two methods make a backend.

    A subclass gives `transaction` and `close`, and says how far its transactions reach. It is right
    wherever transactions are serializable, and as fast as the map is: a claim looks at what is due,
    `due_deliveries` at the whole outbox. Prove it with `runjournal.adapters.contract`.
    """

    #: How far transactions exclude one another: a claim of the subclass's own.
    atomicity: Atomicity = "process"

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._holding = Lock()

    @abstractmethod
    def transaction(self) -> AbstractContextManager[Space]:
        """A transaction that begins with the block and commits at its end, serializable.

        What the block raises undoes it, and so does a process that ends within it. Raises
        RUN_STORE_UNAVAILABLE where it cannot be had, and RUN_VALIDATION_ERROR / closed after
        `close`.
        """

    @abstractmethod
    def close(self) -> None:
        """Let go of every resource; idempotent."""

    def now(self) -> datetime:
        """This host's clock: where several hosts write, override it with the database's."""
        return datetime.now(UTC)

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        with self.transaction() as space:
            row = read_row(space, run_id)
            return Reading(None if row is None else row.overlaid, now or self.now())

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        try:
            with self.transaction() as space:
                return _append(space, changes, guard, now or self.now())
        except _LostGuardError:
            return None

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        replies = {}
        with self.transaction() as space:
            instant = now or self.now()
            for run_id, token, ttl in leases:
                row = read_row(space, run_id)
                if row is None or row.record.status is not RunLifecycleStatus.RUNNING:
                    continue
                if not _holds(row, Guard(token, "live"), instant):
                    continue
                assert row.ready_at is not None  # a live guard holds
                until = max(row.ready_at, instant + timedelta(seconds=ttl))
                put_row(space, row.record, until)
                replies[run_id] = Reply(instant, until, until > row.ready_at)
        return replies

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        granted: list[Granted] = []
        with self.transaction() as space:
            instant = now or self.now()
            due = [
                parts[2]
                for parts, kind in under(space, "due")
                if kinds is None or kind.decode() in kinds
            ]
            for run_id in due:
                if len(granted) >= limit:
                    break
                try:
                    row = read_row(space, run_id)
                    if row is None or row.ready_at is None or row.ready_at > instant:
                        break  # what comes now is due even later
                    changes = grant(row.overlaid, instant)
                except RunStoreError as e:
                    if e.code not in SETS_ASIDE:
                        raise
                    set_aside(space, run_id, e.message)
                    continue
                record = changes[0].record
                reply = _append(space, changes, None, instant)
                if isinstance(record, RunRecord) and record.lease:
                    granted.append(Granted(record, reply))
        return granted

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        found: list[StoredEvent] = []
        with self.transaction() as space:
            after = key_of("event", stream, after_version)
            for parts, value in under(space, "event", stream, after=after):
                if limit is not None and len(found) >= limit:
                    break
                found.append(event_of(parts, value))
        return found

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        found: list[RunRecord] = []
        with self.transaction() as space:
            begin = None
            if after is not None:
                last = space.get(key_of("created_at", after))
                if last is None:
                    return []
                begin = last.decode()
            for parts, _ in under(space, "created", after=begin):
                if len(found) >= limit:
                    break
                row = read_row(space, parts[2])
                if row is None:
                    continue
                if status in (None, row.record.status) and kind in (None, row.record.kind):
                    found.append(row.overlaid)
        return found

    def set_aside(self, run_id: str, reason: str) -> None:
        with self.transaction() as space:
            if space.get(key_of("due_at", run_id)) is None:
                return
            try:
                row = read_row(space, run_id)
            except RunStoreError:
                row = None
            if row is None or row.record.lease is None:
                set_aside(space, run_id, reason)

    def attention(self) -> list[Attention]:
        with self.transaction() as space:
            runs = [Attention(parts[1], why.decode()) for parts, why in under(space, "aside")]
            return runs + marked_deliveries(space)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[ExclusiveHold]:
        """Between the threads of this process, which is all that this class can promise."""
        check_plain_name(name, "the name to hold", EXCLUSIVE_NAME)
        if self.atomicity != "process":
            raise refuse("argument", "this store cannot hold a name between processes")
        with self.transaction():  # is it open?
            pass
        with self._holding:
            if name in self._held:
                raise RunStoreError(
                    RUN_CONFLICT, "already_running", f"{name} is held by another one here"
                )
            self._held.add(name)
        try:
            yield _Hold(self)
        finally:
            self._held.discard(name)


class _Hold:
    """Lost only with the store."""

    def __init__(self, store: KeyValueStore) -> None:
        self._store = store

    def check(self) -> None:
        with self._store.transaction():
            pass


def _append(
    space: Space, changes: Sequence[Change], guard: Guard | None, instant: datetime
) -> Reply:
    """Write all changes; raises where a guard is lost."""
    change, *further = changes
    record = change.record
    assert isinstance(record, RunRecord)  # the first change is the run's
    row = read_row(space, record.run_id)
    if (row.record.version if row else 0) != change.expected_version:
        raise _LostGuardError
    if guard is not None and (row is None or not _holds(row, guard, instant)):
        raise _LostGuardError
    ready_at, moved = _ready_at(row, record, guard, instant)
    put_row(space, record, ready_at)
    for delivery in further:
        assert not isinstance(delivery.record, RunRecord)  # only deliveries
        put_delivery(space, delivery.record)
    for each in changes:
        if not write_events(space, each):
            raise _LostGuardError
    return Reply(instant, ready_at if record.lease else None, moved)


def _holds(row: Row, guard: Guard, instant: datetime) -> bool:
    if row.record.lease is None or row.record.fencing_token != guard.fencing_token:
        return False
    live = row.ready_at is not None and row.ready_at > instant
    return live if guard.lease == "live" else not live


def _ready_at(
    row: Row | None, record: RunRecord, guard: Guard | None, instant: datetime
) -> tuple[datetime | None, bool]:
    """When the run is next due after this write, and whether its deadline moved."""
    if record.lease is None:
        if record.status is RunLifecycleStatus.QUEUED:
            return record.available_at or instant, False
        return None, False
    ttl = timedelta(seconds=record.lease.ttl)
    by_holder = guard is not None and guard.lease == "live"
    if by_holder and row is not None and row.ready_at and row.ready_at - instant >= ttl / 2:
        return row.ready_at, False
    return instant + ttl, True
