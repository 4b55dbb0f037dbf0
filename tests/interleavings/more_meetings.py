"""The same: deliveries, repairs, pruning."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from runjournal import Journal
from runjournal.projections.parts import Part
from runjournal.projections.rebuild import rebuild

from .meetings import delivery_of, end, hold
from .scheduler import Act
from .world import World

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
