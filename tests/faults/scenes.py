"""A journal, whoever meets a fault on it, and the heirs who go on afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, get_args

from runjournal import Journal, RunStoreError
from runjournal.domain.errors import (
    RUN_ALREADY_TERMINAL,
    RUN_LEASE_LOST,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
)

from .checker import Ack, check, read_raw
from .failpoints import Failpoints, When
from .life import Life, later

WHEN: tuple[When, ...] = get_args(When)

#: raise      the driver fails once
#: gone       it fails, and so does all that is tried after it
#: interrupt  KeyboardInterrupt
#: hang       nothing happens until somebody else, for whom the lease is over, did what he could
FAULTS = ("raise", "gone", "interrupt", "hang")
#: What whoever met the fault may be told, if not that all is well.
MET = {
    "raise": {RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE},
    # "Nothing to do": what was sent is left for somebody to report on, which is no error.
    "gone": {RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE, "nothing to do"},
    "interrupt": {"KeyboardInterrupt"},
    "hang": {RUN_LEASE_LOST, RUN_ALREADY_TERMINAL, "nothing to do"},
}


class Scene(NamedTuple):
    """A journal for whoever meets the faults, another for the heirs, and what both were told."""

    backend: str
    url: str
    first: Journal
    heirs: Journal
    points: Failpoints
    acks: list[Ack]
    received: list[str]

    def life(self, run_id: str) -> Life:
        return Life(
            self.first, run_id, f"first of {run_id}", self.acks.append, self.received.append
        )

    def heir(self, run_id: str) -> Life:
        return Life(
            self.heirs, run_id, f"heir of {run_id}", self.acks.append, self.received.append, later
        )

    def check(self) -> None:
        if self.backend != "memory":
            assert check(read_raw(self.url), self.acks, self.received) == []
        assert self.heirs.verify().findings == []

    def meet(
        self,
        fault: str,
        spot: tuple[int, When],
        act: Callable[[], bool],
        meanwhile: Callable[[], object],
    ) -> str:
        """Act with one fault at this spot; "nothing" where all is well, or what was told.

        act        whether there was anything to do
        meanwhile  what somebody else does while it hangs
        """
        points = self.points

        def happen(fail: Callable[[], None]) -> None:
            if fault == "interrupt":
                raise KeyboardInterrupt
            if fault == "hang":
                points.on = False
                self._try(meanwhile)
                points.on = True
                return
            points.gone = fault == "gone"
            fail()

        points.reset()
        points.choose(*spot, happen)
        points.on = True
        try:
            told = "nothing" if act() else "nothing to do"
        except RunStoreError as error:
            told = error.code
        except KeyboardInterrupt:
            told = "KeyboardInterrupt"
        points.on = False
        assert points.fired, f"boundary {spot[0]} was not reached"
        if told != "nothing":
            assert told in MET[fault], (points.crossed[spot[0]], spot, told)
        # Whoever met the fault is not damaged by it.
        self.first.ledger().start("another", command_id="another")
        return told

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except RunStoreError as error:
            # A transaction that hangs keeps others out of the file.
            if (self.backend, error.reason) != ("sqlite", "busy"):
                raise
