"""The rules of workers: taking leases, sharing them, writing under them, letting go."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple

from . import model_of_holders as holders
from .holding import Holding
from .lines import DOWN, FINE, NEVER_ARRIVE
from .model import Run
from .processes import OK, UNAVAILABLE, UNKNOWN, Lease, answer_of
from .steps import delays, leases, runs, step, troubles, workers


class Working(Holding):
    @step(
        target=leases,
        trouble=troubles,
        run=runs,
        who=workers,
        how=st.sampled_from(["acquire", "acquire", "restore"]),
    )
    def take(self, trouble: str, run: str, who: str, how: str) -> Any:
        taken = self._take(trouble, run, who, how)
        return multiple() if taken is None else taken

    @step(target=leases, trouble=troubles, who=workers)
    def claim(self, trouble: str, who: str) -> Any:
        ledger = self.ledgers[who]
        line: Any = ledger._engine.store
        if self.epoch_unknown and trouble != DOWN:
            trouble = FINE
        with line.in_trouble(trouble):
            answer, handle = answer_of(lambda: ledger.claim(heartbeat=False))
        if answer != OK:
            assert answer == (UNAVAILABLE if trouble == DOWN else UNKNOWN)
            assert line.lost or trouble == DOWN
            handle = None
        arrived = answer == OK or (answer == UNKNOWN and trouble not in NEVER_ARRIVE)
        granted = self._claimed(who) if arrived else None
        if handle is None:
            assert answer == UNKNOWN or granted is None
            return multiple()
        assert handle.run_id == granted
        return self._granted(handle, line)

    @step(target=leases, lease=leases, who=workers)
    def adopt(self, lease: Lease, who: str) -> Any:
        adopted = self._adopt(lease, who)
        return multiple() if adopted is None else adopted

    @step(lease=leases, trouble=troubles)
    def renew(self, lease: Lease, trouble: str) -> None:
        self._hold(lease, trouble, holders.renew, lease.handle.renew)

    @step(lease=leases, trouble=troubles, state=st.integers(0, 9))
    def save_checkpoint(self, lease: Lease, trouble: str, state: int) -> None:
        self._hold(lease, trouble, holders.save_checkpoint, lease.handle.save_checkpoint, state)

    @step(
        lease=leases,
        trouble=troubles,
        approvals=st.sampled_from([[], ["x"], ["x"], ["x", "y"]]),
        by_itself=st.booleans(),
    )
    def suspend(self, lease: Lease, trouble: str, approvals: list[str], by_itself: bool) -> None:
        by_itself = by_itself and bool(approvals)
        self._hold(lease, trouble, holders.suspend, lease.handle.suspend, approvals, by_itself)

    @step(lease=leases, trouble=troubles, error=st.sampled_from([None, "broke"]), delay=delays)
    def release(self, lease: Lease, trouble: str, error: str | None, delay: int | None) -> None:
        call = partial(lease.handle.release, "done here")
        self._hold(lease, trouble, holders.release, call, error, self._in(delay))

    @step(
        lease=leases, trouble=troubles, how=st.sampled_from(["complete", "fail", "cancel", *"---"])
    )
    def end(self, lease: Lease, trouble: str, how: str) -> None:
        """Half of the time it does not, so that there is more to see."""
        if how == "complete":
            self._hold(lease, trouble, holders.complete, partial(lease.handle.complete, 1, "code"))
        elif how == "fail":
            self._hold(lease, trouble, holders.fail, partial(lease.handle.fail, "code"))
        elif how == "cancel":

            def cancel(run: Run, now: datetime, token: int) -> None:
                # Asked for only once it is known what became of an open write.
                holders.cancel_own(run, now, token, again=lease.left is not None)

            self._hold(lease, trouble, cancel, lease.handle.cancel)
