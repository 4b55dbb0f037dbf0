"""One result on its way to whoever waits for it: a stream of its own, so that sending never
touches the run.

`DeliveryRequested` is written in the very append that ends a run with a delivery_ref. It names
the run's terminal event instead of copying it: that event is immutable, so the request is too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from .chain import fingerprint
from .events import Event, RunEvent
from .record import RunRecord

DELIVERY_STREAM = "delivery/"


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    UNKNOWN = "unknown"


class DeliveryEvent(Event):
    """An event of a delivery's stream."""

    @property
    def invocation_id(self) -> str:
        return self.originator_id.removeprefix(DELIVERY_STREAM)


class DeliveryRequested(DeliveryEvent):
    """The result of `run_id`, in its event `terminal_version`, shall reach `delivery_ref`."""

    topic: ClassVar[str] = "delivery.requested"

    run_id: str
    delivery_ref: str
    terminal_version: int


DELIVERY_EVENTS: tuple[type[DeliveryEvent], ...] = (DeliveryRequested,)


class DeliveryRecord(BaseModel):
    """A row of the delivery outbox: a projection of the delivery's stream."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    invocation_id: str
    run_id: str
    delivery_ref: str
    terminal_version: int
    status: DeliveryStatus = DeliveryStatus.PENDING
    version: int
    created_at: AwareDatetime
    updated_at: AwareDatetime
    head: str


def delivery_invocation_id(run_id: str, delivery_ref: str) -> str:
    """The delivery's stable id: what a receiver deduplicates by."""
    return "delivery-" + fingerprint(run_id, delivery_ref, "terminal")


def request_delivery(record: RunRecord, terminal: RunEvent) -> DeliveryRequested | None:
    """The event that puts a just ended run's result into the outbox, if anybody waits for it."""
    if record.delivery_ref is None or not record.is_terminal:
        return None
    return DeliveryRequested(
        originator_id=DELIVERY_STREAM + delivery_invocation_id(record.run_id, record.delivery_ref),
        originator_version=1,
        timestamp=terminal.timestamp,
        actor=terminal.actor,
        command_id=terminal.command_id,
        causation_id=terminal.command_id,
        run_id=record.run_id,
        delivery_ref=record.delivery_ref,
        terminal_version=terminal.originator_version,
    )


def evolve_delivery(
    record: DeliveryRecord | None, event: DeliveryEvent, head: str
) -> DeliveryRecord:
    """The outbox row after `event`, whose hash is `head`."""
    if record is None and isinstance(event, DeliveryRequested):
        return DeliveryRecord(
            invocation_id=event.invocation_id,
            run_id=event.run_id,
            delivery_ref=event.delivery_ref,
            terminal_version=event.terminal_version,
            version=event.originator_version,
            created_at=event.timestamp,
            updated_at=event.timestamp,
            head=head,
        )
    raise ValueError(f"no meaning for {event.topic} at version {event.originator_version}")
