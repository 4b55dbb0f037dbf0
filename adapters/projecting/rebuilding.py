"""Rebuilding a user's projection: beside the old one, which serves until the new one is whole."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...domain.errors import (
    RUN_CONFLICT,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RunStoreError,
)
from ...domain.history_store import ExclusiveHold
from ...projections.ports import ProjectionState, Shadow
from ...projections.projector import Projector, hold_name
from ..codec import OrjsonCodec
from ..event_log import PAGE
from ..logs import fields
from .projecting import Projecting, ProjectingStore

if TYPE_CHECKING:
    from ..stopping import Interrupt

log = logging.getLogger("runjournal.projections")

#: How often the swap is tried while others hold the row, and the first pause between two tries.
TRIES = 10
FIRST_PAUSE = 0.02
#: Seconds between two looks at a head that is below what the old rows have.
BEHIND_POLL = 0.1


class RebuildProgress(NamedTuple):
    """How far a rebuild has come.

    position  everything up to here is in the new rows
    head      the gap-free head of the journal at that moment
    events    how many events changed a row so far
    """

    position: int
    head: int
    events: int


class Rebuilt(NamedTuple):
    """What a rebuild did.

    name      the projection
    finished  whether the new rows serve; False if it was interrupted, and the old ones serve on
    position  how far the new rows come
    events    how many events changed a row
    """

    name: str
    finished: bool
    position: int
    events: int


def rebuild_projection(
    store: ProjectingStore,
    codec: OrjsonCodec,
    projector: Projector,
    progress: Callable[[RebuildProgress], object] | None = None,
    interrupt: Interrupt | None = None,
) -> Rebuilt:
    """Project the whole journal into new rows, and put them in the place of the old ones.

    progress   called after each page
    interrupt  when it is set, the rebuild stops and leaves the old rows in service

    Its runner, and a second rebuild, are refused meanwhile; readers and writers go on. Raises
    RUN_CONFLICT: already_running, or not_projected at an event that cannot be projected; the old
    rows serve on.
    """
    projecting = Projecting(store, codec, projector)
    with store.exclusive(hold_name(projecting.name)) as hold:
        old = store.create_projection(projecting.name, projecting.version)
        store.drop_unused(projecting.name)  # what a killed rebuild has left
        shadow = store.create_shadow(projecting.name)
        try:
            done = _fill(projecting, hold, old, shadow, progress, interrupt)
        except BaseException:
            _clean_up(store, projecting.name)
            raise
        _clean_up(store, projecting.name)
        return done


def _fill(
    projecting: Projecting,
    hold: ExclusiveHold,
    old: ProjectionState,
    shadow: Shadow,
    progress: Callable[[RebuildProgress], object] | None,
    interrupt: Interrupt | None,
) -> Rebuilt:
    """Fill the shadow up to the head, and promote it."""
    events = projecting.log(0)
    position = changed = 0
    while interrupt is None or not interrupt.is_set():
        head = events.head()
        # Also once there is nothing: where the head was met, the rows are whole.
        step = projecting.step(events, shadow.table, PAGE, head)
        if step.batch.poison is not None:
            raise projecting.not_projected(step.batch.poison)
        hold.check()
        if step.batch.writes:
            projecting.store.fill_shadow(shadow.table, step.batch.writes)
        position, changed = step.position, changed + step.events
        if progress is not None:
            progress(RebuildProgress(position, head, changed))
        if position >= max(head, old.position):
            _promote(projecting, hold, old, shadow, position)
            return Rebuilt(projecting.name, True, position, changed)
        if position >= head:
            # A head below what the old rows have: somebody's transaction is open, and this process
            # cannot yet know that it fills no old hole. Readers must not go back behind it.
            time.sleep(BEHIND_POLL)
    return Rebuilt(projecting.name, False, position, changed)


def _promote(
    projecting: Projecting,
    hold: ExclusiveHold,
    old: ProjectionState,
    shadow: Shadow,
    position: int,
) -> None:
    """Put the shadow into service, for a moment at a time, until it is."""
    pause = FIRST_PAUSE
    for attempt in range(1, TRIES + 1):
        hold.check()
        try:
            if projecting.store.promote_shadow(old, shadow, projecting.version, position):
                return
        except RunStoreError as e:
            if e.code not in (RUN_STORE_UNAVAILABLE, RUN_OUTCOME_UNKNOWN) or attempt == TRIES:
                raise
            about = fields(error=e, projection=projecting.name, pause=pause)
            log.info("projection %s is swapped a little later: %s", projecting.name, e, extra=about)
            time.sleep(pause)
            pause *= 2
            continue
        state = projecting.store.projection_state(projecting.name)
        if state is not None and state.table == shadow.table:
            return  # it was done, and the reply was lost
        break
    raise RunStoreError(
        RUN_CONFLICT, "already_running", f"another rebuild of {projecting.name} has begun"
    )


def _clean_up(store: ProjectingStore, name: str) -> None:
    """Drop what is not in service; the next rebuild does it where this cannot."""
    try:
        store.drop_unused(name)
    except RunStoreError as e:
        about = fields(error=e, projection=name)
        log.info("tables of projection %s are left for the next rebuild: %s", name, e, extra=about)
