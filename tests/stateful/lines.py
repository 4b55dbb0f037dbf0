"""A line between a ledger and its store, on which requests and replies get lost or come late."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from runjournal.adapters.contract import LosesReplies
from runjournal.domain.errors import RunStoreError
from runjournal.domain.ports import (
    Change,
    Clock,
    Granted,
    Granting,
    Guard,
    LeaseRef,
    Reply,
    RunStore,
)

FINE = "fine"
DOWN = "down"
#: What can befall one command: how the line loses it, how often, and whether it then is down.
TROUBLES = {
    FINE: ("", 0, False),
    "reply lost": ("replies", 1, False),
    "two replies lost": ("replies", 2, False),
    "request lost": ("requests", 1, False),
    "request late": ("delays", 1, False),
    "reply lost, then down": ("replies", 1, True),
    "request lost, then down": ("requests", 1, True),
    "request late, then down": ("delays", 1, True),
    DOWN: ("", 0, True),
}
#: Nothing of the command has arrived when the line is down.
NEVER_ARRIVE = (
    "request lost",
    "request late",
    "request lost, then down",
    "request late, then down",
)


class Line(LosesReplies):
    """One process's connection. A late request arrives when `late` is called, or never."""

    def __init__(self, store: RunStore, clock: Clock) -> None:
        super().__init__(store)
        self.delays = 0
        self.lost = False
        self.late: Callable[[], bool] | None = None
        self._clock = clock

    @contextmanager
    def in_trouble(self, trouble: str) -> Iterator[None]:
        """In the block the line is as TROUBLES says; `lost` tells afterwards whether it lost."""
        what, times, self.stays_down = TROUBLES[trouble]
        self.lost, self.late = False, None
        self.cut_off = trouble == DOWN
        if what:
            setattr(self, what, times)
        yield
        self.replies = self.requests = self.delays = 0
        self.cut_off = False

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        self._delay(lambda: self.store.append(changes, guard, self._clock()) is not None)
        return super().append(changes, guard, now, patience)

    def advance_delivery(self, change: Change) -> bool:
        self._delay(lambda: self.store.advance_delivery(change))
        return super().advance_delivery(change)

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        self._reach()
        return super().renew(leases, now)

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        if self.requests or self.delays:
            raise self._lost("the request did not arrive")
        return super().claim(kinds, limit, grant, now)

    def _delay(self, request: Callable[[], bool]) -> None:
        if self.delays and not self.cut_off:
            self.delays -= 1
            self.late = request
            raise self._lost("the request did not arrive yet")

    def _lost(self, what: str) -> RunStoreError:
        self.lost = True
        return super()._lost(what)
