"""DeliveryStore: what the rules of deliveries need from a store. Part of the RunStore port."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .delivery import DeliveryRecord, DeliveryStatus

if TYPE_CHECKING:
    from .ports import Change


class DeliveryReading(NamedTuple):
    """A delivery's outbox row, and when it was read."""

    record: DeliveryRecord | None
    now: datetime


class DueDelivery(NamedTuple):
    """A delivery that is due, and where it goes."""

    invocation_id: str
    delivery_ref: str


class DeliveryStore(Protocol):
    """Storage of the outbox. Rows are made by `RunStore.append`, with the end of their run.

    Errors every method may raise, and `now`: as for RunStore.
    """

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        """The outbox row as stored. Raises RUN_INTEGRITY_ERROR / unreadable_record."""
        ...

    def advance_delivery(self, change: Change) -> bool:
        """Write a delivery's next events and its row, or nothing.

        Guards of the store: the row is at the expected version, which is at least 1, and at the
        expected head where one is named, and the stream is not past it. False if one is lost.
        """
        ...

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        """Deliveries with this status whose `next_attempt_at` has come, longest due first.

        refs  only those with one of these delivery refs
        but   none with one of these
        """
        ...

    def deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        """Outbox rows in the order of their ids, after the id `after`.

        attention  only those that wait for somebody's decision (`needs_attention`)

        A row that cannot be read is set aside and left out; `RunStore.attention` names it.
        """
        ...

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        """Take a row that cannot be read out of what is due; its next event puts it back.

        Nothing else about it changes.
        """
        ...
