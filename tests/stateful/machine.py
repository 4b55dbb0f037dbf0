"""The machine: workers, an operator and senders on lines that lose, against the model.

Each rule asks the journal and the model for the same, and both must answer alike. After each
step everything that is stored must be what the model says.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition

from . import model
from . import model_of_holders as holders
from .keeping import Keeping
from .lines import FINE
from .operating import Operating
from .pruning import Pruning
from .putting_back import PuttingBack
from .sending import Sending
from .steps import commands, leases, step, workers
from .working import Working


class JournalMachine(Operating, Working, Sending, Keeping, Pruning, PuttingBack):
    """Enrolled for a backend by a subclass with its `home` and a `folder` for its files."""

    @initialize(target=commands)
    def a_is_started(self) -> Any:
        return self._operate(FINE, "a", model.start, "inbox", None, None)

    @initialize(target=commands)
    def b_is_over(self) -> Any:
        self._operate(FINE, "b", model.start, "inbox", None, None)
        return self._operate(FINE, "b", model.cancel, "superseded")

    @initialize(target=commands)
    def d_is_over(self) -> Any:
        """Nobody waits for its result: it may be pruned."""
        command = self._operate(FINE, "d", model.start, None, None, None)
        self._operate(FINE, "d", model.give_up, "fail")
        return command

    @initialize(target=leases)
    def ann_begins(self) -> Any:
        return self._take(FINE, "a", "ann", "acquire")

    @step(seconds=st.sampled_from([1, 4, 6, 6, 10, 25]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @step(seconds=st.sampled_from([1, 6, 25]), beats=st.booleans())
    def clock_is_set_back(self, seconds: int, beats: bool) -> None:
        """Leases last longer by that; who may write is still told by the token."""
        self.clock.advance(-seconds)
        for lease in self.held if beats else ():
            self._hold(lease, FINE, holders.renew, lease.handle.renew)
            self._adopt_prolonged()
        self.held.clear()  # their clock is the same here: one that is over would begin again

    @step(who=workers)
    def restart(self, who: str) -> None:
        """A new process under the old name. The old one is cut off, not dead: it may wake up."""
        self.ledgers[who] = self._ledger(who)

    @precondition(lambda self: self.late)
    @step(newest=st.booleans())
    def late_request_arrives(self, newest: bool) -> None:
        request, sent = self.late.pop(-1 if newest else 0)
        lands = self._lands(sent) and not (sent.by and not self._live(sent.run_id))
        assert request() is lands
        if lands:
            self._land(sent)
