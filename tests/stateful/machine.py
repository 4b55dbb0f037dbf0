"""The machine: workers, an operator and senders on lines that lose, against the model.

Each rule asks the journal and the model for the same, and both must answer alike. After each
step everything that is stored must be what the model says.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial, wraps
from itertools import count
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, multiple, precondition, rule
from runjournal.domain.delivery import delivery_invocation_id

from . import model
from .asking import OK, UNAVAILABLE, UNKNOWN, Asking, Lease, answer_of
from .lines import DOWN, FINE, NEVER_ARRIVE, TROUBLES
from .model import Run

#: Most of what happens, happens to the first.
runs = st.sampled_from(["a", "a", "c", "b"])
#: One is over when the program begins, and its result is to be sent.
sent_runs = st.sampled_from(["b", "b", "a"])
workers = st.sampled_from(["ann", "bob", "cid"])
senders = st.sampled_from(["sue", "tom"])
#: Half of all commands meet no trouble.
troubles = st.sampled_from([FINE] * (len(TROUBLES) - 2) + list(TROUBLES))
delays = st.sampled_from([None, 5, 20])
leases: Bundle[Lease] = Bundle("leases")
sendings: Bundle[Any] = Bundle("sendings")
commands: Bundle[Any] = Bundle("commands")


def step(**given: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A rule after which everything is checked: an invariant would fill the printed program."""

    def make(function: Callable[..., Any]) -> Any:
        @rule(**given)
        @wraps(function)
        def checked(self: JournalMachine, **arguments: Any) -> Any:
            result = function(self, **arguments)
            self.check()
            return result

        return checked

    return make


