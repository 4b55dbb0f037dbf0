"""One step of a projection: the next page of the journal, folded into its rows."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Protocol

from ...domain.checks import refuse
from ...domain.errors import RUN_CONFLICT, RunStoreError
from ...domain.ports import RunStore
from ...projections.batch import Batch, Plan, plan, project
from ...projections.ports import Poison, ProjectionStore
from ...projections.projector import Projector, check_projector
from ..codec import OrjsonCodec
from ..event_log import EventLog, LogStore


class ProjectingStore(RunStore, ProjectionStore, LogStore, Protocol):
    """A store that can keep projections: every one of ours."""


class Step(NamedTuple):
    """A page that was projected and is not written yet.

    batch     the rows to write, and the event that could not be projected
    position  how far they come: right before that event
    events    how many events changed a row
    """

    batch: Batch
    position: int
    events: int


class Projecting:
    """A projector, and the journal that it reads."""

    def __init__(self, store: ProjectingStore, codec: OrjsonCodec, projector: Projector) -> None:
        if not hasattr(store, "save_projection"):
            raise refuse("argument", "this journal's store keeps no projections")
        check_projector(projector, codec.registry.topics)
        self.store = store
        self.codec = codec
        self.projector = projector
        self.name = projector.name
        self.version = projector.projection_version

    def log(self, after: int) -> EventLog:
        """The journal after a position, as far as the projector wants to see it."""
        return EventLog(self.store, after, self.codec.registry.stored_topics(self.projector.topics))

    def step(self, log: EventLog, table: str, limit: int, head: int) -> Step:
        """Read the next page and fold it into the rows of this table; nothing is written."""
        page = log.page(limit, head)
        planned = plan(self.projector, [(n, partial(self.codec.open, e)) for n, e in page])
        batch = self._fold(planned, table)
        poison = batch.poison
        events = [e for e in planned.events if poison is None or e.position < poison.position]
        position = log.position if poison is None else poison.position - 1
        return Step(batch, position, len(events))

    def _fold(self, planned: Plan, table: str) -> Batch:
        rows = self.store.projection_rows(table, planned.keys) if planned.keys else {}
        return project(
            self.projector,
            planned,
            rows,
            lambda row: self.codec.encode(row, "row").data,
            self.codec.decode,
        )

    def not_projected(self, poison: Poison) -> RunStoreError:
        """The error that tells of an event that could not be projected."""
        return RunStoreError(
            RUN_CONFLICT,
            "not_projected",
            f"projection {self.name} cannot project the event at position {poison.position}: "
            f"{poison.error}",
        )
