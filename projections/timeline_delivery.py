"""The timeline of a delivery: who tried to send a run's result, when, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..domain.delivery import (
    DeliveryAttempted,
    DeliveryRecord,
    DeliverySucceeded,
    DeliveryUnknown,
    evolve_delivery,
)
from ..domain.events import Event
from .timeline_parts import DeliveryTimeline, DeliveryTry


def delivery_timeline(events: Iterable[Event]) -> DeliveryTimeline | None:
    """The timeline of a delivery's events; None when there are none."""
    record: DeliveryRecord | None = None
    tries: dict[int, DeliveryTry] = {}
    for event in events:
        record = evolve_delivery(record, event, event.hash)
        if isinstance(event, DeliveryAttempted):
            tries[event.attempt] = DeliveryTry(
                attempt=event.attempt, owner=event.owner, at=event.timestamp
            )
        elif isinstance(event, DeliverySucceeded | DeliveryUnknown) and event.attempt in tries:
            # A sender that was given up may still report that the receiver has it.
            tries[event.attempt] = tries[event.attempt].model_copy(update=_result(event))
    if record is None:
        return None
    return DeliveryTimeline(
        invocation_id=record.invocation_id,
        delivery_ref=record.delivery_ref,
        status=record.status,
        requested_at=record.created_at,
        attempts=tuple(tries.values()),
    )


def _result(event: DeliverySucceeded | DeliveryUnknown) -> dict[str, Any]:
    result: dict[str, Any] = {"until": event.timestamp, "result": "delivered", "error": None}
    if isinstance(event, DeliveryUnknown):
        result["result"] = "failed" if event.definite else "unknown"
        result["error"] = event.error
    return result
