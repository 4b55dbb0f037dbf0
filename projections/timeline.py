"""The timeline of a run: who held it under which token, and what happened around that.

Read from the events alone, in one pass. What a run of 100,000 events costs is its grants,
decisions and deliveries; checkpoints are counted, and a few of them kept to be drawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from ..domain.events import (
    TERMINAL_EVENTS,
    ApprovalDecided,
    CheckpointSaved,
    Event,
    LeaseGranted,
    LeaseReleased,
    ResumeRequested,
    RunCancelled,
    RunFailed,
    RunQueued,
    RunSuspended,
)
from ..domain.record import RunRecord
from ..domain.run import evolve
from .timeline_delivery import delivery_timeline
from .timeline_parts import (
    Action,
    Checkpoints,
    Decision,
    DeliveryTimeline,
    Holding,
    HoldingEnd,
    Loss,
    Suspension,
    Timeline,
)

#: Of a holding's checkpoints, between so many and twice as many times are kept to be drawn.
MARKS_KEPT = 32


def timeline(
    events: Iterable[Event],
    delivery: Iterable[Event] = (),
    *,
    now: datetime | None = None,
    stored: RunRecord | None = None,
) -> Timeline | None:
    """The timeline of a run's events, read from a store; None when there are none.

    delivery  the events of the run's delivery
    now       the store's time: whether the present lease has run out is judged by it
    stored    the record as the store has it: its lease's deadline counts the renewals, which are
              no events
    """
    reading = _Reading()
    for event in events:
        reading.see(event)
    return reading.conclude(delivery_timeline(delivery), now, stored)


class _Reading:
    def __init__(self) -> None:
        self.record: RunRecord | None = None
        self.events = 0
        self.holdings: list[Holding] = []
        self.losses: list[Loss] = []
        self.suspensions: list[Suspension] = []
        self.decisions: list[Decision] = []
        self.actions: list[Action] = []
        self.held: _Held | None = None

    def see(self, event: Event) -> None:
        before, self.record = self.record, evolve(self.record, event, event.hash)
        self.events += 1
        if isinstance(event, CheckpointSaved):
            if self.held is not None:
                self.held.saved(event)
        elif isinstance(event, LeaseGranted):
            if self.held is not None:
                self._end_holding(event, *_next_grant(self.held.grant, event))
            self._end_suspension(event, "resumed")
            self.held = _Held(event)
        elif isinstance(event, LeaseReleased):
            self._end_holding(event, "released")
        elif isinstance(event, RunSuspended):
            self._end_holding(event, "suspended")
            self.suspensions.append(_suspension(event))
        elif isinstance(event, ApprovalDecided):
            self._decided(event)
        elif isinstance(event, ResumeRequested):
            self._act(event, "resumed")
            self._end_suspension(event, "resumed")
        elif isinstance(event, RunQueued):
            self._act(event, "started")
        elif isinstance(event, TERMINAL_EVENTS):
            self._ended(event, before)

    def conclude(
        self, delivery: DeliveryTimeline | None, now: datetime | None, stored: RunRecord | None
    ) -> Timeline | None:
        if self.record is None:
            return None
        record, last = self.record, None
        if self.held is not None:
            # Somebody may have written between the reading of the record and of the events.
            token = record.fencing_token
            if stored is not None and stored.lease is not None and stored.fencing_token == token:
                record = record.with_deadline(stored.lease.expires_at)
            if now is not None and record.lease is not None and now >= record.lease.expires_at:
                ran_out = record.lease.expires_at
                self.losses.append(self.held.loss(now, ran_out))
                last = self.held.over(ran_out, "expired")
            else:
                last = self.held.over(None, None)
        return Timeline(
            record=record,
            events=self.events,
            holdings=(*self.holdings, last) if last else tuple(self.holdings),
            losses=tuple(self.losses),
            suspensions=tuple(self.suspensions),
            decisions=tuple(self.decisions),
            actions=tuple(self.actions),
            delivery=delivery,
        )

    def _ended(self, event: Event, before: RunRecord | None) -> None:
        how: HoldingEnd = "completed"
        if isinstance(event, RunFailed):
            how = "failed"
            # From outside, a run that is held can be failed only when its lease has run out.
            if self.held is not None and event.fencing_token > self.held.grant.fencing_token:
                how = "expired"
            if event.command_digest is not None:  # an operator's command
                self._act(event, "failed", event.outcome.message)
            self._end_suspension(event, "failed")
        elif isinstance(event, RunCancelled):
            how = "cancelled"
            self._act(event, "cancelled", event.outcome.message)
            self._end_suspension(event, "cancelled")
        self._end_holding(event, how, how == "expired")

    def _end_holding(self, event: Event, how: HoldingEnd, lost: bool = False) -> None:
        if self.held is None:
            return
        if lost:
            self.losses.append(self.held.loss(event.timestamp))
        self.holdings.append(self.held.over(event.timestamp, how))
        self.held = None

    def _end_suspension(self, event: Event, how: Literal["resumed", "failed", "cancelled"]) -> None:
        if self.suspensions and self.suspensions[-1].until is None:
            ended = {"until": event.timestamp, "ended": how}
            self.suspensions[-1] = self.suspensions[-1].model_copy(update=ended)

    def _decided(self, event: ApprovalDecided) -> None:
        self.decisions.append(
            Decision(
                version=event.originator_version,
                at=event.timestamp,
                approval_id=event.approval_id,
                decision=event.decision,
                actor=event.actor,
            )
        )
        if self.suspensions:
            last = self.suspensions[-1]
            left = tuple(a for a in last.undecided if a != event.approval_id)
            self.suspensions[-1] = last.model_copy(update={"undecided": left})

    def _act(
        self,
        event: Event,
        what: Literal["started", "resumed", "failed", "cancelled"],
        message: str | None = None,
    ) -> None:
        self.actions.append(
            Action(
                version=event.originator_version,
                at=event.timestamp,
                what=what,
                actor=event.actor,
                message=message,
            )
        )


def _next_grant(held: LeaseGranted, next_one: LeaseGranted) -> tuple[HoldingEnd, bool]:
    """How a lease ended that the next grant came upon, and whether it had run out."""
    if next_one.took_over is None:
        return "not on record", False
    lost = next_one.attempt > held.attempt
    return ("taken over" if lost else "reacquired"), lost


class _Held:
    """The lease that is being read."""

    def __init__(self, grant: LeaseGranted) -> None:
        self.grant = grant
        self.last_sign = grant.timestamp
        self.live_until = grant.timestamp + timedelta(seconds=grant.ttl)
        self._count = self._bytes = 0
        self._first: CheckpointSaved | None = None
        self._last: CheckpointSaved | None = None
        self._marks: list[datetime] = []
        self._every = 1

    def saved(self, event: CheckpointSaved) -> None:
        if self._count % self._every == 0:
            self._marks.append(event.timestamp)
            if len(self._marks) == 2 * MARKS_KEPT:
                del self._marks[1::2]
                self._every *= 2
        self._count += 1
        self._bytes += event.size
        self._first, self._last = self._first or event, event
        self.last_sign = event.timestamp
        # A checkpoint leaves at least half of the lease's time: see RunStore.append.
        half = event.timestamp + timedelta(seconds=self.grant.ttl / 2)
        self.live_until = max(self.live_until, half)

    def over(self, until: datetime | None, how: HoldingEnd | None) -> Holding:
        grant, first, last = self.grant, self._first, self._last
        return Holding(
            owner=grant.owner,
            fencing_token=grant.fencing_token,
            attempt=grant.attempt,
            version=grant.originator_version,
            ttl=grant.ttl,
            since=grant.timestamp,
            until=until,
            ended=how,
            after=grant.took_over.fencing_token if grant.took_over else None,
            checkpoints=Checkpoints(
                count=self._count,
                bytes=self._bytes,
                first_at=first.timestamp if first else None,
                last_at=last.timestamp if last else None,
                last_version=last.originator_version if last else None,
                marks=tuple(self._marks),
            ),
        )

    def loss(self, noticed_at: datetime, ran_out: datetime | None = None) -> Loss:
        live_until = min(ran_out or self.live_until, noticed_at)
        return Loss(
            owner=self.grant.owner,
            fencing_token=self.grant.fencing_token,
            last_sign=self.last_sign,
            live_until=live_until,
            noticed_at=noticed_at,
            idle=(noticed_at - live_until).total_seconds(),
        )


def _suspension(event: RunSuspended) -> Suspension:
    return Suspension(
        version=event.originator_version,
        since=event.timestamp,
        pending_approval_ids=event.pending_approval_ids,
        resume_when_decided=event.resume_when_decided,
        undecided=event.pending_approval_ids,
    )
