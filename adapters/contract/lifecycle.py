"""A run's life through a ledger: start, suspend, decide, resume, and ends that stay ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from ...domain.delivery import DELIVERY_STREAM, delivery_invocation_id
from ...domain.errors import (
    RUN_ALREADY_TERMINAL,
    RUN_CONFLICT,
    RUN_INVALID_TRANSITION,
    RUN_LEASE_HELD,
    RUN_LEASE_LOST,
    RUN_NOT_FOUND,
    RUN_SUSPENDED,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from ...domain.lease import RunLeaseHandle
from ...domain.ledger import RunLedger
from ...domain.ports import RunStore
from ...domain.record import RunRecord
from .between import Between
from .scribe import TTL, after
from .tools import SteppedClock, StoreHooks, ledger_on, race, refused, stored, topics, trace

Acts = Sequence[Callable[[], RunRecord]]

#: Every way a run can end, for a run that exists and is queued.
ENDS: dict[str, Callable[[RunLedger], object]] = {
    "completed": lambda ledger: ledger.acquire("run").complete({"rows": 12}),
    "failed": lambda ledger: ledger.acquire("run").fail("boom", "it broke"),
    "cancelled": lambda ledger: ledger.acquire("run").cancel("not wanted"),
    "failed from outside": lambda ledger: ledger.fail("run", "gave_up"),
    "cancelled from outside": lambda ledger: ledger.cancel("run", "superseded"),
}


class Command(NamedTuple):
    """A command that must not change an ended run, and the ends with which it agrees."""

    ask: Callable[[RunLedger], object]
    agrees_with: str | None = None


COMMANDS = (
    Command(lambda ledger: ledger.acquire("run")),
    Command(lambda ledger: ledger.restore("run")),
    Command(lambda ledger: ledger.request_resume("run")),
    Command(lambda ledger: ledger.record_decision("run", "approval", "yes")),
    Command(lambda ledger: ledger.cancel("run"), agrees_with="cancelled"),
    Command(lambda ledger: ledger.fail("run", "late"), agrees_with="failed"),
)


class LifecycleContract(StoreHooks):
    """RunLedger's commands from outside a lease, and what ends a run."""

    def test_start_converges(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        arguments: dict[str, Any] = {"kind": "report", "input": {"day": 1}, "labels": {"team": "a"}}
        record = ledger.start("run", **arguments)
        clock.advance(5)
        assert ledger.start("run", **arguments) == record == stored(store)
        before = trace(store)
        with refused(RUN_CONFLICT, "different_arguments"):
            ledger.start("run", **{**arguments, "input": {"day": 2}})
        assert trace(store) == before

    def test_start_race_makes_one_run(self, store: RunStore, clock: SteppedClock) -> None:
        ledgers = [ledger_on(store, clock, f"starter-{n}") for n in range(6)]
        same = race(6, lambda n: ledgers[n].start("same", input=1).version)
        assert same == [1] * 6
        assert topics(store, "same") == ["queued"]
        other = race(6, lambda n: ledgers[n].start("run", input=n).version)
        refusals = [answer for answer in other if isinstance(answer, RunStoreError)]
        assert [error.reason for error in refusals] == ["different_arguments"] * 5
        assert topics(store) == ["queued"]

    def test_unknown_run_is_not_found(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        assert ledger.get("run") is None
        for command in COMMANDS[1:]:
            with refused(RUN_NOT_FOUND, "run"):
                command.ask(ledger)
        assert store.runs() == []

    # Suspend, decide, resume.

    def test_suspended_run_needs_no_holder(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        handle = ledger.acquire("run")
        handle.save_checkpoint({"offset": 7})
        record = handle.suspend(["budget"])
        assert handle.suspend(["budget"]) == record
        assert (record.status, record.lease) == ("suspended", None)
        clock.advance(TTL * 1000)
        before = trace(store)
        with refused(RUN_SUSPENDED, "suspended"):
            ledger.acquire("run")
        assert ledger.claim() is None
        assert trace(store) == before

    def test_suspending_otherwise_is_refused(self, store: RunStore, clock: SteppedClock) -> None:
        """A second question is not dropped as if it were the first one again."""
        handle = ledger_on(store, clock).acquire("run")
        handle.suspend(["budget", "legal"])
        assert handle.suspend(["legal", "budget"]) == stored(store)
        before = trace(store)
        for pending, resume_when_decided in ((["taste"], False), (["budget", "legal"], True)):
            with refused(RUN_LEASE_LOST, "released"):
                handle.suspend(pending, resume_when_decided)
        assert trace(store) == before

    def test_resumed_run_can_be_acquired(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        ledger.acquire("run").suspend(["budget"])
        record = ledger.request_resume("run", actor="operator")
        assert (record.status, record.suspension) == ("queued", None)
        # Undecided approvals do not hinder a resume, and stay visible as undecided.
        assert record.approvals == {"budget": None}
        assert ledger.request_resume("run") == record
        handle = ledger.claim()
        assert handle is not None
        assert (handle.fencing_token, handle.attempt) == (2, 1)

    def test_restore_resumes_and_grants_in_one_append(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        counted = Between(store)
        ledger = ledger_on(counted, clock)
        ledger.acquire("run").suspend()
        del counted.calls[:]
        handle = ledger.restore("run")
        assert counted.calls.count("append") == 1
        assert (handle.fencing_token, handle.attempt, handle.held) == (2, 1, True)
        assert topics(store)[-3:] == ["suspended", "resume_requested", "lease_granted"]

    def test_of_two_restores_one_goes_on(self, store: RunStore, clock: SteppedClock) -> None:
        ledger_on(store, clock).acquire("run").suspend()
        ledgers = [ledger_on(store, clock, f"restorer-{n}") for n in range(4)]
        answers = race(4, lambda n: ledgers[n].restore("run").fencing_token)
        refusals = [answer for answer in answers if isinstance(answer, RunStoreError)]
        assert [error.code for error in refusals] == [RUN_LEASE_HELD] * 3
        assert topics(store).count("lease_granted") == 2

    def test_decisions_converge(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        handle = ledger.acquire("run")
        with refused(RUN_INVALID_TRANSITION, "not_suspended"):
            ledger.record_decision("run", "budget", "yes")
        handle.suspend(["budget", "legal"])
        record = ledger.record_decision("run", "budget", "yes", actor="ann")
        assert ledger.record_decision("run", "budget", "yes", actor="bob") == record
        assert record.approvals == {"budget": "yes", "legal": None}
        assert record.suspension is not None
        assert record.suspension.pending_approval_ids == ("legal",)
        before = trace(store)
        with refused(RUN_CONFLICT, "different_decision"):
            ledger.record_decision("run", "budget", "no")
        with refused(RUN_VALIDATION_ERROR, "unknown_approval"):
            ledger.record_decision("run", "taste", "yes")
        assert trace(store) == before
        assert ledger.record_decision("run", "legal", "no").status == "suspended"

    def test_last_decision_queues_the_run_once(self, store: RunStore, clock: SteppedClock) -> None:
        approvals = [f"approval-{n}" for n in range(6)]
        ledger_on(store, clock).acquire("run").suspend(approvals, resume_when_decided=True)
        ledgers = [ledger_on(store, clock, f"decider-{n}") for n in range(12)]

        def decide(number: int) -> str:
            record = ledgers[number].record_decision("run", approvals[number % 6], "yes")
            return record.run_id

        assert race(12, decide) == ["run"] * 12
        assert topics(store)[3:] == ["approval_decided"] * 6 + ["resume_requested"]
        assert stored(store).status == "queued"

    def test_late_repeat_of_a_resume_does_not_resume_again(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(store, clock)
        ledger.acquire("run").suspend()
        ledger.request_resume("run", command_id="resume-1")
        ledger.acquire("run").suspend()
        before = trace(store)
        assert ledger.request_resume("run", command_id="resume-1").status == "suspended"
        with refused(RUN_CONFLICT, "command_reused"):
            ledger.cancel("run", command_id="resume-1")
        assert trace(store) == before

    # Ends.

    @pytest.mark.parametrize("end", ENDS)
    def test_no_event_after_a_terminal_one(
        self, store: RunStore, clock: SteppedClock, end: str
    ) -> None:
        ledger = ledger_on(store, clock)
        ledger.start("run")
        ENDS[end](ledger)
        status = end.split()[0]
        before = trace(store)
        assert before.record is not None
        assert (before.record.status, before.record.lease) == (status, None)
        for wait in (0, TTL * 1000):
            clock.advance(wait)
            for command in COMMANDS:
                if command.agrees_with == status:
                    assert command.ask(ledger) == before.record
                else:
                    with refused(RUN_ALREADY_TERMINAL, status):
                        command.ask(ledger)
            assert ledger.claim() is None
            assert ledger.start("run") == before.record
            assert trace(store) == before

    def test_completion_converges(self, store: RunStore, clock: SteppedClock) -> None:
        handle = ledger_on(store, clock).acquire("run")
        record = handle.complete({"rows": 12}, code="done", message="all of them")
        assert handle.complete({"rows": 12}) == record
        assert topics(store) == ["queued", "lease_granted", "completed"]
        assert record.outcome is not None
        assert (record.outcome.code, record.outcome.message) == ("done", "all of them")
        with refused(RUN_ALREADY_TERMINAL, "completed"):
            handle.save_checkpoint("late")
        with refused(RUN_ALREADY_TERMINAL, "completed"):
            handle.fail("late")

    def test_outside_failure_spares_a_live_holder(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        ledger_on(store, clock).acquire("run")
        operator = ledger_on(store, clock, "operator")
        with refused(RUN_LEASE_HELD, "held"):
            operator.fail("run", "gave_up")
        clock.advance(TTL)
        record = operator.fail("run", "gave_up")
        # The abandoned holder may still wake up: its token is stale by then.
        assert (record.status, record.fencing_token) == ("failed", 2)

    def test_cancel_and_complete_race_to_one_end(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        operator = ledger_on(store, clock, "operator")
        for n in range(15):
            run_id = f"run-{n}"
            ledger = ledger_on(store, clock)
            ledger.start(run_id, delivery_ref="inbox")
            handle = ledger.acquire(run_id)
            acts: Acts = (handle.complete, partial(operator.cancel, run_id))
            answers = race(2, partial(_status_after, acts))
            ended = [topic for topic in topics(store, run_id) if topic in ENDS]
            assert ended == [stored(store, run_id).status]
            # One side was first; the other learnt of it.
            assert len([answer for answer in answers if answer == ended[0]]) == 1
            assert len([answer for answer in answers if isinstance(answer, RunStoreError)]) == 1
            assert len(_delivery(store, run_id)) == 1

    @pytest.mark.parametrize("end", ENDS)
    def test_every_end_puts_the_result_into_the_outbox(
        self, store: RunStore, clock: SteppedClock, end: str
    ) -> None:
        ledger = ledger_on(store, clock)
        ledger.start("run", delivery_ref="inbox")
        assert _delivery(store, "run") == []
        ENDS[end](ledger)
        assert _delivery(store, "run") == ["delivery.requested"]

    def test_without_a_delivery_ref_nothing_is_delivered(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        ledger_on(store, clock).acquire("run").complete()
        assert _delivery(store, "run") == []

    def test_attempts_tokens_and_grants_agree(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        ways: list[tuple[int, Callable[[RunLeaseHandle], object]]] = [
            (1, lambda handle: handle.release()),
            (1, lambda _abandoned: clock.advance(TTL)),
            (2, lambda handle: handle.release(error="no luck", available_at=after(1))),
            (2, lambda handle: handle.suspend()),
            (2, lambda handle: handle.complete()),
        ]
        for token, (attempt, leave) in enumerate(ways, start=1):
            handle = ledger.restore("run") if token > 1 else ledger.acquire("run")
            assert (handle.fencing_token, handle.attempt) == (token, attempt)
            assert topics(store).count("lease_granted") == token
            leave(handle)


def _status_after(acts: Acts, number: int) -> str:
    return acts[number]().status


def _delivery(store: RunStore, run_id: str) -> list[str]:
    stream = DELIVERY_STREAM + delivery_invocation_id(run_id, "inbox")
    return [event.topic for event in store.read(stream)]
