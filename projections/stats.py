"""JournalStats: how a journal stands, in numbers; made of a store's survey."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from ..domain.delivery import DeliveryStatus
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..domain.status import TERMINAL_STATUSES, RunLifecycleStatus
from .inspection import Survey
from .ports import ProjectionState


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class RunCount(_Part):
    """How many runs of a kind have a status."""

    kind: str
    status: RunLifecycleStatus
    count: int


class DeliveryCount(_Part):
    """How many deliveries have a status."""

    status: DeliveryStatus
    count: int


class ProjectionStats(_Part):
    """How far a projection of the users' own has come, and how many positions it is behind."""

    name: str
    position: int
    lag: int
    parked: bool


class JournalStats(_Part):
    """How a journal stands. Ages are in seconds, by the store's clock; None where there is none.

    runs                    how many there are, by kind and status
    ready                   queued runs that are due; oldest_ready_age: the longest due of them
    held                    runs whose lease has not expired
    abandoned               runs whose lease has expired and that nobody took over yet;
                            oldest_abandoned_age: since the longest ago
    set_aside               runs that were set aside; deliveries_set_aside: deliveries that were
    deliveries              how many there are, by status
    oldest_ended_age        since the end of the run that ended first
    deliveries_waiting      those that wait for somebody's decision
    oldest_undelivered_age  since the end of the run whose result waits the longest
    events                  of the runs and deliveries that are there; the journal's own not counted
    projections             the users' own; lag: positions up to the head, an upper bound for events
    size_bytes              what the journal takes up where it is stored
    """

    at: AwareDatetime
    runs: tuple[RunCount, ...]
    ready: int
    oldest_ready_age: float | None
    held: int
    abandoned: int
    oldest_abandoned_age: float | None
    set_aside: int
    oldest_ended_age: float | None
    deliveries: tuple[DeliveryCount, ...]
    deliveries_waiting: int
    deliveries_set_aside: int
    oldest_undelivered_age: float | None
    events: int
    projections: tuple[ProjectionStats, ...]
    size_bytes: int


def stats_of(survey: Survey, projections: Iterable[ProjectionState]) -> JournalStats:
    """The numbers of a survey. Raises RUN_INTEGRITY_ERROR / unreadable_record."""
    queued = [g for g in survey.runs if g.status == RunLifecycleStatus.QUEUED]
    running = [g for g in survey.runs if g.status == RunLifecycleStatus.RUNNING]
    now = survey.now
    return JournalStats(
        at=now,
        runs=tuple(
            RunCount(kind=g.kind, status=_known(RunLifecycleStatus, g.status), count=g.runs)
            for g in sorted(survey.runs)
        ),
        ready=sum(g.due for g in queued),
        oldest_ready_age=_age(now, (g.due_since for g in queued)),
        held=sum(g.runs - g.due - g.set_aside for g in running),
        abandoned=sum(g.due for g in running),
        oldest_abandoned_age=_age(now, (g.due_since for g in running)),
        set_aside=sum(g.set_aside for g in survey.runs),
        oldest_ended_age=_age(
            now, (g.oldest for g in survey.runs if g.status in TERMINAL_STATUSES)
        ),
        deliveries=tuple(
            DeliveryCount(status=_known(DeliveryStatus, g.status), count=g.deliveries)
            for g in sorted(survey.deliveries)
        ),
        deliveries_waiting=sum(g.waiting for g in survey.deliveries),
        deliveries_set_aside=sum(g.set_aside for g in survey.deliveries),
        oldest_undelivered_age=_age(now, (g.ended_since for g in survey.deliveries)),
        events=sum(g.events for g in survey.runs) + sum(g.events for g in survey.deliveries),
        projections=tuple(
            ProjectionStats(
                name=state.name,
                position=state.position,
                lag=max(0, survey.head - state.position),
                parked=state.parked_at is not None,
            )
            for state in projections
        ),
        size_bytes=survey.size,
    )


_Status = TypeVar("_Status", RunLifecycleStatus, DeliveryStatus)


def _known(statuses: type[_Status], name: str) -> _Status:
    try:
        return statuses(name)
    except ValueError as e:
        message = f"rows of {name!r} are there, which is no status; `verify` names them"
        raise RunStoreError(RUN_INTEGRITY_ERROR, "unreadable_record", message) from e


def _age(now: datetime, moments: Iterable[datetime | None]) -> float | None:
    known = [moment for moment in moments if moment is not None]
    return max(0.0, (now - min(known)).total_seconds()) if known else None
