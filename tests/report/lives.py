"""Runs to make pages of."""

from __future__ import annotations

from datetime import timedelta

from runjournal import DeploymentLimits, Journal, open_journal
from runjournal.adapters.contract.tools import SteppedClock

TTL = 20.0
LIMITS = DeploymentLimits(checkpoint_bytes=1 << 24, input_bytes=1 << 24, result_bytes=1 << 24)


def eventful(journal: Journal, run_id: str = "nightly", input: object = None) -> None:  # noqa: A002
    """A run with all that can happen: takeover, suspension, decisions, two attempts to deliver."""
    clock = SteppedClock()

    def ledger(owner: str):  # type: ignore[no-untyped-def]
        return journal.ledger(owner=owner, clock=clock, lease_ttl=TTL)

    operator = ledger("operator")
    operator.start(
        run_id,
        kind="report",
        input=input,
        labels={"team": "ledger"},
        delivery_ref="inbox",
        actor="alice",
    )
    clock.advance(2)
    first = ledger("worker-1").acquire(run_id, heartbeat=False)
    for n in range(3):
        clock.advance(3)
        first.save_checkpoint({"offset": n})
    clock.advance(30)
    second = ledger("worker-2").acquire(run_id, heartbeat=False)
    clock.advance(5)
    second.save_checkpoint({"offset": 3})
    second.suspend(["manager", "bank"], resume_when_decided=True)
    clock.advance(86_400)
    operator.record_decision(run_id, "manager", "yes", actor="bob")
    operator.record_decision(run_id, "bank", "no", actor="carol")
    clock.advance(1)
    last = ledger("worker-1").acquire(run_id, heartbeat=False)
    clock.advance(8)
    last.complete({"rows": 12}, message="all of them")
    sender = journal.delivery_ledger(owner="sender", clock=clock)
    (row,) = [d for d in journal.deliveries() if d.run_id == run_id]
    clock.advance(1)
    tried = sender.attempt(row.invocation_id)
    assert tried is not None
    clock.advance(1)
    again = clock() + timedelta(seconds=5)
    sender.doubted(tried.record, "503 busy", definite=True, next_attempt_at=again)
    clock.advance(5)
    tried = sender.attempt(row.invocation_id)
    assert tried is not None
    clock.advance(1)
    sender.succeeded(tried.record)


def page_of(run_id: str = "nightly", input: object = None, payloads: bool = True) -> str:  # noqa: A002
    """The page of an eventful run."""
    with open_journal("memory:", limits=LIMITS) as journal:
        eventful(journal, run_id, input)
        return journal.report([run_id], payloads=payloads)
