"""Every argument of every public method: a value that is none is refused by the argument's name.

Nothing is written then. And what is none of these arrives where it belongs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from runjournal import DeploymentLimits, RunStoreError
from runjournal.adapters.contract.scribe import START, after
from runjournal.adapters.contract.tools import SteppedClock, deliveries_on, ledger_on
from runjournal.adapters.memory.store import MemoryStore

CLOCK = SteppedClock()
STORE = MemoryStore()
LEDGER = ledger_on(STORE, CLOCK)
LEASE = LEDGER.acquire("live")
DELIVERIES = deliveries_on(STORE, CLOCK)
LEDGER.start("awaited", delivery_ref="inbox")
END = LEDGER.cancel("awaited")
DELIVERY = STORE.deliveries(attention=None, limit=1, after=None)[0].invocation_id

#: A call with one wrong argument, and how the refusal begins.
DOORS: list[tuple[Any, str]] = [
    (lambda: LEDGER.start(1), "run id must be a str"),
    (lambda: LEDGER.start("n", kind=1), "kind must be a str"),
    (lambda: LEDGER.start("n", delivery_ref=1), "delivery_ref must be a str"),
    (lambda: LEDGER.start("n", authority_ref=1), "authority_ref must be a str"),
    (lambda: LEDGER.start("n", parent_run_id=1), "parent_run_id must be a str"),
    (lambda: LEDGER.start("n", labels={"a": 1}), "label 'a' must be a str"),
    (lambda: LEDGER.start("n", available_at=1), "available_at must be a datetime"),
    (lambda: LEDGER.start("n", actor=1), "actor must be a str"),
    (lambda: LEDGER.start("n", command_id=1), "command id must be a str"),
    (lambda: LEDGER.start("n", input={1}), "input"),
    (lambda: LEDGER.acquire(1), "run id must be a str"),
    (lambda: LEDGER.restore(1), "run id must be a str"),
    (lambda: LEDGER.claim(kinds=[1]), "kind must be a str"),
    (lambda: LEDGER.claim(kinds="etl"), "kinds must be a list of str"),
    (lambda: LEDGER.claim(limit=0), "limit must be an int from 1 to 1000, not 0"),
    (lambda: LEDGER.claim(limit=1001), "limit must be an int from 1 to 1000, not 1001"),
    (lambda: LEDGER.adopt(1, 1), "run id must be a str"),
    (lambda: LEDGER.adopt("live", 0), "fencing_token must be an int from 1"),
    (lambda: LEDGER.get(1), "run id must be a str"),
    (lambda: LEDGER.cancel(1), "run id must be a str"),
    (lambda: LEDGER.cancel("live", message=1), "message must be a str"),
    (lambda: LEDGER.cancel("live", actor=1), "actor must be a str"),
    (lambda: LEDGER.cancel("live", command_id=1), "command id must be a str"),
    (lambda: LEDGER.fail(1, "c"), "run id must be a str"),
    (lambda: LEDGER.fail("live", 1), "code must be a str"),
    (lambda: LEDGER.fail("live", "c", message=1), "message must be a str"),
    (lambda: LEDGER.request_resume("live", actor=1), "actor must be a str"),
    (lambda: LEDGER.record_decision("live", 1, "yes"), "approval id must be a str"),
    (lambda: LEDGER.record_decision("live", "a", 1), "decision must be a str"),
    (lambda: LEDGER.resolve(1, "live"), "command id must be a str"),
    (lambda: LEDGER.resolve("c", 1), "run id must be a str"),
    (lambda: LEASE.save_checkpoint({1}), "state"),
    (lambda: LEASE.save_checkpoint(1, key=1), "key must be a str"),
    (
        lambda: LEASE.save_checkpoint(1, snapshot_version=-1),
        "snapshot_version must be an int from 0",
    ),
    (lambda: LEASE.save_checkpoint(1, snapshot_version=True), "snapshot_version must be an int"),
    (lambda: LEASE.suspend([1]), "approval id must be a str"),
    (lambda: LEASE.suspend(resume_when_decided=True), "resume_when_decided needs at least one"),
    (lambda: LEASE.complete({1}), "result"),
    (lambda: LEASE.complete(code=1), "code must be a str"),
    (lambda: LEASE.complete(message=1), "message must be a str"),
    (lambda: LEASE.fail(1), "code must be a str"),
    (lambda: LEASE.fail("c", message=1), "message must be a str"),
    (lambda: LEASE.cancel(message=1), "message must be a str"),
    (lambda: LEASE.release(reason=1), "reason must be a str"),
    (lambda: LEASE.release(error=1), "error must be a str"),
    (lambda: LEASE.release(available_at=1), "available_at must be a datetime"),
    (lambda: LEASE.invocation_id(1), "name must be a str"),
    (lambda: ledger_on(STORE, CLOCK, 1), "owner must be a str"),  # type: ignore[arg-type]
    (lambda: ledger_on(STORE, CLOCK, lease_ttl="x"), "lease_ttl must be seconds"),
    (lambda: ledger_on(STORE, CLOCK, heartbeat_every="x"), "heartbeat_every must be seconds"),
    (lambda: ledger_on(STORE, CLOCK, lease_ttl=6, heartbeat_every=3.1), "heartbeat_every 3.1 s is"),
    (lambda: deliveries_on(STORE, CLOCK, owner=1), "owner must be a str"),  # type: ignore[arg-type]
    (lambda: deliveries_on(STORE, CLOCK, ttl=0), "ttl must be positive"),
    (lambda: DELIVERIES.get(1), "invocation id must be a str"),  # type: ignore[arg-type]
    (lambda: DELIVERIES.attempt(DELIVERY, actor=1), "actor must be a str"),  # type: ignore[arg-type]
    (lambda: DELIVERIES.expire(1, lambda _: None), "invocation id must be a str"),  # type: ignore[arg-type]
    (lambda: DELIVERIES.set_aside(DELIVERY, 1), "reason must be a str"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "message"), DOORS)
def test_refused_by_the_arguments_name(call: Any, message: str) -> None:
    before = [LEDGER.get("live"), LEDGER.get("awaited"), LEDGER.get("n"), DELIVERIES.get(DELIVERY)]
    with pytest.raises(RunStoreError) as caught:
        call()
    assert caught.value.code == "RUN_VALIDATION_ERROR"
    assert caught.value.message.startswith(message)
    now = [LEDGER.get("live"), LEDGER.get("awaited"), LEDGER.get("n"), DELIVERIES.get(DELIVERY)]
    assert now == before, "nothing was written"


def test_the_clock_is_checked_too() -> None:
    clock = SteppedClock()
    ledger = ledger_on(MemoryStore(), clock)
    clock.now = START.replace(tzinfo=None)
    with pytest.raises(RunStoreError) as caught:
        ledger.start("run")
    assert caught.value.message.startswith("clock 2026-01-01T12:30:15.123456 has no time zone")


def test_heartbeats_fit_into_the_lease() -> None:
    ledger = ledger_on(MemoryStore(), SteppedClock(), lease_ttl=6, heartbeat_every=3)
    assert (ledger.lease_ttl, ledger.heartbeat_every) == (6.0, 3.0)
    ledger = ledger_on(MemoryStore(), SteppedClock(), lease_ttl=timedelta(seconds=6))
    assert (ledger.lease_ttl, ledger.heartbeat_every) == (6.0, 2.0)
    with pytest.raises(RunStoreError) as caught:
        ledger_on(MemoryStore(), SteppedClock(), limits=DeploymentLimits(max_ttl=59))
    assert caught.value.reason == "lease_ttl"


LIMITS = {"labels": 1, "label_bytes": 2, "input_bytes": 3, "checkpoint_bytes": 3, "result_bytes": 3}


@pytest.mark.parametrize("limit", [*LIMITS, "approvals"])
def test_limits_of_what_is_handed_in(limit: str) -> None:
    """Up to the limit it is taken; beyond it nothing is written, and the run stays usable."""
    store, clock = MemoryStore(), SteppedClock()
    ledger = ledger_on(store, clock, limits=DeploymentLimits(**{limit: LIMITS.get(limit, 1)}))
    lease = ledger.acquire("held") if limit != "input_bytes" else None
    calls: dict[str, Any] = {
        "labels": lambda n: ledger.start("run", labels={f"a{i}": "b" for i in range(n)}),
        "label_bytes": lambda n: ledger.start("run", labels={"a": "b" * (n - 1)}),
        "input_bytes": lambda n: ledger.start("run", input=int("1" * n)),
        "checkpoint_bytes": lambda n: lease and lease.save_checkpoint(int("1" * n)),
        "result_bytes": lambda n: lease and lease.complete(int("1" * n)),
        "approvals": lambda n: lease and lease.suspend([f"a{i}" for i in range(n)]),
    }
    most = LIMITS.get(limit, 1)
    with pytest.raises(RunStoreError) as caught:
        calls[limit](most + 1)
    assert (caught.value.code, caught.value.reason) == ("RUN_LIMIT_EXCEEDED", limit)
    name = "held" if limit in ("checkpoint_bytes", "result_bytes", "approvals") else "run"
    assert f"run {name!r}" in caught.value.message
    calls[limit](most)


def test_what_a_handle_writes() -> None:
    """Each argument arrives where it belongs, in the event and in the record."""
    store, clock = MemoryStore(), SteppedClock()
    ledger = ledger_on(store, clock)

    def taken(name: str) -> Any:
        ledger.start(name, kind="etl", input=[1], labels={"a": "b"}, actor="boss", command_id="s")
        return ledger.acquire(name)

    lease = taken("saved")
    lease.save_checkpoint({"n": 1}, key="k", snapshot_version=3)
    record = lease.record
    assert record.checkpoint_ref is not None
    assert (record.checkpoint_ref.key, record.checkpoint_ref.snapshot_version) == ("k", 3)
    assert (lease.checkpoint, lease.input, lease.run_id) == ({"n": 1}, [1], "saved")
    assert (lease.owner, lease.fencing_token, lease.attempt, lease.ttl) == ("worker-1", 1, 1, 60.0)
    assert lease.held
    lease.release(reason="r", error="e", available_at=after(5))
    record = lease.record
    assert (record.failures, record.last_error, record.available_at) == (1, "e", after(5))
    assert not lease.held

    lease = taken("suspended")
    record = lease.suspend(["x", "y"], resume_when_decided=True)
    assert record.suspension is not None
    assert record.suspension.pending_approval_ids == ("x", "y")
    assert record.suspension.resume_when_decided is True
    record = ledger.record_decision("suspended", "x", "yes", "boss", "d1")
    assert record.approvals == {"x": "yes", "y": None}
    assert record.applied("d1") is not None
    record = ledger.request_resume("suspended", "boss", "r1")
    assert (record.status, record.applied("r1") is not None) == ("queued", True)

    for name, call, code, message in [
        ("completed", lambda h: h.complete(7, "done", "m"), "done", "m"),
        ("failed", lambda h: h.fail("bad", "m"), "bad", "m"),
        ("cancelled", lambda h: h.cancel("m"), "cancelled", "m"),
    ]:
        record = call(taken(name))  # type: ignore[no-untyped-call]
        assert record.outcome is not None
        assert (record.status, record.outcome.code, record.outcome.message) == (name, code, message)
    taken("given up").release()
    record = ledger.fail("given up", "lost", "m", "boss", "f1")
    assert record.outcome is not None
    assert (record.outcome.code, record.outcome.message) == ("lost", "m")
    record = ledger.cancel("saved", "m", "boss", "c1")
    assert record.outcome is not None
    assert (record.outcome.message, record.applied("c1") is not None) == ("m", True)
    outcome = ledger.resolve("c1", "saved")
    assert (outcome.run_id, outcome.command_id, outcome.applied) == ("saved", "c1", True)
    assert (outcome.version, outcome.record) == (record.version, record)
    unknown = ledger.resolve("other", "saved")
    assert (unknown.applied, unknown.version, unknown.record) == (False, None, record)
    nothing = ledger.resolve("other", "nowhere")
    assert (nothing.applied, nothing.version, nothing.record) == (False, None, None)


def test_start_passes_everything_on() -> None:
    ledger = ledger_on(MemoryStore(), SteppedClock())
    full: dict[str, Any] = {
        "kind": "etl",
        "delivery_ref": "inbox",
        "authority_ref": "auth",
        "labels": {"a": "b"},
        "parent_run_id": "parent",
        "available_at": after(5),
    }
    record = ledger.start("run", **full, input=[1], actor="boss", command_id="s")
    assert {name: getattr(record, name) for name in full} == full
    assert record.applied("s") is not None
    assert ledger.acquire("run").input == [1]
