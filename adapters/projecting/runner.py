"""ProjectionRunner: keeps the rows of one projection up with the journal, and reads them."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager
from typing import NamedTuple

from ...domain.checks import check_identifier, check_integer, check_optional, check_seconds
from ...domain.errors import (
    RUN_CONFLICT,
    RUN_OUTCOME_UNKNOWN,
    RunStoreError,
)
from ...domain.history_store import ExclusiveHold
from ...projections.ports import Poison, ProjectionState
from ...projections.projector import Projector, Row, hold_name
from ..clocks import ticks
from ..codec import OrjsonCodec
from ..event_log import PAGE, EventLog
from ..logs import fields
from ..rows import unreadable
from ..stopping import Interrupt, idle
from .projecting import Projecting, ProjectingStore

log = logging.getLogger("runjournal.projections")

#: Seconds after which a runner begins again whose store was away.
BEGIN_AGAIN = 1.0
#: Seconds between two looks of `wait_for`: at first, and at most.
LOOKS = (0.005, 0.1)


class Lag(NamedTuple):
    """How far a projection is behind the journal.

    events   positions up to the gap-free head that it has not come to yet. An upper bound for the
             events: some positions stay empty, and those it ignores count
    seconds  how old the first event is that it has not come to; None if there is none, or it
             cannot be read
    """

    events: int
    seconds: float | None


class ProjectionRunner:
    """Runs one projection, in this process or another, and reads its rows. Thread-safe.

    At most one runner projects at a time; any number may read. Made by `journal.projection`.
    """

    def __init__(self, store: ProjectingStore, codec: OrjsonCodec, projector: Projector) -> None:
        self._projecting = Projecting(store, codec, projector)
        self._store = store
        self.name = self._projecting.name

    # Projecting.

    def run(self, interrupt: Interrupt, poll: float = 0.1) -> None:
        """Project until `interrupt` is set: the loop of a process of its own.

        poll  seconds between two looks at the journal when there is nothing new

        A store that is away for a while does not end it. Raises RUN_CONFLICT: already_running at
        the start, if another one runs or rebuilds it; not_projected when it is parked, or parks;
        projection_version if another version of the projector made the rows.
        """
        check_seconds(poll, "poll")
        begun = False
        while not interrupt.is_set():
            try:
                with self._exclusive() as hold:
                    begun = True
                    self._follow(hold, interrupt, poll)
            except RunStoreError as e:
                if not begun or not e.retryable:
                    raise
                about = fields(error=e, projection=self.name)
                log.warning("projection %s begins again: %s", self.name, e, extra=about)
                idle(interrupt, BEGIN_AGAIN)

    def catch_up(self, limit: int | None = None, interrupt: Interrupt | None = None) -> int:
        """Project what the journal holds now, at most `limit` events; how many changed a row.

        interrupt  once it is set, it ends after the page at hand

        Raises as `run`.
        """
        if limit is not None:
            check_integer(limit, "limit", least=1)
        done = 0
        with self._exclusive() as hold:
            state = self._begin()
            events = self._projecting.log(state.position)
            head = events.head()
            while state.position < head and (limit is None or done < limit):
                if interrupt is not None and interrupt.is_set():
                    break
                room = PAGE if limit is None else min(PAGE, limit - done)
                state, events, projected = self._step(hold, state, events, room, head)
                done += projected
        return done

    def resume(self) -> bool:
        """Take the mark of a parked projection away, so that it may run; whether it had one.

        It goes on with the event at which it was parked.
        """
        state = self.state()
        if state is None or state.parked_at is None:
            return False
        return self._store.resume_projection(self.name, state.parked_at)

    def _exclusive(self) -> AbstractContextManager[ExclusiveHold]:
        return self._store.exclusive(hold_name(self.name))

    def _begin(self) -> ProjectionState:
        """The projection as it is stored, if this projector may go on with it."""
        state = self._store.create_projection(self.name, self._projecting.version)
        self._check(state)
        return state

    def _follow(self, hold: ExclusiveHold, interrupt: Interrupt, poll: float) -> None:
        state = self._begin()
        events = self._projecting.log(state.position)
        while not interrupt.is_set():
            head = events.head()
            if head <= state.position:
                idle(interrupt, poll)
                hold.check()  # an idle one would not notice that it runs no more
            else:
                state, events, _ = self._step(hold, state, events, PAGE, head)

    def _step(
        self, hold: ExclusiveHold, state: ProjectionState, events: EventLog, limit: int, head: int
    ) -> tuple[ProjectionState, EventLog, int]:
        """Project one page and save it; parks, and raises, at an event that cannot be projected."""
        try:
            step = self._projecting.step(events, state.table, limit, head)
        finally:
            hold.check()  # also when reading failed: where the hold was lost, that is why
        try:
            saved = self._store.save_projection(
                state, step.batch.writes, step.position, step.batch.poison
            )
        except RunStoreError as e:
            if e.code != RUN_OUTCOME_UNKNOWN:
                raise
            saved = None
        if saved is None:
            # The reply was lost, or somebody else was first: what is stored tells how far it came.
            state = self._begin()
            return state, self._projecting.log(state.position), 0
        if step.batch.poison is not None:
            at = step.batch.poison.position
            about = fields(projection=self.name, position=at)
            log.error("projection %s is parked at position %d", self.name, at, extra=about)
            raise self._projecting.not_projected(step.batch.poison)
        return saved, events, step.events

    # Reading.

    def get(self, key: str) -> Row | None:
        """The row under this key; None if there is none.

        Raises RUN_CONFLICT / projection_version if another version of the projector made the rows,
        and RUN_INTEGRITY_ERROR / unreadable_record for a row that is damaged.
        """
        state, body = self._store.projection_row(self.name, check_identifier(key, "the key"))
        self._check_version(state)
        return None if body is None else self._row(key, body)

    def rows(self, limit: int = 100, after: str | None = None) -> list[tuple[str, Row]]:
        """Rows with their keys, in the order of the keys; `after` is where the last page ended.

        Raises as `get`.
        """
        check_integer(limit, "limit", least=1, most=10_000)
        state, found = self._store.projection_page(
            self.name, limit, check_optional(after, "the key")
        )
        self._check_version(state)
        return [(key, self._row(key, body)) for key, body in found]

    def _row(self, key: str, body: bytes) -> Row:
        try:
            row: Row = self._projecting.codec.decode(body)
        except ValueError as e:
            raise unreadable(f"row {key!r} of projection {self.name}", str(e)) from e
        return row

    def state(self) -> ProjectionState | None:
        """Where it stands; None before it first ran."""
        return self._store.projection_state(self.name)

    def lag(self) -> Lag:
        """How far it is behind the journal. Asked of the store, whoever runs it."""
        state = self.state()
        events = EventLog(self._store, 0 if state is None else state.position)
        head = events.head()
        behind = max(0, head - events.position)
        first = events.page(1, head)
        try:
            at = self._projecting.codec.open(first[0][1]).timestamp if first else None
        except RunStoreError:
            at = None
        now = self._store.now()
        return Lag(behind, None if at is None else max(0.0, (now - at).total_seconds()))

    def wait_for(
        self,
        position: int | None = None,
        timeout: float = 10.0,
        interrupt: Interrupt | None = None,
    ) -> bool:
        """Wait until everything up to a position is in the rows; whether it came to that.

        position   None: all that is committed now, and so what you have just written
        timeout    seconds to wait at most
        interrupt  once it is set, it waits no longer

        Somebody must be running it. Raises RUN_CONFLICT / not_projected if it is parked before
        that, and as `get`.
        """
        if position is None:
            position = self._store.last_position()
        check_integer(position, "position", least=0)
        until = ticks() + check_seconds(timeout, "timeout")
        pause = LOOKS[0]
        while True:
            state = self.state()
            self._check_version(state)
            if position <= (0 if state is None else state.position):
                return True
            if state is not None:
                self._check_parked(state)
            left = until - ticks()
            if left <= 0 or (interrupt is not None and interrupt.is_set()):
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 2, LOOKS[1])

    # Checks.

    def _check(self, state: ProjectionState) -> None:
        self._check_version(state)
        self._check_parked(state)

    def _check_version(self, state: ProjectionState | None) -> None:
        version = self._projecting.version
        if state is not None and state.projection_version != version:
            raise RunStoreError(
                RUN_CONFLICT,
                "projection_version",
                f"the rows of projection {self.name} were made by version "
                f"{state.projection_version} of its projector; this is version {version}",
            )

    def _check_parked(self, state: ProjectionState) -> None:
        if state.parked_at is not None:
            raise self._projecting.not_projected(Poison(state.parked_at, state.parked_error or ""))
