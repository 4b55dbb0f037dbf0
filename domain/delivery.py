"""One result on its way to whoever waits for it: a stream of its own, so that sending never
touches the run.

`DeliveryRequested` is written in the very append that ends a run with a delivery_ref. It names
the run's terminal event, and that event's hash, instead of copying it: the event is immutable, so
the request is too. An attempt is claimed by appending `DeliveryAttempted`: the stream's version
decides who sends. What became of it is `DeliverySucceeded` or `DeliveryUnknown`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import AwareDatetime, ConfigDict
from pydantic.alias_generators import to_camel

from .chain import fingerprint
from .events import Event, RunEvent
from .record import RunRecord
from .trusted import TrustedModel

DELIVERY_STREAM = "delivery/"


class DeliveryStatus(StrEnum):
    """pending: not tried yet. delivered: the receiver has it. unknown: tried, and not known to."""

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
    kind: str
    delivery_ref: str
    terminal_version: int
    terminal_hash: str


class DeliveryAttempted(DeliveryEvent):
    """`owner` sends it now, for the `attempt`-th time; nobody else does before `expires_at`."""

    topic: ClassVar[str] = "delivery.attempted"

    attempt: int
    owner: str
    expires_at: AwareDatetime


class DeliverySucceeded(DeliveryEvent):
    """The receiver has it."""

    topic: ClassVar[str] = "delivery.succeeded"

    attempt: int


class DeliveryUnknown(DeliveryEvent):
    """The attempt failed, or nobody knows what became of it.

    definite         the receiver surely does not have it; else it may
    next_attempt_at  when it is tried again; None: when somebody asks for that
    """

    topic: ClassVar[str] = "delivery.unknown"

    attempt: int
    error: str
    definite: bool
    next_attempt_at: AwareDatetime | None = None


DELIVERY_EVENTS: tuple[type[DeliveryEvent], ...] = (
    DeliveryRequested,
    DeliveryAttempted,
    DeliverySucceeded,
    DeliveryUnknown,
)


class Sending(TrustedModel):
    """An attempt that is under way: whose it is, and until when nobody else may try."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    owner: str
    started_at: AwareDatetime
    expires_at: AwareDatetime


class DeliveryRecord(TrustedModel):
    """A row of the delivery outbox: a projection of the delivery's stream.

    attempts         how often it was tried
    sending          the attempt under way, if any
    trying_since     the first attempt since it was last left to somebody's decision
    next_attempt_at  when it is due; while it is being sent, when that attempt is given up; None
                     once it is delivered, or until somebody asks for another attempt
    error, definite  what the last attempt said: see DeliveryUnknown
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    invocation_id: str
    run_id: str
    kind: str
    delivery_ref: str
    terminal_version: int
    terminal_hash: str
    status: DeliveryStatus = DeliveryStatus.PENDING
    version: int
    attempts: int = 0
    sending: Sending | None = None
    trying_since: AwareDatetime | None = None
    next_attempt_at: AwareDatetime | None = None
    error: str | None = None
    definite: bool | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime
    head: str

    @property
    def needs_attention(self) -> bool:
        """Whether it is not delivered and will not be tried again by itself."""
        return self.status is DeliveryStatus.UNKNOWN and self.next_attempt_at is None


# What is made of a validated event is valid.
_SENDING_FIELDS = set(Sending.model_fields)
_DEFAULTS = {
    name: field.get_default()
    for name, field in DeliveryRecord.model_fields.items()
    if not field.is_required()
}


def delivery_stream(invocation_id: str) -> str:
    """The name of a delivery's stream."""
    return DELIVERY_STREAM + invocation_id


def delivery_invocation_id(run_id: str, delivery_ref: str) -> str:
    """The delivery's stable id: what a receiver deduplicates by."""
    return "delivery-" + fingerprint(run_id, delivery_ref, "terminal")


def request_delivery(record: RunRecord, terminal: RunEvent) -> DeliveryRequested | None:
    """The event that puts a just ended run's result into the outbox, if anybody waits for it.

    `record` is the run's after `terminal`, so its head is that event's hash.
    """
    if record.delivery_ref is None or not record.is_terminal:
        return None
    invocation_id = delivery_invocation_id(record.run_id, record.delivery_ref)
    return DeliveryRequested(
        originator_id=delivery_stream(invocation_id),
        originator_version=1,
        timestamp=terminal.timestamp,
        actor=terminal.actor,
        command_id=terminal.command_id,
        causation_id=terminal.command_id,
        run_id=record.run_id,
        kind=record.kind,
        delivery_ref=record.delivery_ref,
        terminal_version=terminal.originator_version,
        terminal_hash=record.head,
    )


def evolve_delivery(record: DeliveryRecord | None, event: Event, head: str) -> DeliveryRecord:
    """The outbox row after `event`, whose hash is `head`."""
    if record is None and type(event) is DeliveryRequested:
        return _requested(event, head)
    if record is None:
        raise ValueError(f"no meaning for {event.topic} at version {event.originator_version}")
    changes: dict[str, object] = {
        "version": event.originator_version,
        "updated_at": event.timestamp,
        "head": head,
    }
    if isinstance(event, DeliveryAttempted):
        by_itself = record.attempts > 0 and record.next_attempt_at is not None
        changes |= {
            "attempts": event.attempt,
            "sending": Sending.trusted(
                {
                    "owner": event.owner,
                    "started_at": event.timestamp,
                    "expires_at": event.expires_at,
                },
                _SENDING_FIELDS,
            ),
            "trying_since": record.trying_since if by_itself else event.timestamp,
            "next_attempt_at": event.expires_at,
        }
    elif isinstance(event, DeliverySucceeded):
        changes |= {
            "status": DeliveryStatus.DELIVERED,
            "sending": None,
            "next_attempt_at": None,
            "error": None,
            "definite": None,
        }
    elif isinstance(event, DeliveryUnknown):
        changes |= {
            "status": DeliveryStatus.UNKNOWN,
            "sending": None,
            "next_attempt_at": event.next_attempt_at,
            "error": event.error,
            "definite": event.definite,
        }
    return DeliveryRecord.trusted(record.__dict__ | changes, record.__pydantic_fields_set__)


def _requested(event: DeliveryRequested, head: str) -> DeliveryRecord:
    fields = {
        "invocation_id": event.invocation_id,
        "run_id": event.run_id,
        "kind": event.kind,
        "delivery_ref": event.delivery_ref,
        "terminal_version": event.terminal_version,
        "terminal_hash": event.terminal_hash,
        "version": event.originator_version,
        "next_attempt_at": event.timestamp,
        "created_at": event.timestamp,
        "updated_at": event.timestamp,
        "head": head,
    }
    return DeliveryRecord.trusted(_DEFAULTS | fields, set(fields))
