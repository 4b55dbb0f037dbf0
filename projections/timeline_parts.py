"""What a timeline consists of: holdings, losses, suspensions, decisions, actions, a delivery.

The JSON form has the names in camelCase, as records have.
"""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from ..domain.delivery import DeliveryStatus
from ..domain.record import RunRecord

HoldingEnd = Literal[
    "taken over",
    "reacquired",
    "released",
    "suspended",
    "expired",
    "completed",
    "failed",
    "cancelled",
    "not on record",
]


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Checkpoints(_Part):
    """What one holder saved. `marks` are some of the times, evenly thinned out."""

    count: int = 0
    bytes: int = 0
    first_at: AwareDatetime | None = None
    last_at: AwareDatetime | None = None
    last_version: int | None = None
    marks: tuple[AwareDatetime, ...] = ()


class Holding(_Part):
    """One lease: who held the run under which token, from when to when.

    version  of the event that granted it
    ttl      seconds it lasted without renewal, at the grant
    until    None while it lasts, as far as is known
    ended    taken over: the lease had run out, and somebody got the next one; reacquired: the
             same owner asked again while it lasted; expired: it ran out and nobody has the run;
             not on record: the events do not say, which only happens to a damaged run
    after    the token of the holder that it took over from, if any
    """

    owner: str
    fencing_token: int
    attempt: int
    version: int
    ttl: float
    since: AwareDatetime
    until: AwareDatetime | None = None
    ended: HoldingEnd | None = None
    after: int | None = None
    checkpoints: Checkpoints = Checkpoints()


class Suspension(_Part):
    """A time in which the run waited. `undecided` approvals have no decision in it."""

    version: int
    since: AwareDatetime
    until: AwareDatetime | None = None
    ended: Literal["resumed", "failed", "cancelled"] | None = None
    pending_approval_ids: tuple[str, ...]
    resume_when_decided: bool
    undecided: tuple[str, ...]


class Decision(_Part):
    """Who decided what."""

    version: int
    at: AwareDatetime
    approval_id: str
    decision: str
    actor: str | None


class Action(_Part):
    """What was asked from outside the lease, and by whom; and every cancel.

    A holder that cancels its run is the actor by its name as an owner.
    """

    version: int
    at: AwareDatetime
    what: Literal["started", "resumed", "failed", "cancelled"]
    actor: str | None
    message: str | None = None


class Loss(_Part):
    """A lease that ran out while its holder had the run.

    last_sign   the holder's last event
    live_until  the lease cannot have run out before, as far as the events tell: renewals are none
    noticed_at  when it was taken over or given up, or now
    idle        seconds between these two: at most so long, nobody could work on the run
    """

    owner: str
    fencing_token: int
    last_sign: AwareDatetime
    live_until: AwareDatetime
    noticed_at: AwareDatetime
    idle: float


class DeliveryTry(_Part):
    """One attempt to deliver. `result` is None while it is under way."""

    attempt: int
    owner: str
    at: AwareDatetime
    until: AwareDatetime | None = None
    result: Literal["delivered", "failed", "unknown"] | None = None
    error: str | None = None


class DeliveryTimeline(_Part):
    """The way of the run's result to whoever waits for it."""

    invocation_id: str
    delivery_ref: str
    status: DeliveryStatus
    requested_at: AwareDatetime
    attempts: tuple[DeliveryTry, ...] = ()


class Timeline(_Part):
    """What happened to a run, in the order of its events. `record` is the run's after them."""

    record: RunRecord
    events: int
    holdings: tuple[Holding, ...]
    losses: tuple[Loss, ...]
    suspensions: tuple[Suspension, ...]
    decisions: tuple[Decision, ...]
    actions: tuple[Action, ...]
    delivery: DeliveryTimeline | None
