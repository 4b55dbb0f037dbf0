"""Which ended runs may be removed, as a pure rule: decided by when they ended, never by their age.

A run that somebody still needs is held back, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from .delivery import DeliveryRecord, DeliveryStatus
from .record import RunRecord

#: Why a run is held back.
#:
#:   undelivered  its result has not reached its receiver
#:   live_child   a run that names it as its parent has not ended
#:   projection   a projection has not passed all of its events
#:   busy         somebody else was at work on it
#:   damaged      its record, its delivery or its events cannot be read
REASONS = ("undelivered", "live_child", "projection", "busy", "damaged")


class Ended(NamedTuple):
    """A run that has ended, and what tells whether it may go.

    record      None where it cannot be read
    delivery    the row of its result; None where it has none, or none that can be read
    live_child  a run that has not ended and names this one as its parent
    position    of the last of its events, its delivery's included; None where one is not there
    """

    run_id: str
    ended_at: datetime
    record: RunRecord | None
    delivery: DeliveryRecord | None
    live_child: str | None
    position: int | None


class Held(NamedTuple):
    """A run that stays: one of REASONS, and what exactly holds it, for people."""

    run_id: str
    reason: str
    detail: str


def held_back(ended: Ended, passed: Mapping[str, int]) -> Held | None:
    """Why this run must stay; None if it may go.

    passed  the projections that have to have seen its events, and how far each has come
    """
    run_id, _, record, delivery, child, position = ended
    if record is None:
        return Held(run_id, "damaged", "its record cannot be read")
    if record.delivery_ref is not None:
        if delivery is None:
            return Held(run_id, "damaged", "its delivery is not there, or cannot be read")
        if delivery.status is not DeliveryStatus.DELIVERED:
            return Held(
                run_id, "undelivered", f"delivery {delivery.invocation_id} is {delivery.status}"
            )
    if child is not None:
        return Held(run_id, "live_child", f"its child {child!r} has not ended")
    if position is None:
        return Held(run_id, "damaged", "its last event is not there")
    for name, reached in passed.items():
        if reached < position:
            return Held(
                run_id, "projection", f"projection {name!r} is at {reached}, it ends at {position}"
            )
    return None