class JournalMachine(Asking):
    """Enrolled for a backend by a subclass with its `home` and a `folder` for its files."""

    # Time and processes.

    @step(seconds=st.sampled_from([1, 4, 6, 6, 10, 25]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @step(who=workers)
    def restart(self, who: str) -> None:
        """A new process under the old name. The old one is cut off, not dead: it may wake up."""
        self.ledgers[who] = self._ledger(who)

    @precondition(lambda self: self.late)
    @step(newest=st.booleans())
    def late_request_arrives(self, newest: bool) -> None:
        request, sent = self.late.pop(-1 if newest else 0)
        lands = self._lands(sent) and not (sent.by_holder and not self._live(sent.run_id))
        assert request() is lands
        if lands:
            self._land(sent)

    # From outside the lease.

    @initialize(target=commands)
    def a_is_started(self) -> Any:
        return self._operate(FINE, "a", model.start, "inbox", None)

    @initialize(target=commands)
    def b_is_over(self) -> Any:
        self._operate(FINE, "b", model.start, "inbox", None)
        return self._operate(FINE, "b", model.cancel, "superseded")

    @initialize(target=leases)
    def ann_begins(self) -> Any:
        return self._take(FINE, "a", "ann", "acquire")

    @step(
        target=commands,
        run=st.sampled_from(["b", "c"]),
        ref=st.sampled_from([None, "inbox"]),
        delay=delays,
    )
    def start(self, run: str, ref: str | None, delay: int | None) -> Any:
        return self._operate(FINE, run, model.start, ref, self._in(delay))

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
        outcome = self.operator.resolve(command_id, run_id)
        assert outcome.applied is (command_id in self.runs[run_id].get("commands", {}))
        self._operate(trouble, run_id, *asked, command_id=command_id)

    @step(command=commands, other=commands)
    def other_command_under_its_id(self, command: Any, other: Any) -> None:
        self._operate(FINE, *other[1:], command_id=command[0])

    # Leases.

    @step(
        target=leases,
        trouble=troubles,
        run=runs,
        who=workers,
        how=st.sampled_from(["acquire", "acquire", "restore"]),
    )
    def take(self, trouble: str, run: str, who: str, how: str) -> Any:
        return self._take(trouble, run, who, how)

    def _take(self, trouble: str, run: str, who: str, how: str) -> Any:
        ledger = self.ledgers[who]
        line: Any = ledger._engine.store
        wanted = partial(model.acquire if how == "acquire" else model.restore, owner=who)
        call = partial(getattr(ledger, how), run, heartbeat=False)
        answer, handle, _ = self._ask(line, run, trouble, wanted, call)
        return self._taken(handle, line) if answer == OK else multiple()

    @step(target=leases, trouble=troubles, who=workers)
    def claim(self, trouble: str, who: str) -> Any:
        ledger = self.ledgers[who]
        line: Any = ledger._engine.store
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
        return self._taken(handle, line)

    @step(lease=leases, trouble=troubles)
    def renew(self, lease: Lease, trouble: str) -> None:
        self._hold(lease, trouble, model.renew, lease.handle.renew)

    @step(lease=leases, trouble=troubles, state=st.integers(0, 9))
    def save_checkpoint(self, lease: Lease, trouble: str, state: int) -> None:
        self._hold(lease, trouble, model.save_checkpoint, lease.handle.save_checkpoint, state)

    @step(
        lease=leases,
        trouble=troubles,
        approvals=st.sampled_from([[], ["x"], ["x"], ["x", "y"]]),
        by_itself=st.booleans(),
    )
    def suspend(self, lease: Lease, trouble: str, approvals: list[str], by_itself: bool) -> None:
        by_itself = by_itself and bool(approvals)
        self._hold(lease, trouble, model.suspend, lease.handle.suspend, approvals, by_itself)

    @step(lease=leases, trouble=troubles, error=st.sampled_from([None, "broke"]), delay=delays)
    def release(self, lease: Lease, trouble: str, error: str | None, delay: int | None) -> None:
        call = partial(lease.handle.release, "done here")
        self._hold(lease, trouble, model.release, call, error, self._in(delay))

    @step(
        lease=leases, trouble=troubles, how=st.sampled_from(["complete", "fail", "cancel", *"---"])
    )
    def end(self, lease: Lease, trouble: str, how: str) -> None:
        """Half of the time it does not, so that there is more to see."""
        if how == "complete":
            self._hold(lease, trouble, model.complete, partial(lease.handle.complete, 1, "code"))
        elif how == "fail":
            self._hold(lease, trouble, model.fail, partial(lease.handle.fail, "code"))
        elif how == "cancel":
            again = partial(model.cancel_own, again=lease.left is not None)
            self._hold(lease, trouble, again, lease.handle.cancel)

    # Deliveries.

    @step(target=sendings, trouble=troubles, run=sent_runs, who=senders)
    def attempt(self, trouble: str, run: str, who: str) -> Any:
        sender = self.senders[who]
        line: Any = sender._store
        expected: list[bool] = []

        def wanted(run: Run, now: datetime) -> None:
            expected.append(model.attempt(run, now, who))

        call = partial(sender.attempt, _invocation(run))
        answer, claimed, _ = self._ask(line, run, trouble, wanted, call)
        if answer != OK:
            return multiple()
        assert (claimed is not None) is expected[0]
        return multiple() if claimed is None else (run, who, claimed.record)

    @step(
        sending=sendings,
        trouble=troubles,
        how=st.sampled_from(["succeeded", "doubted", "doubted"]),
        delay=delays,
    )
    def report(self, sending: Any, trouble: str, how: str, delay: int | None) -> None:
        run, who, claimed = sending
        sender = self.senders[who]
        line: Any = sender._store
        wanted: model.Rule = model.succeeded
        call = partial(sender.succeeded, claimed)
        if how == "doubted":
            at = self._in(delay)
            wanted = partial(model.doubted, number=claimed.attempts, next_at=at)
            call = partial(sender.doubted, claimed, "no answer", definite=False, next_attempt_at=at)
        self._ask(line, run, trouble, wanted, call)

    @step(run=sent_runs, who=senders, delay=delays)
    def expire(self, run: str, who: str, delay: int | None) -> None:
        sender = self.senders[who]
        line: Any = sender._store
        at = self._in(delay)
        call = partial(sender.expire, _invocation(run), lambda _: at)
        self._ask(line, run, FINE, partial(model.expire, next_at=at), call)

    # Upkeep.

    @step()
    def reopen(self) -> None:
        self._live_in(self.home.reopen(self.journal))

    @step(lost=st.booleans())
    def rebuild(self, lost: bool) -> None:
        """From the events; what no event holds is lost with the rows."""
        if lost:
            self.home.forget_rows(self.journal)
        for table, made in (
            ("run_records", sum(bool(run) for run in self.runs.values())),
            ("delivery_outbox", sum(bool(run and run["delivery"]) for run in self.runs.values())),
        ):
            done = self.journal.rebuild(table)
            assert (done.repaired, done.findings) == (made if lost else 0, ())
        if lost:
            self._forget_renewals()

    @step(moves=st.booleans())
    def export(self, moves: bool) -> None:
        """Into the same journal: nothing happens. Into a new one: everything is there."""
        file = self.folder / f"{next(_numbers)}.jsonl"
        self.journal.export_to(file)
        if not moves:
            done = self.journal.import_from(file)
            assert (done.events, done.conflicts) == (0, [])
        else:
            exported = list(self.journal.export())
            self.home.leave(self.journal)
            self._live_in(self.home.new())
            done = self.journal.import_from(file, send_deliveries=True)
            assert list(self.journal.export()) == exported
            self._forget_renewals()
        file.unlink()


_numbers = count()


def _invocation(run_id: str) -> str:
    return delivery_invocation_id(run_id, "inbox")
