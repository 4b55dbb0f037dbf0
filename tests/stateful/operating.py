"""The rules of an operator: what is asked of a run from outside its lease."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition

from . import model
from .asking import Asking
from .lines import FINE
from .processes import OK, answer_of
from .steps import commands, delays, runs, step, troubles


class Operating(Asking):
    @step(
        target=commands,
        run=st.sampled_from(["b", "c", "d"]),
        ref=st.sampled_from([None, "inbox"]),
        delay=delays,
        parent=st.sampled_from([None, "b", "d", "d"]),
    )
    def start(self, run: str, ref: str | None, delay: int | None, parent: str | None) -> Any:
        return self._operate(FINE, run, model.start, ref, self._in(delay), parent)

    @step(
        target=commands,
        trouble=troubles,
        run=runs,
        how=st.sampled_from(["fail", "fail", "fail", "cancel"]),
    )
    def stop(self, trouble: str, run: str, how: str) -> Any:
        return self._operate(trouble, run, model.cancel if how == "cancel" else model.give_up, how)

    @precondition(
        lambda self: any("suspended" in run.get("history", ()) for run in self.runs.values())
    )
    @step(target=commands, trouble=troubles, run=runs)
    def request_resume(self, trouble: str, run: str) -> Any:
        return self._operate(trouble, run, model.request_resume)

    @precondition(lambda self: any(run and run["approvals"] for run in self.runs.values()))
    @step(
        target=commands,
        trouble=troubles,
        run=runs,
        approval=st.sampled_from(["x", "y"]),
        decision=st.sampled_from(["yes", "no"]),
    )
    def record_decision(self, trouble: str, run: str, approval: str, decision: str) -> Any:
        return self._operate(trouble, run, model.record_decision, approval, decision)

    @step(trouble=troubles, command=commands)
    def same_command_again(self, trouble: str, command: Any) -> None:
        command_id, run_id, *asked = command
        run = self.runs[run_id]
        landed = command_id in run.get("commands", {})
        answer, outcome = answer_of(lambda: self.operator.resolve(command_id, run_id))
        if run and run["pruned"] and not landed:
            assert answer == ("RUN_NOT_FOUND", "pruned")
        else:
            assert (answer, outcome.applied) == (OK, landed)
        self._operate(trouble, run_id, *asked, command_id=command_id)

    @step(command=commands, other=commands)
    def other_command_under_its_id(self, command: Any, other: Any) -> None:
        self._operate(FINE, *other[1:], command_id=command[0])
