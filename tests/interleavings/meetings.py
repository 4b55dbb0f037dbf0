"""What is there before a race, and which commands meet at it: leases, ends, decisions, starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runjournal import Journal, RunLeaseHandle
from runjournal.projections.whole import expected_delivery

from .scheduler import Act
from .world import World


def hold(world: World, run_id: str, owner: str = "a", **start: Any) -> RunLeaseHandle:
    """The lease of a new run, of a kind of its own."""
    ledger = world.ledger(0, owner)
    ledger.start(run_id, kind=run_id, **start)
    return ledger.acquire(run_id, heartbeat=False)


def suspend(world: World, run_id: str, *approvals: str, resume: bool = False) -> None:
    hold(world, run_id).suspend(approvals, resume_when_decided=resume)


def end(world: World, run_id: str, **start: Any) -> None:
    hold(world, run_id, **start).complete(code="a")


def delivery_of(journal: Journal, run_id: str) -> str:
    record = journal.get(run_id)
    assert record is not None
    name = expected_delivery(record)
    assert name is not None
    return name.removeprefix("delivery/")


# Leases.


def append_and_takeover(world: World, run_id: str) -> dict[str, Act]:
    lease, other = hold(world, run_id), world.ledger(1, "b")
    return {
        "append": lambda: lease.save_checkpoint(1, key="a"),
        "takeover": lambda: other.acquire(run_id, heartbeat=False),
        "time": world.expire(),
    }


def renew_and_claim(world: World, run_id: str) -> dict[str, Act]:
    lease, other = hold(world, run_id), world.ledger(1, "b")
    world.wait(35)
    return {
        "renew": lease.renew,
        "claim": lambda: other.claim([run_id], heartbeat=False),
        "time": world.expire(40),
    }


def renew_and_takeover(world: World, run_id: str) -> dict[str, Act]:
    lease, other = hold(world, run_id), world.ledger(1, "b")
    world.wait(35)
    return {
        "renew": lease.renew,
        "takeover": lambda: other.acquire(run_id, heartbeat=False),
        "time": world.expire(40),
    }


def claim_and_claim(world: World, run_id: str) -> dict[str, Act]:
    world.ledger(0).start(run_id, kind=run_id)
    a, b = world.ledger(0, "a"), world.ledger(1, "b")
    return {
        "a": lambda: a.claim([run_id], heartbeat=False),
        "b": lambda: b.claim([run_id], heartbeat=False),
    }


def claim_and_cancel(world: World, run_id: str) -> dict[str, Act]:
    world.ledger(0).start(run_id, kind=run_id)
    a, b = world.ledger(0, "a"), world.ledger(1, "b")
    return {
        "claim": lambda: a.claim([run_id], heartbeat=False),
        "cancel": lambda: b.cancel(run_id),
    }


def adopted_and_holder(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id)
    adopted = world.ledger(1, "helper").adopt(run_id, lease.fencing_token)
    return {
        "holder": lambda: lease.save_checkpoint(1, key="a"),
        "adopted": lambda: adopted.save_checkpoint(2, key="a"),
    }


def adopted_and_takeover(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id)
    adopted = world.ledger(1, "helper").adopt(run_id, lease.fencing_token)
    other = world.ledger(2, "b")
    return {
        "adopted": lambda: adopted.save_checkpoint(2, key="a"),
        "takeover": lambda: other.acquire(run_id, heartbeat=False),
        "time": world.expire(),
    }


# Ends, decisions, beginnings.


def complete_and_cancel(world: World, run_id: str) -> dict[str, Act]:
    lease, other = hold(world, run_id, delivery_ref="inbox"), world.ledger(1)
    return {
        "complete": lambda: lease.complete(code="a"),
        "cancel": lambda: other.cancel(run_id),
    }


def release_and_cancel(world: World, run_id: str) -> dict[str, Act]:
    lease, other = hold(world, run_id), world.ledger(1)
    return {"release": lease.release, "cancel": lambda: other.cancel(run_id)}


def suspend_and_complete(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id)
    adopted = world.ledger(1, "helper").adopt(run_id, lease.fencing_token)
    return {
        "suspend": lambda: lease.suspend(["x"]),
        "complete": lambda: adopted.complete(code="a"),
    }


def contrary_decisions(world: World, run_id: str) -> dict[str, Act]:
    suspend(world, run_id, "x")
    a, b = world.ledger(0), world.ledger(1)
    return {
        "yes": lambda: a.record_decision(run_id, "x", "yes"),
        "no": lambda: b.record_decision(run_id, "x", "no"),
    }


def last_decisions(world: World, run_id: str) -> dict[str, Act]:
    suspend(world, run_id, "x", "y", resume=True)
    a, b = world.ledger(0), world.ledger(1)
    return {
        "x": lambda: a.record_decision(run_id, "x", "yes"),
        "y": lambda: b.record_decision(run_id, "y", "yes"),
    }


def decision_and_restore(world: World, run_id: str) -> dict[str, Act]:
    suspend(world, run_id, "x", resume=True)
    a, b = world.ledger(0), world.ledger(1, "b")
    return {
        "decide": lambda: a.record_decision(run_id, "x", "yes"),
        "restore": lambda: b.restore(run_id, heartbeat=False),
    }


def restore_and_restore(world: World, run_id: str) -> dict[str, Act]:
    suspend(world, run_id, "x")
    a, b = world.ledger(0, "a"), world.ledger(1, "b")
    return {
        "a": lambda: a.restore(run_id, heartbeat=False),
        "b": lambda: b.restore(run_id, heartbeat=False),
    }


def resume_and_cancel(world: World, run_id: str) -> dict[str, Act]:
    suspend(world, run_id, "x")
    a, b = world.ledger(0), world.ledger(1)
    return {"resume": lambda: a.request_resume(run_id), "cancel": lambda: b.cancel(run_id)}


def same_starts(world: World, run_id: str) -> dict[str, Act]:
    a, b = world.ledger(0), world.ledger(1)
    return {
        "a": lambda: a.start(run_id, kind=run_id, command_id="same"),
        "b": lambda: b.start(run_id, kind=run_id, command_id="same"),
    }


def different_starts(world: World, run_id: str) -> dict[str, Act]:
    a, b = world.ledger(0), world.ledger(1)
    return {
        "a": lambda: a.start(run_id, kind=run_id, input="a"),
        "b": lambda: b.start(run_id, kind=run_id, input="b"),
    }


def creating_acquires(world: World, run_id: str) -> dict[str, Act]:
    a, b = world.ledger(0, "a"), world.ledger(1, "b")
    return {
        "a": lambda: a.acquire(run_id, heartbeat=False),
        "b": lambda: b.acquire(run_id, heartbeat=False),
    }


# Within a transaction of the host's, which it commits or rolls back.


def cancel_within_and_complete(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id, delivery_ref="inbox")
    return {
        "cancel": world.within(1, lambda inside: inside.cancel(run_id), commit=True),
        "complete": lambda: lease.complete(code="a"),
    }


def cancel_taken_back_and_complete(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id, delivery_ref="inbox")
    return {
        "cancel": world.within(1, lambda inside: inside.cancel(run_id), commit=False),
        "complete": lambda: lease.complete(code="a"),
    }


def start_within_and_start(world: World, run_id: str) -> dict[str, Act]:
    other = world.ledger(0)
    start = world.within(
        1, lambda inside: inside.start(run_id, kind=run_id, input="a"), commit=True
    )
    return {"within": start, "other": lambda: other.start(run_id, kind=run_id, input="b")}


def start_taken_back_and_start(world: World, run_id: str) -> dict[str, Act]:
    other = world.ledger(0)
    start = world.within(1, lambda inside: inside.start(run_id, kind=run_id), commit=False)
    return {"within": start, "other": lambda: other.start(run_id, kind=run_id)}


def two_within(world: World, run_id: str) -> dict[str, Act]:
    suspend(world, run_id, "x", "y", resume=True)

    def decide(approval: str) -> Callable[[Any], Any]:
        return lambda inside: inside.record_decision(run_id, approval, "yes")

    return {
        "x": world.within(0, decide("x"), commit=True),
        "y": world.within(1, decide("y"), commit=True),
    }
