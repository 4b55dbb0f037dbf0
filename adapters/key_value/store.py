"""KeyValueStore: the JournalStore port over an ordered map of keys to bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from threading import local

from ...domain.errors import RunStoreError
from ...domain.ports import (
    SETS_ASIDE,
    Atomicity,
    Attention,
    Change,
    Granted,
    Granting,
    Guard,
    JournalStore,
    LeaseRef,
    Reading,
    Reply,
    StoredEvent,
)
from ...domain.record import RunRecord
from ...projections.ports import ProjectionState
from ..judging import is_lost, overlaid, ready_after, renewed
from .deliveries import KeyValueDeliveries
from .epoch import KeyValueEpoch
from .events import event_of, is_at_end, write_events
from .exclusion import KeyValueExclusion
from .history import KeyValueHistory
from .pruning import KeyValuePruning, is_buried
from .recorder import KeyValueRecorder
from .rows import marked_deliveries, place_in, put_delivery, put_row, read_row, set_aside
from .space import Space, key_of, since_epoch, under


class KeyValueStore(
    KeyValuePruning,
    KeyValueHistory,
    KeyValueDeliveries,
    KeyValueEpoch,
    KeyValueExclusion,
    KeyValueRecorder,
    JournalStore,
):
    """A JournalStore for whoever has an ordered map with transactions: two methods make a backend.

    A subclass gives `transaction` and `close`, and says how far its transactions reach. It is right
    wherever transactions are serializable, and as fast as the map is: a claim looks at what is due,
    `due_deliveries` at the whole outbox. Prove it with `runjournal.adapters.contract`.
    """

    #: How far transactions exclude one another: a claim of the subclass's own.
    atomicity: Atomicity = "process"

    def __init__(self) -> None:
        super().__init__()
        self._local = local()

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
        with self._within() as space:
            row = read_row(space, run_id)
            return Reading(None if row is None else overlaid(row), now or self.now())

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        with self._within() as space:
            return self._append(space, changes, guard, now or self.now())

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        replies = {}
        with self._within() as space:
            instant = now or self.now()
            for lease in leases:
                row = read_row(space, lease.run_id)
                reply = renewed(row, lease, instant)
                if row is not None and reply is not None:
                    put_row(space, row.record, reply.deadline)
                    replies[lease.run_id] = reply
        return replies

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        granted: list[Granted] = []
        with self._within() as space:
            instant = now or self.now()
            self._epoch_in(space)  # by which the grants are decided
            beyond = key_of("due", since_epoch(instant) + 1)
            for parts, kind in under(space, "due", before=beyond):
                if len(granted) >= limit:
                    break
                if kinds is not None and kind.decode() not in kinds:
                    continue
                run_id = parts[2]
                try:
                    row = read_row(space, run_id)
                    if row is None:
                        continue
                    changes = grant(overlaid(row), instant)
                except RunStoreError as e:
                    if e.code not in SETS_ASIDE:
                        raise
                    set_aside(space, run_id, e.message)
                    continue
                record = changes[0].record
                reply = self._append(space, changes, None, instant)
                if reply is not None and isinstance(record, RunRecord) and record.lease:
                    granted.append(Granted(record, reply))
        return granted

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        found: list[StoredEvent] = []
        with self._within() as space:
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
        with self._within() as space:
            begin = None
            if after is not None:
                begin = place_in(space, "created", after)
                if begin is None:
                    return []
            for parts, _ in under(space, "created", after=begin):
                if len(found) >= limit:
                    break
                row = read_row(space, parts[2])
                if row is None:
                    continue
                if status in (None, row.record.status) and kind in (None, row.record.kind):
                    found.append(overlaid(row))
        return found

    def set_aside(self, run_id: str, reason: str) -> None:
        with self._within() as space:
            if place_in(space, "due", run_id) is None:
                return
            try:
                row = read_row(space, run_id)
            except RunStoreError:
                row = None
            if row is None or row.record.lease is None:
                set_aside(space, run_id, reason)

    def attention(self) -> list[Attention]:
        with self._within() as space:
            runs = [Attention(parts[1], why.decode()) for parts, why in under(space, "aside")]
            return runs + marked_deliveries(space)

    def projection_states(self) -> list[ProjectionState]:
        """None: there is no place for rows of the users' own projections."""
        return []

    @contextmanager
    def _within(self) -> Iterator[Space]:
        space: Space | None = getattr(self._local, "space", None)
        if space is not None:
            yield space
            return
        with self.transaction() as space:
            self._local.space = space
            try:
                yield space
            finally:
                self._local.space = None

    def _append(
        self, space: Space, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        """Write all changes, or nothing where a guard is lost."""
        change, *further = changes
        record = change.record
        assert isinstance(record, RunRecord)  # the first change is the run's
        row = read_row(space, record.run_id)
        if is_lost(row, change, guard, instant, self._epoch_in(space)):
            return None
        if not all(is_at_end(space, each) for each in changes):
            return None
        if row is None and is_buried(space, change.stream):
            return None
        ready_at, moved = ready_after(row, record, guard, instant)
        put_row(space, record, ready_at)
        for delivery in further:
            assert not isinstance(delivery.record, RunRecord)  # only deliveries
            put_delivery(space, delivery.record)
        for each in changes:
            write_events(space, each)
        return Reply(instant, ready_at if record.lease else None, moved)
