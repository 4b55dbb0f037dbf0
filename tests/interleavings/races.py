"""The races: what is there before, which commands meet, and how it may end.

`ends` is written by hand: every history that the run may have got since it was prepared. Each of
them has to come, and no other one may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from runjournal import Journal, RunLeaseHandle
from runjournal.projections.rebuild import rebuild
from runjournal.projections.streams import Part
from runjournal.projections.whole import expected_delivery

from .scheduler import Act
from .world import World

Ends = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class Race:
    """Commands that meet at one run.

    prepare   makes the run, and gives the commands by name
    ends      the histories that may come of it; of the delivery's stream as well
    refusals  what the commands may be refused with, as code/reason
    faulty    the commands whose commit may be lost, or the reply to it
    locked    whether it is played once more with somebody who only locks the run's row
    also      further histories that may come of it when a commit is lost, or the row is locked
    apart     whether it needs a journal of its own: it looks at all that has ended
    open      the commands that may never learn whether a lost commit was made
    holder    the command that is refused once the time has passed
    taken_back  whether what one of them was told is rolled back by its host
    """

    prepare: Callable[[World, str], Mapping[str, Act]]
    ends: Ends
    refusals: frozenset[str] = frozenset()
    faulty: tuple[str, ...] = ()
    locked: bool = False
    also: Ends = frozenset()
    apart: bool = False
    backends: tuple[str, ...] = ("sqlite", "postgres")
    taken_back: bool = False
    open: frozenset[str] = frozenset()
    holder: str | None = None


def _ends(*histories: str) -> Ends:
    """Histories, each written with commas."""
    return frozenset(tuple(filter(None, h.split(", "))) for h in histories)


def _set(*names: str) -> frozenset[str]:
    return frozenset(names)


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


# Deliveries.


def attempts(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id, delivery_ref="inbox")
    key = delivery_of(world.journals[0], run_id)
    a, b = world.sender(0), world.sender(1)
    return {"a": lambda: a.attempt(key), "b": lambda: b.attempt(key)}


def report_and_expiry(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id, delivery_ref="inbox")
    a, b = world.sender(0), world.sender(1)
    key = delivery_of(world.journals[0], run_id)
    claimed = a.attempt(key)
    assert claimed is not None
    return {
        "succeeded": lambda: a.succeeded(claimed.record),
        "expire": lambda: b.expire(key, lambda _record: None),
        "time": world.expire(),
    }


# Repairs.


class _NoRival:
    """Being the only one who rebuilds."""

    def check(self) -> None:
        pass


def _repair(journal: Journal, table: Any, prefix: str) -> Act:
    def act() -> str:
        part = Part(prefix[:-1] + chr(ord(prefix[-1]) - 1), prefix)
        done = rebuild(
            journal.store, journal._codec, table, _NoRival(), lambda _n: None, lambda: False, part
        )
        assert not done.findings, done.findings
        return "repaired"

    return act


def repair_and_append(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id)
    world.execute("UPDATE runs SET kind = 'damaged' WHERE run_id = ?", run_id)
    return {
        "repair": _repair(world.journals[1], "run_records", f"run/{run_id}"),
        "append": lambda: lease.save_checkpoint(1, key="a"),
    }


def repair_and_complete(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id)
    world.execute("UPDATE runs SET kind = 'damaged' WHERE run_id = ?", run_id)
    return {
        "repair": _repair(world.journals[1], "run_records", f"run/{run_id}"),
        "complete": lambda: lease.complete(code="a"),
    }


def repair_of_nothing_and_append(world: World, run_id: str) -> dict[str, Act]:
    lease = hold(world, run_id)
    return {
        "repair": _repair(world.journals[1], "run_records", f"run/{run_id}"),
        "append": lambda: lease.save_checkpoint(1, key="a"),
        "renew": world.ledger(2).adopt(run_id, lease.fencing_token).renew,
    }


def repair_and_attempt(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id, delivery_ref="inbox")
    key = delivery_of(world.journals[0], run_id)
    world.execute("UPDATE delivery_outbox SET next_attempt_at = NULL WHERE invocation_id = ?", key)
    a = world.sender(0)
    return {
        "repair": _repair(world.journals[1], "delivery_outbox", f"delivery/{key}"),
        "attempt": lambda: a.attempt(key),
    }


# Pruning.


def _prune(world: World, number: int) -> Act:
    journal = world.journals[number]
    return lambda: f"{journal.prune(world.now + timedelta(seconds=1)).runs} pruned"


def prune_and_delivery(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id, delivery_ref="inbox")
    sender = world.sender(0)
    claimed = sender.attempt(delivery_of(world.journals[0], run_id))
    assert claimed is not None
    return {"succeeded": lambda: sender.succeeded(claimed.record), "prune": _prune(world, 1)}


def prune_and_same_start(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id)
    a = world.ledger(0)
    return {"start": lambda: a.start(run_id, kind=run_id), "prune": _prune(world, 1)}


def prune_and_different_start(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id)
    a = world.ledger(0)
    return {"start": lambda: a.start(run_id, kind="other"), "prune": _prune(world, 1)}


def prune_and_acquire(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id)
    a = world.ledger(0)
    return {"acquire": lambda: a.acquire(run_id, heartbeat=False), "prune": _prune(world, 1)}


def prune_and_prune(world: World, run_id: str) -> dict[str, Act]:
    end(world, run_id)
    return {"a": _prune(world, 0), "b": _prune(world, 1)}


_A, _B = "checkpoint_saved a", "lease_granted b 2"
_LOST = _set("RUN_LEASE_LOST/expired", "RUN_LEASE_LOST/taken_over", "RUN_LEASE_HELD/held")

RACES: dict[str, Race] = {
    "append, takeover": Race(
        append_and_takeover,
        _ends("", _A, _B, f"{_A}, {_B}"),
        _LOST,
        faulty=("append", "takeover"),
        locked=True,
        open=_set("append"),
        holder="append",
    ),
    "renew, claim": Race(
        renew_and_claim,
        _ends("", _B),
        _LOST,
        faulty=("renew", "claim"),
        locked=True,
        open=_set("renew", "claim"),
        holder="renew",
    ),
    "renew, takeover": Race(
        renew_and_takeover,
        _ends("", _B),
        _LOST,
        faulty=("renew", "takeover"),
        locked=True,
        open=_set("renew"),
        holder="renew",
    ),
    "claim, claim": Race(
        claim_and_claim,
        _ends("lease_granted a 1", "lease_granted b 1"),
        faulty=("a",),
        also=_ends(""),
        locked=True,
        open=_set("a"),
    ),
    "claim, cancel": Race(
        claim_and_cancel,
        _ends("cancelled cancelled", "lease_granted a 1, cancelled cancelled"),
        faulty=("claim", "cancel"),
        open=_set("claim"),
    ),
    "adopted, holder": Race(
        adopted_and_holder, _ends(f"{_A}, {_A}"), faulty=("holder",), locked=True
    ),
    "adopted, takeover": Race(
        adopted_and_takeover,
        _ends("", _A, _B, f"{_A}, {_B}"),
        _LOST,
        faulty=("adopted",),
        open=_set("adopted"),
        holder="adopted",
    ),
    "complete, cancel": Race(
        complete_and_cancel,
        _ends("completed a, requested", "cancelled cancelled, requested"),
        _set("RUN_LEASE_LOST/cancelled", "RUN_ALREADY_TERMINAL/completed"),
        faulty=("complete", "cancel"),
        locked=True,
    ),
    "release, cancel": Race(
        release_and_cancel,
        _ends("cancelled cancelled", "lease_released, cancelled cancelled"),
        _set("RUN_LEASE_LOST/cancelled"),
        faulty=("release",),
    ),
    "suspend, complete": Race(
        suspend_and_complete,
        _ends("completed a", "suspended"),
        _set("RUN_LEASE_LOST/released", "RUN_ALREADY_TERMINAL/completed"),
    ),
    "contrary decisions": Race(
        contrary_decisions,
        _ends("approval_decided x=yes", "approval_decided x=no"),
        _set("RUN_CONFLICT/different_decision"),
        faulty=("yes",),
        locked=True,
    ),
    "last decisions": Race(
        last_decisions,
        _ends(
            "approval_decided x=yes, approval_decided y=yes, resume_requested",
            "approval_decided y=yes, approval_decided x=yes, resume_requested",
        ),
        faulty=("x",),
    ),
    "decision, restore": Race(
        decision_and_restore,
        _ends(
            "approval_decided x=yes, resume_requested, lease_granted b 2",
            "resume_requested, lease_granted b 2",
        ),
        _set("RUN_INVALID_TRANSITION/not_suspended"),
        faulty=("decide", "restore"),
    ),
    "restore, restore": Race(
        restore_and_restore,
        _ends("resume_requested, lease_granted a 2", "resume_requested, lease_granted b 2"),
        _set("RUN_LEASE_HELD/held"),
    ),
    "resume, cancel": Race(
        resume_and_cancel,
        _ends("cancelled cancelled", "resume_requested, cancelled cancelled"),
        _set("RUN_ALREADY_TERMINAL/cancelled"),
    ),
    "same starts": Race(same_starts, _ends("queued"), faulty=("a",)),
    "different starts": Race(
        different_starts,
        _ends("queued"),
        _set("RUN_CONFLICT/different_arguments"),
        faulty=("a", "b"),
    ),
    "creating acquires": Race(
        creating_acquires,
        _ends("queued, lease_granted a 1", "queued, lease_granted b 1"),
        _set("RUN_LEASE_HELD/held"),
        faulty=("a",),
    ),
    "cancel within, complete": Race(
        cancel_within_and_complete,
        _ends("completed a, requested", "cancelled cancelled, requested"),
        _set("RUN_LEASE_LOST/cancelled", "RUN_ALREADY_TERMINAL/completed"),
        backends=("postgres",),
    ),
    "cancel taken back, complete": Race(
        cancel_taken_back_and_complete,
        _ends("completed a, requested"),
        _set("RUN_ALREADY_TERMINAL/completed"),
        backends=("postgres",),
        taken_back=True,
    ),
    "start within, start": Race(
        start_within_and_start,
        _ends("queued"),
        _set("RUN_CONFLICT/different_arguments"),
        backends=("postgres",),
    ),
    "start taken back, start": Race(
        start_taken_back_and_start, _ends("queued"), backends=("postgres",), taken_back=True
    ),
    "two decisions within": Race(
        two_within,
        _ends(
            "approval_decided x=yes, approval_decided y=yes, resume_requested",
            "approval_decided y=yes, approval_decided x=yes, resume_requested",
        ),
        backends=("postgres",),
    ),
    "attempts": Race(
        attempts, _ends("attempted sender-0", "attempted sender-1"), faulty=("a", "b")
    ),
    "report, expiry": Race(
        report_and_expiry,
        _ends("succeeded", "unknown, succeeded"),
        faulty=("succeeded", "expire"),
    ),
    "repair, append": Race(repair_and_append, _ends(_A), faulty=("append",), locked=True),
    "repair, complete": Race(repair_and_complete, _ends("completed a")),
    "repair of nothing, append": Race(repair_of_nothing_and_append, _ends(_A)),
    "repair, attempt": Race(repair_and_attempt, _ends("attempted sender-0"), faulty=("attempt",)),
    "prune, delivery": Race(
        prune_and_delivery,
        _ends("succeeded", "pruned"),
        faulty=("prune",),
        apart=True,
        open=_set("prune"),
    ),
    "prune, same start": Race(
        prune_and_same_start,
        _ends("pruned"),
        faulty=("prune",),
        also=_ends(""),
        apart=True,
        open=_set("prune"),
    ),
    "prune, different start": Race(
        prune_and_different_start,
        _ends("pruned"),
        _set("RUN_CONFLICT/pruned", "RUN_CONFLICT/different_arguments"),
        faulty=("prune",),
        also=_ends(""),
        apart=True,
        open=_set("prune"),
    ),
    "prune, acquire": Race(
        prune_and_acquire, _ends("pruned"), _set("RUN_ALREADY_TERMINAL/completed"), apart=True
    ),
    "prune, prune": Race(
        prune_and_prune,
        _ends("pruned"),
        faulty=("a",),
        also=_ends(""),
        apart=True,
        open=_set("a"),
    ),
}
