"""The rules of senders, who deliver the results of ended runs."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import multiple

from . import model_of_deliveries as deliveries
from .asking import Asking
from .lines import FINE
from .model import Rule, Run
from .processes import OK, invocation
from .steps import delays, senders, sendings, sent_runs, step, troubles


class Sending(Asking):
    @step(target=sendings, trouble=troubles, run=sent_runs, who=senders)
    def attempt(self, trouble: str, run: str, who: str) -> Any:
        sender = self.senders[who]
        line: Any = sender._store
        expected: list[bool] = []

        def wanted(run: Run, now: datetime) -> None:
            expected.append(deliveries.attempt(run, now, who))

        call = partial(sender.attempt, invocation(run))
        answer, claimed, _ = self._ask(line, run, trouble, wanted, call)
        if answer != OK:
            return multiple()
        assert (claimed is not None) is expected[0]
        return multiple() if claimed is None else (run, who, claimed.record)

    @step(
        sending=sendings,
        trouble=troubles,
        how=st.sampled_from(["succeeded", "doubted"]),
        delay=delays,
    )
    def report(self, sending: Any, trouble: str, how: str, delay: int | None) -> None:
        run, who, claimed = sending
        sender = self.senders[who]
        line: Any = sender._store
        wanted: Rule = deliveries.succeeded
        call = partial(sender.succeeded, claimed)
        if how == "doubted":
            at = self._in(delay)
            wanted = partial(deliveries.doubted, number=claimed.attempts, next_at=at)
            call = partial(sender.doubted, claimed, "no answer", definite=False, next_attempt_at=at)
        self._ask(line, run, trouble, wanted, call)

    @step(run=sent_runs, who=senders, delay=delays)
    def expire(self, run: str, who: str, delay: int | None) -> None:
        sender = self.senders[who]
        line: Any = sender._store
        at = self._in(delay)
        call = partial(sender.expire, invocation(run), lambda _: at)
        self._ask(line, run, FINE, partial(deliveries.expire, next_at=at), call)
