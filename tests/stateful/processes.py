"""A journal in its home, and the processes around it: what each of them knows and has sent."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine
from runjournal import DeploymentLimits, Journal, RunStoreError
from runjournal.adapters.contract.tools import SteppedClock, deliveries_on, ledger_on
from runjournal.domain.delivery import delivery_invocation_id
from runjournal.domain.lease import RunLeaseHandle
from runjournal.domain.record import RunRecord

from . import model
from .agreement import State, assert_agreement
from .homes import Home
from .lines import Line
from .model import TTL, Run
from .model_of_holders import grant_of

OK = ("ok", "")
UNKNOWN = ("RUN_OUTCOME_UNKNOWN", "reply_lost")
UNAVAILABLE = ("RUN_STORE_UNAVAILABLE", "failed")

Answer = tuple[str, str]
#: The last hashes of a run's stream and of its delivery's, None where there is none.
Heads = tuple[str | None, str | None]


@dataclass(eq=False)
class Lease:
    """A worker's handle, and what that worker knows.

    known  the version that it wrote last, and its hash; None: it has just learnt the last one
    grant  what tells its grant from another under the same token
    left   the run as this holder let go of it: it asks the store no more
    lost   the first loss: it asks the store no more
    open   a write of which it does not know whether it landed
    """

    handle: RunLeaseHandle
    line: Line
    known: tuple[int, str] | None
    grant: Any
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


@dataclass(eq=False)
class Sent:
    """A write as it was sent: it lands where the run is as it was, once, now or later.

    landed  the moment when it landed, in steps
    """

    run_id: str
    by: Lease | None
    at: datetime
    versions: tuple[int, int]
    heads: Heads
    after: Run | None
    landed: int | None = None


class Processes(RuleBasedStateMachine):
    """A journal in its `home`, the processes around it, and the model of its runs."""

    home: ClassVar[Home]
    folder: ClassVar[Path]
    #: Steps that were made in all, for the proof's own report.
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.clock = SteppedClock()
        self.journal: Journal = self.home.new()
        self.state = State(
            runs={name: {} for name in ("a", "b", "c", "d")}, epoch=self._store.read_epoch()
        )
        self.moment = 0
        #: Whether the processes may not know yet that another one has begun an epoch.
        self.epoch_unknown = False
        self.lines: list[Line] = []
        self.held: list[Lease] = []
        self.sent: list[Sent] = []
        self.late: list[tuple[Callable[[], bool], Sent]] = []
        self.prolonged: str | None = None
        self.command_ids = (f"command-{n}" for n in count(1))
        self.files = (self.folder / f"{next(_numbers)}" for _ in count())
        self.archive = next(self.files)
        self.operator = self._ledger("operator")
        self.ledgers = {who: self._ledger(who) for who in ("ann", "bob", "cid")}
        self.senders = {who: self._sender(who) for who in ("sue", "tom")}

    @property
    def now(self) -> datetime:
        return self.clock.now

    @property
    def runs(self) -> dict[str, Run]:
        return self.state.runs

    @property
    def _store(self) -> Any:
        return self.journal.store

    def teardown(self) -> None:
        self.home.leave(self.journal)

    def check(self) -> None:
        """What always holds, after each step."""
        type(self).steps += 1
        self.moment += 1
        self._adopt_prolonged()
        assert_agreement(self.journal, self.state, self.now)
        trusting = {(h.run_id, h.owner) for h in self.held if h.handle.held}
        assert len(trusting) == len({run_id for run_id, _ in trusting}), trusting

    def _adopt_prolonged(self) -> None:
        """A write under a lease may move its deadline to now + ttl sooner than it must."""
        prolonged, self.prolonged = self.prolonged, None
        if prolonged is not None and self.runs[prolonged].get("owner") is not None:
            lease = self._stored(prolonged).lease
            known = self.runs[prolonged]["deadline"]
            if lease is not None and known < lease.expires_at == self.now + TTL:
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
        known = handle.record
        assert known.version == len(run["history"])
        lease = Lease(handle, line, (known.version, known.head), grant_of(run))
        self.held.append(lease)
        return lease

    def _let_go(self, run_id: str, by: Lease | None) -> None:
        """Others who write under the same grant learn at their next call that it was given back."""
        self.held = [h for h in self.held if h.run_id != run_id or h is by]

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
        if self.runs[run_id]["pruned"]:
            buried = self._store.buried(run_id)
            assert isinstance(buried, RunRecord)
            return buried
        record = self.journal.store.get(run_id, self.now).record
        assert record is not None
        return record

    def _heads(self, run_id: str) -> Heads:
        record = self.journal.store.get(run_id, self.now).record
        row = self.journal.store.get_delivery(invocation(run_id), self.now).record
        return record and record.head, row and row.head


_numbers = count()


def invocation(run_id: str) -> str:
    return delivery_invocation_id(run_id, "inbox")


def answer_of(call: Callable[[], Any]) -> tuple[Answer, Any]:
    """What a call was answered: OK and its value, or its cause and the error."""
    try:
        return OK, call()
    except RunStoreError as error:
        return (error.code, error.reason), error
