"""MemoryStore: the RunStore port in this process's memory, for tests and single-process use."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from eventsourcing.persistence import IntegrityError

from ...domain.delivery import DeliveryRecord
from ...domain.errors import RUN_VALIDATION_ERROR, RunStoreError
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
from ..judging import is_lost, overlaid, ready_after, renewed
from .deliveries import DeliveryRow, put
from .epoch import MemoryEpoch
from .history import MemoryHistory
from .inspection import MemoryInspection
from .projections import MemoryProjections
from .pruning import MemoryPruning
from .recorder import Commit, Tables, library_event


@dataclass(slots=True)
class Row:
    """A run's row: its record, when it is next due, and why it was set aside."""

    record: RunRecord
    ready_at: datetime | None
    attention: str | None = None


class MemoryStore(MemoryPruning, MemoryHistory, MemoryProjections, MemoryInspection, MemoryEpoch):
    """Streams, records and the outbox in dictionaries, with the semantics of the SQL stores.

    A record is kept as it is: it is frozen, and events are kept as their bytes. `rows[run_id]`
    is a `Row`.
    """

    def __init__(self, tables: Tables | None = None) -> None:
        super().__init__(tables)
        self.rows: dict[str, Row] = {}
        self._gone = ""
        _stores.add(self)

    @property
    def atomicity(self) -> Atomicity:
        return "process"

    def now(self) -> datetime:
        return datetime.now(UTC)

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        with self._open():
            row = self.rows.get(run_id)
            record = None if row is None else overlaid(row)
            return Reading(record, now or self.now())

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        with self._open():
            return self._append(changes, guard, now or self.now())

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        replies = {}
        with self._open():
            instant = now or self.now()
            for lease in leases:
                row = self.rows.get(lease.run_id)
                reply = renewed(row, lease, instant)
                if row is not None and reply is not None:
                    row.ready_at = reply.deadline
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
        with self._open():
            instant = now or self.now()
            due = [
                row
                for row in self.rows.values()
                if row.ready_at is not None
                and row.ready_at <= instant
                and (kinds is None or row.record.kind in kinds)
            ]
            due.sort(key=lambda row: (row.ready_at, row.record.run_id))
            for row in due:
                if len(granted) >= limit:
                    break
                try:
                    changes = grant(overlaid(row), instant)
                except RunStoreError as e:
                    if e.code not in SETS_ASIDE:
                        raise
                    row.ready_at, row.attention = None, e.message
                    continue
                record = changes[0].record
                reply = self._append(changes, None, instant)
                if reply is not None and isinstance(record, RunRecord) and record.lease:
                    granted.append(Granted(record, reply))
        return granted

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        with self._open():
            found = self.select_events(stream, gt=after_version, limit=limit)
        return [
            StoredEvent(str(e.originator_id), e.originator_version, e.topic, e.state) for e in found
        ]

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        with self._open():
            ordered = sorted(self.rows.values(), key=_age)
            if after is not None:
                last = self.rows.get(after)
                ordered = [r for r in ordered if last is not None and _age(r) > _age(last)]
            return [
                overlaid(row)
                for row in ordered
                if status in (None, row.record.status) and kind in (None, row.record.kind)
            ][:limit]

    def set_aside(self, run_id: str, reason: str) -> None:
        with self._open():
            row = self.rows.get(run_id)
            if row is not None and row.attention is None and row.record.lease is None:
                row.ready_at, row.attention = None, reason

    def attention(self) -> list[Attention]:
        with self._open():
            return [
                Attention(run_id, row.attention)
                for run_id, row in sorted(self.rows.items())
                if row.attention is not None
            ] + self.delivery_attention()

    def row_of(self, record: RunRecord, ready_at: datetime | None) -> Row:
        return Row(record, ready_at)

    def close(self) -> None:
        self._gone = "is closed"

    def _open(self) -> Tables:
        if self._gone:
            raise RunStoreError(
                RUN_VALIDATION_ERROR, "closed", f"the journal in memory {self._gone}"
            )
        return self.tables

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        change = changes[0]
        record = change.record
        assert isinstance(record, RunRecord)  # the first change is the run's
        row = self.rows.get(record.run_id)
        if is_lost(row, change, guard, instant, self.epoch):
            return None
        if row is None and self.buried(record.run_id) is not None:
            return None
        ready_at, moved = ready_after(row, record, guard, instant)
        writes: list[Callable[[], None]] = [put(self.rows, record.run_id, Row(record, ready_at))]
        events = [library_event(e) for e in change.events]
        for further in changes[1:]:
            assert isinstance(further.record, DeliveryRecord)  # only deliveries
            writes.append(
                put(self.outbox, further.record.invocation_id, DeliveryRow(further.record))
            )
            events += [library_event(e) for e in further.events]
        try:
            self.tables.publish(Commit(tuple(events), None, tuple(writes)))
        except IntegrityError:
            return None  # one of the streams is already past its expected version
        return Reply(instant, ready_at if record.lease else None, moved)


_stores: weakref.WeakSet[MemoryStore] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """A child has a private copy that nobody would ever read: it must not look like the journal."""
    for store in list(_stores):
        store._gone = "belongs to the parent of this process"


os.register_at_fork(after_in_child=_after_fork_in_child)


def _age(row: Row) -> tuple[datetime, str]:
    return row.record.created_at, row.record.run_id
