"""How the machine asks the journal and the model for the same, and what it knows of open writes."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine
from runjournal import DeploymentLimits, Journal, RunStoreError
from runjournal.adapters.contract.tools import SteppedClock, deliveries_on, ledger_on
from runjournal.domain.lease import RunLeaseHandle
from runjournal.domain.record import RunRecord

from . import model
from .agreement import assert_agreement
from .homes import Home
from .lines import DOWN, FINE, NEVER_ARRIVE, Line
from .model import TTL, Refused, Run

OK = ("ok", "")
UNKNOWN = ("RUN_OUTCOME_UNKNOWN", "reply_lost")
UNAVAILABLE = ("RUN_STORE_UNAVAILABLE", "failed")

Answer = tuple[str, str]


@dataclass(eq=False)
class Sent:
    """A write as it was sent: it lands where the run is as it was, once, now or later."""

    run_id: str
    by_holder: bool
    at: datetime
    versions: tuple[int, int]
    after: Run | None
    landed: bool = False


@dataclass(eq=False)
class Lease:
    """A worker's handle, and what that worker knows.

    left  the run as this holder let go of it: it asks the store no more
    lost  the first loss: it asks the store no more
    open  a write of which it does not know whether it landed
    """

    handle: RunLeaseHandle
    line: Line
    left: Run | None = None
    lost: Answer | None = None
    open: Sent | None = None

    @property
    def run_id(self) -> str:
        return self.handle.run_id

    @property
    def owner(self) -> str:
        return self.handle.owner

    @property
    def token(self) -> int:
        return self.handle.fencing_token

    def wrote(self, after: Run) -> None:
        if after["owner"] is None:
            self.left = deepcopy(after)


class Asking(RuleBasedStateMachine):
    """A journal in its `home`, the processes around it, and the model of its runs."""

    home: ClassVar[Home]
    folder: ClassVar[Path]
    #: Steps that were made in all, for the proof's own report.
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppedClock()
        self.journal: Journal = self.home.new()
        self.runs: dict[str, Run] = {name: {} for name in ("a", "b", "c")}
        self.streams: dict[str, list[tuple[str, str]]] = {}
        self.lines: list[Line] = []
        self.held: list[Lease] = []
        self.late: list[tuple[Callable[[], bool], Sent]] = []
        self.prolonged: str | None = None
        self.command_ids = (f"command-{n}" for n in count(1))
        self.operator = self._ledger("operator")
        self.ledgers = {who: self._ledger(who) for who in ("ann", "bob", "cid")}
        self.senders = {who: self._sender(who) for who in ("sue", "tom")}

    @property
    def now(self) -> datetime:
        return self.clock.now

    def teardown(self) -> None:
        self.home.leave(self.journal)

    def check(self) -> None:
        """What always holds, after each step."""
        type(self).steps += 1
        self._adopt_prolonged()
        assert_agreement(self.journal, self.runs, self.streams, self.now)
        trusting = {(h.run_id, h.owner) for h in self.held if h.handle.held}
        assert len(trusting) == len({run_id for run_id, _ in trusting}), trusting

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
            given = {"delivery_ref": args[0], "available_at": args[1]}
            call = partial(call, run_id, **given, command_id=command_id)
        else:
            call = partial(call, run_id, *args, command_id=command_id)
        line: Any = self.operator._engine.store

        def asked(run: Run, now: datetime) -> None:
            model.operate(run, now, command_id, wanted, *args)

        answer, record, _ = self._ask(line, run_id, trouble, asked, call)
        if answer == OK:
            assert record == self._stored(run_id)
        return command_id, run_id, wanted, *args

    def _hold(
        self, lease: Lease, trouble: str, wanted: Any, call: Callable[..., Any], *args: Any
    ) -> None:
        """Ask for it as the holder."""
        asked: model.Rule = lambda run, now: wanted(run, now, lease.token, *args)  # noqa: E731
        called = partial(call, *args)
        if lease.open is not None:
            trouble = FINE
            refusal = self._settle(lease)
            if refusal is not None:
                assert answer_of(called)[0] == refusal
                return
        elif lease.lost is not None or lease.left is not None:
            trouble = DOWN  # it must not matter
        if lease.lost is not None or lease.left is not None:
            expected = lease.lost or self._foretell(lease.left or {}, asked)[1]
            with lease.line.in_trouble(trouble):
                assert answer_of(called)[0] == expected
            return
        self.prolonged = lease.run_id
        answer, record, sent = self._ask(
            lease.line, lease.run_id, trouble, asked, called, by_holder=True
        )
        if answer == OK:
            run = self.runs[lease.run_id]
            lease.wrote(run)
            known = record or lease.handle.record  # a renewal returns nothing
            assert (known.version, known.status) == (len(run["history"]), run["status"])
        elif answer == UNKNOWN:
            lease.open = sent
        elif answer != UNAVAILABLE:
            lease.lost = answer

    def _settle(self, lease: Lease) -> Answer | None:
        """What a holder's next command first makes of an open write; what it then is refused."""
        sent = lease.open
        assert sent is not None
        if not sent.landed and self._lands(sent):
            if not self._live(lease.run_id):
                return UNKNOWN  # it may have been written in time, and arrive
            self.prolonged = lease.run_id
            self._land(sent)
        lease.open = None
        if sent.landed:
            assert sent.after is not None
            lease.wrote(sent.after)
            return None
        _, lease.lost = self._foretell(
            self.runs[lease.run_id], partial(model.holds, token=lease.token)
        )
        assert lease.lost != OK
        return lease.lost

    def _ask(
        self,
        line: Line,
        run_id: str,
        trouble: str,
        wanted: model.Rule,
        call: Callable[[], Any],
        by_holder: bool = False,
    ) -> tuple[Answer, Any, Sent]:
        """Ask the model and the journal; what was answered, and what was sent."""
        run = self.runs[run_id]
        after, expected = self._foretell(run, wanted)
        sent = Sent(run_id, by_holder, self.now, _versions(run), after)
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
            sent.landed = True
            self.runs[run_id] = after
        return answer, value, sent

    def _foretell(self, run: Run, wanted: model.Rule) -> tuple[Run | None, Answer]:
        after = deepcopy(run)
        try:
            wanted(after, self.now)
        except Refused as refused:
            return after if _versions(after) != _versions(run) else None, refused.args
        return after, OK

    def _lands(self, sent: Sent) -> bool:
        run = self.runs[sent.run_id]
        changes = sent.after is not None and _versions(sent.after) != sent.versions
        return changes and _versions(run) == sent.versions

    def _land(self, sent: Sent) -> None:
        """It was decided then and is written now: what the store counts begins now."""
        after = sent.after
        assert after is not None
        before = self.runs[sent.run_id]
        if after["status"] == "queued" and after["ready_at"] == sent.at:
            after["ready_at"] = self.now
        if after["owner"] is not None:
            if before and before["owner"] == after["owner"]:
                after["deadline"] = max(before["deadline"], after["deadline"])
            after["ready_at"] = after["deadline"]
        self.prolonged = sent.run_id
        sent.landed = True
        self.runs[sent.run_id] = after

    def _claimed(self, who: str) -> str | None:
        """Which run a claim has granted. It looks at what is due, the longest due first."""
        due = [name for name, run in self.runs.items() if model.due(run, self.now)]
        since = {name: self.runs[name]["ready_at"] for name in due}
        seen = [n for n in due if self._stored(n).version > len(self.runs[n]["history"])]
        granted = None
        for name in seen:
            self.runs[name], answer = self._foretell(
                self.runs[name], partial(model.acquire, owner=who)
            )
            if answer == OK:
                assert granted is None
                granted = name
        last = None if granted is None else since[granted]
        for name in due:
            assert name not in seen or last is None or since[name] <= last
            assert name in seen or (last is not None and since[name] >= last)
        return granted

    def _adopt_prolonged(self) -> None:
        """A write under a lease may move its deadline to now + ttl sooner than it must."""
        prolonged, self.prolonged = self.prolonged, None
        if prolonged is not None and self.runs[prolonged]["owner"] is not None:
            lease = self._stored(prolonged).lease
            if lease is not None and lease.expires_at == self.now + TTL:
                self.runs[prolonged].update(deadline=lease.expires_at, ready_at=lease.expires_at)

    def _forget_renewals(self) -> None:
        """What no event holds is gone: renewals, and since when a queued run is due."""
        for name, run in self.runs.items():
            if run and run["owner"] is not None:
                run["deadline"] = run["ready_at"] = run["granted_at"] + TTL
            elif run and run["status"] == "queued":
                record = self._stored(name)
                run["ready_at"] = record.available_at or record.updated_at
        self.held.clear()  # they may trust longer than the store now does: the version fences

    def _taken(self, handle: RunLeaseHandle, line: Line) -> Lease:
        run = self.runs[handle.run_id]
        assert (handle.fencing_token, handle.attempt) == (run["token"], run["attempt"])
        assert handle.checkpoint == run["checkpoint"]
        # Acquiring again fences the owner's older handle, which finds out at its next call.
        self.held = [h for h in self.held if (h.run_id, h.owner) != (handle.run_id, handle.owner)]
        self.held.append(Lease(handle, line))
        return self.held[-1]

    def _ledger(self, who: str) -> Any:
        limits = DeploymentLimits(attempts=model.ATTEMPTS)
        return ledger_on(self._line(), self.clock, who, lease_ttl=TTL, limits=limits)

    def _sender(self, who: str) -> Any:
        return deliveries_on(self._line(), self.clock, who, ttl=TTL.total_seconds())

    def _line(self) -> Line:
        self.lines.append(Line(self.journal.store, self.clock))
        return self.lines[-1]

    def _live_in(self, journal: Journal) -> None:
        self.journal = journal
        for line in self.lines:
            line.store = journal.store

    def _live(self, run_id: str) -> bool:
        run = self.runs[run_id]
        return bool(run) and model.live(run, self.now)

    def _in(self, delay: int | None) -> datetime | None:
        return None if delay is None else self.now + timedelta(seconds=delay)

    def _stored(self, run_id: str) -> RunRecord:
        record = self.journal.store.get(run_id, self.now).record
        assert record is not None
        return record


def answer_of(call: Callable[[], Any]) -> tuple[Answer, Any]:
    """What a call was answered: OK and its value, or its cause and the error."""
    try:
        return OK, call()
    except RunStoreError as error:
        return (error.code, error.reason), error


def _versions(run: Run) -> tuple[int, int]:
    if not run:
        return 0, 0
    return len(run["history"]), len(run["delivery"]["history"]) if run["delivery"] else 0
