"""The outbox in a Space: the DeliveryStore port."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.delivery_store import DeliveryReading, DeliveryStore, DueDelivery
from ...domain.errors import RunStoreError
from ...domain.ports import Change
from .events import is_at_end, write_events
from .rows import deliveries_in, delivery_of, mark_delivery, put_delivery, read_delivery
from .space import InSpace, Space, key_of


class KeyValueDeliveries(InSpace, DeliveryStore):
    """What KeyValueStore does for deliveries."""

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        with self._within() as space:
            return DeliveryReading(read_delivery(space, invocation_id), now or self.now())

    def advance_delivery(self, change: Change) -> bool:
        record = change.record
        assert isinstance(record, DeliveryRecord)  # a delivery's change
        with self._within() as space:
            stored = read_delivery(space, record.invocation_id)
            if stored is None or stored.version != change.expected_version:
                return False
            if change.expected_head not in (None, stored.head) or not is_at_end(space, change):
                return False
            write_events(space, change)
            put_delivery(space, record)
        return True

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        with self._within() as space:
            instant = now or self.now()
            due = [
                (record.next_attempt_at, record.invocation_id, record.delivery_ref)
                for record in _readable(space, None)
                if record.status is status
                and record.next_attempt_at is not None
                and record.next_attempt_at <= instant
                and (refs is None or record.delivery_ref in refs)
                and record.delivery_ref not in but
                and space.get(key_of("delivery_aside", record.invocation_id)) is None
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
        with self._within() as space:
            return [
                record
                for record in _readable(space, after)
                if status in (None, record.status)
                and not (attention and _is_waiting_otherwise(space, record))
            ][:limit]

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        with self._within() as space:
            if space.get(key_of("delivery", invocation_id)) is not None:
                mark_delivery(space, invocation_id, reason)


def _readable(space: Space, after: str | None) -> list[DeliveryRecord]:
    """All deliveries after one that can be read; the others are set aside."""
    found = []
    for invocation_id, value in deliveries_in(space, after):
        try:
            found.append(delivery_of(invocation_id, value))
        except RunStoreError as e:
            if space.get(key_of("delivery_aside", invocation_id)) is None:
                mark_delivery(space, invocation_id, e.message)
    return found


def _is_waiting_otherwise(space: Space, record: DeliveryRecord) -> bool:
    aside = space.get(key_of("delivery_aside", record.invocation_id))
    return aside is not None or not record.needs_attention
