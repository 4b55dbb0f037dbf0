"""How the machine asks the journal and the model for the same, and what it knows of open writes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

from . import model
from .lines import DOWN, FINE, NEVER_ARRIVE, Line
from .model import EPOCH, Refused, Run
from .model_of_pruning import versions
from .processes import OK, UNAVAILABLE, UNKNOWN, Answer, Lease, Processes, Sent, answer_of


class Asking(Processes):
    """Ask as the operator, for a lease, or for whatever is due."""

    def _operate(
        self,
        trouble: str,
        run_id: str,
        wanted: Any,
        *args: Any,
        command_id: str | None = None,
    ) -> Any:
        """Ask for it as the operator; the command, so that it can be asked for again."""
        command_id = command_id or next(self.command_ids)
        call: Any = getattr(
            self.operator, {"give_up": "fail"}.get(wanted.__name__, wanted.__name__)
        )
        if wanted is model.start:
            given = dict(zip(("delivery_ref", "available_at", "parent_run_id"), args, strict=True))
            call = partial(call, run_id, **given, command_id=command_id)
        else:
            call = partial(call, run_id, *args, command_id=command_id)
        line: Any = self.operator._engine.store

        def asked(run: Run, now: Any) -> None:
            model.operate(run, now, command_id, wanted, *args)

        answer, record, _ = self._ask(line, run_id, trouble, asked, call)
        if answer == OK:
            assert record == self._stored(run_id)
        return command_id, run_id, wanted, *args

    def _take(self, trouble: str, run: str, who: str, how: str) -> Lease | None:
        ledger = self.ledgers[who]
        line: Any = ledger._engine.store
        wanted = partial(model.acquire if how == "acquire" else model.restore, owner=who)
        call = partial(getattr(ledger, how), run, heartbeat=False)
        answer, handle, _ = self._ask(line, run, trouble, wanted, call)
        return self._granted(handle, line) if answer == OK else None

    def _granted(self, handle: Any, line: Line) -> Lease:
        # Acquiring again fences the owner's older handle, which finds out at its next call.
        self.held = [h for h in self.held if (h.run_id, h.owner) != (handle.run_id, handle.owner)]
        return self._taken(handle, line)

    def _ask(
        self,
        line: Line,
        run_id: str,
        trouble: str,
        wanted: model.Rule,
        call: Callable[[], Any],
        by: Lease | None = None,
    ) -> tuple[Answer, Any, Sent]:
        """Ask the model and the journal; what was answered, and what was sent."""
        if self.epoch_unknown and by is None and trouble != DOWN:
            trouble = FINE  # what makes a token is refused once, and decided again
        run = self.runs[run_id]
        after, expected = self._foretell(run, wanted)
        sent = Sent(run_id, by, self.now, versions(run), self._heads(run_id), after)
        self.sent.append(sent)
        with line.in_trouble(trouble):
            answer, value = answer_of(call)
        if line.late is not None:
            self.late.append((line.late, sent))
        if trouble == DOWN:
            assert answer == UNAVAILABLE
            return answer, value, sent
        if line.lost and trouble.endswith("then down"):
            assert answer == UNKNOWN
            if trouble in NEVER_ARRIVE:
                return answer, value, sent
        else:
            assert answer == expected, f"{answer}, and by the model {expected}"
        if after is not None:
            self._landed(sent, after)
        return answer, value, sent

    def _landed(self, sent: Sent, after: Run) -> None:
        if sent.by is None and after["token"] != self.runs[sent.run_id].get("token", 0):
            self.epoch_unknown = False
        if sent.by is not None and after["owner"] is None:
            self._let_go(sent.run_id, sent.by)
        sent.landed = self.moment
        self.runs[sent.run_id] = after

    def _foretell(self, run: Run, wanted: model.Rule) -> tuple[Run | None, Answer]:
        after = deepcopy(run)
        try:
            wanted(after, self.now)
        except Refused as refused:
            model.in_epoch(run, after, self.state.epoch)
            return after if versions(after) != versions(run) else None, refused.args
        model.in_epoch(run, after, self.state.epoch)
        return after, OK

    def _lands(self, sent: Sent) -> bool:
        run, after = self.runs[sent.run_id], sent.after
        if after is None or versions(after) == sent.versions:
            return False
        if versions(run) != sent.versions or self._heads(sent.run_id) != sent.heads:
            return False
        took_over = after["attempt"] > run.get("attempt", 1)
        if (took_over or after["outcome"] == "attempts_exhausted") and self._live(sent.run_id):
            return False  # the clock was set back, and the lease lasts again
        new_token = after["token"] != run.get("token", 0)
        return sent.by is not None or not new_token or after["token"] > self.state.epoch * EPOCH

    def _land(self, sent: Sent) -> None:
        """It was decided then and is written now: what the store counts begins now."""
        after = sent.after
        assert after is not None
        before = self.runs[sent.run_id]
        if after["status"] == "queued" and after["ready_at"] == sent.at:
            after["ready_at"] = self.now
        if after["owner"] is not None:
            after["deadline"] = self.now + model.TTL
            same = bool(before) and before["token"] == after["token"]
            if same and before["deadline"] - self.now >= model.TTL / 2:
                after["deadline"] = before["deadline"]
            after["ready_at"] = after["deadline"]
        self.prolonged = sent.run_id
        self._landed(sent, after)

    def _claimed(self, who: str) -> str | None:
        """Which run a claim has granted. It looks at what is due, the longest due first."""
        due = [name for name, run in self.runs.items() if model.due(run, self.now)]
        since = {name: self.runs[name]["ready_at"] for name in due}
        seen = [n for n in due if self._stored(n).version > len(self.runs[n]["history"])]
        granted = None
        for name in seen:
            after, answer = self._foretell(self.runs[name], partial(model.acquire, owner=who))
            assert after is not None
            self.runs[name] = after
            if answer == OK:
                assert granted is None
                granted = name
        last = None if granted is None else since[granted]
        for name in due:
            assert name not in seen or last is None or since[name] <= last
            assert name in seen or (last is not None and since[name] >= last)
        return granted
