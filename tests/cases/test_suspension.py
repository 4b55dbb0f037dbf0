"""Cases of a run that is suspended, decided and resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runjournal import Journal, RunLedger, Worker, WorkerContext
from runjournal.adapters.contract.tools import refused

Verify = Callable[[Journal, str], None]


def test_case_25_a_resume_is_not_a_restart(journal: Journal, verify_run: Verify) -> None:
    """The resumed worker goes on from the checkpoint before the suspension, with the decisions."""
    steps: list[tuple[str, str]] = []
    seen: list[Any] = []

    def handler(ctx: WorkerContext) -> Any:
        seen.append((ctx.record.checkpoint_ref, ctx.checkpoint, dict(ctx.record.approvals)))
        if ctx.checkpoint is None:
            steps.append(("reserve", ctx.invocation_id("reserve")))
            ctx.save_checkpoint({"reserved": 120})
            ctx.lease.suspend(["manager"], resume_when_decided=True)
            return None
        steps.append(("pay", ctx.invocation_id("reserve")))
        return {"paid": ctx.checkpoint["reserved"]}

    journal.ledger().start("r", delivery_ref="hook")
    suspended = Worker(journal, handler).run_once()
    assert suspended is not None
    assert suspended.status == "suspended"
    assert journal.deliveries() == []
    assert Worker(journal, handler).run_once() is None
    journal.ledger().record_decision("r", "manager", "yes", actor="ada")
    ended = Worker(journal, handler).run_once()
    assert ended is not None
    assert (ended.status, ended.attempt) == ("completed", 1)
    assert suspended.checkpoint_ref is not None
    assert seen == [
        (None, None, {}),
        (suspended.checkpoint_ref, {"reserved": 120}, {"manager": "yes"}),
    ]
    # Each step once, and what is sent outside would be recognised by the same id.
    assert [name for name, _ in steps] == ["reserve", "pay"]
    assert len({key for _, key in steps}) == 1
    assert [d.run_id for d in journal.deliveries()] == ["r"]
    assert Worker(journal, handler).run_once() is None
    verify_run(journal, "r")


#: What became of the run since approval "a" was decided as "yes" under the command id "first".
SINCE: dict[str, Callable[[RunLedger], object]] = {
    "queued": lambda ledger: None,
    "running": lambda ledger: ledger.acquire("r", heartbeat=False),
    "completed": lambda ledger: ledger.acquire("r", heartbeat=False).complete(),
    "cancelled": lambda ledger: ledger.cancel("r"),
}


@pytest.mark.parametrize("status", SINCE)
def test_decision_that_is_repeated_later(journal: Journal, verify_run: Verify, status: str) -> None:
    """However far the run has moved on: the same converges, another one is told the first."""
    ledger = journal.ledger()
    ledger.acquire("r", heartbeat=False).suspend(["a"], resume_when_decided=True)
    ledger.record_decision("r", "a", "yes", actor="ada", command_id="first")
    SINCE[status](ledger)
    record = journal.get("r")
    assert record is not None
    assert record.status == status
    for command_id in ("first", "another", None):
        assert ledger.record_decision("r", "a", "yes", "bob", command_id) == record
    with refused("RUN_CONFLICT", "different_decision") as caught:
        ledger.record_decision("r", "a", "no", actor="bob")
    assert "approval 'a' was decided as 'yes', not 'no'" in caught.value.message
    assert caught.value.record == record == journal.get("r")
    verify_run(journal, "r")


def test_late_repetitions_say_nothing_about_a_new_suspension(
    journal: Journal, verify_run: Verify
) -> None:
    """Neither an old decision nor an old resume acts on it, even where it asks the same again."""
    ledger = journal.ledger()
    ledger.acquire("r", heartbeat=False).suspend(["a", "b"])
    ledger.record_decision("r", "a", "yes", command_id="decision")
    ledger.request_resume("r", command_id="resume")
    asked = ledger.acquire("r", heartbeat=False).suspend(["a"], resume_when_decided=True)
    assert asked.approvals == {"a": None}
    assert ledger.record_decision("r", "a", "yes", command_id="decision") == asked
    assert ledger.request_resume("r", command_id="resume") == asked
    with refused("RUN_VALIDATION_ERROR", "unknown_approval"):
        ledger.record_decision("r", "b", "yes")
    assert journal.get("r") == asked
    assert ledger.record_decision("r", "a", "no").status == "queued"
    verify_run(journal, "r")
