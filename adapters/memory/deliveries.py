"""The outbox in memory: the DeliveryStore port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from eventsourcing.persistence import IntegrityError

from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.delivery_store import DeliveryReading, DueDelivery
from ...domain.ports import Attention, Change
from .recorder import Commit, MemoryProcessRecorder, library_event

if TYPE_CHECKING:
    from .recorder import Tables


@dataclass(slots=True)
class DeliveryRow:
    """A delivery's row: its record, and why it was set aside."""

    record: DeliveryRecord
    attention: str | None = None


class MemoryDeliveries(MemoryProcessRecorder):
    """What MemoryStore does for deliveries."""

    def __init__(self, tables: Tables | None = None) -> None:
        super().__init__(tables)
        self.outbox: dict[str, DeliveryRow] = {}

    def now(self) -> datetime:
        raise NotImplementedError

    def _open(self) -> Tables:
        raise NotImplementedError

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        with self._open():
            row = self.outbox.get(invocation_id)
            return DeliveryReading(None if row is None else row.record, now or self.now())

    def advance_delivery(self, change: Change) -> bool:
        record = change.record
        assert isinstance(record, DeliveryRecord)  # a delivery's change
        with self._open() as tables:
            row = self.outbox.get(record.invocation_id)
            if row is None or row.record.version != change.expected_version:
                return False
            if change.expected_head not in (None, row.record.head):
                return False
            events = tuple(library_event(e) for e in change.events)
            write = put(self.outbox, record.invocation_id, DeliveryRow(record))
            try:
                tables.publish(Commit(events, None, (write,)))
            except IntegrityError:
                return False  # the stream is already past its expected version
            return True

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        with self._open():
            instant = now or self.now()
            due = [
                (row.record.next_attempt_at, row.record.invocation_id, row.record.delivery_ref)
                for row in self.outbox.values()
                if row.record.status is status
                and row.attention is None
                and row.record.next_attempt_at is not None
                and row.record.next_attempt_at <= instant
                and (refs is None or row.record.delivery_ref in refs)
                and row.record.delivery_ref not in but
            ]
            return [DueDelivery(*identity) for _, *identity in sorted(due)[:limit]]

    def deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        with self._open():
            return [
                row.record
                for invocation_id, row in sorted(self.outbox.items())
                if status in (None, row.record.status)
                and (not attention or (row.record.needs_attention and row.attention is None))
                and (after is None or invocation_id > after)
            ][:limit]

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        with self._open():
            row = self.outbox.get(invocation_id)
            if row is not None:
                row.attention = reason

    def delivery_attention(self) -> list[Attention]:
        """The runs whose delivery was set aside."""
        return [
            Attention(row.record.run_id, row.attention)
            for _, row in sorted(self.outbox.items())
            if row.attention is not None
        ]


def put(table: dict[str, Any], key: str, value: Any) -> Callable[[], None]:
    """A write of a commit: this row under this key."""
    return lambda: table.__setitem__(key, value)
