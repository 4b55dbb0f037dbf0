"""Case 48: values that change behind the journal's back."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from runjournal import Journal, RunLeaseHandle

Verify = Callable[[Journal, str], None]


@pytest.fixture
def lease(journal: Journal) -> RunLeaseHandle:
    return journal.ledger().acquire("r", heartbeat=False)


def test_case_48_later_changes_have_no_effect(
    journal: Journal, lease: RunLeaseHandle, verify_run: Verify
) -> None:
    """What was handed in, and what was handed out, may be changed without changing the journal."""
    state: dict[str, Any] = {"rows": [1, 2], "inner": {"n": 1}}
    labels = {"team": "a"}
    given = {"paths": ["x"]}
    approvals = ["x"]
    record = lease.save_checkpoint(state)
    state["rows"].append(3)
    state["inner"]["n"] = 2
    assert lease.checkpoint == {"rows": [1, 2], "inner": {"n": 1}}
    read = lease.checkpoint
    read["rows"].clear()
    list(journal.events("r"))[-1].state["inner"]["n"] = 3  # type: ignore[attr-defined]
    assert lease.checkpoint == {"rows": [1, 2], "inner": {"n": 1}}
    assert journal.get("r") == record
    ledger = journal.ledger()
    started = ledger.start("q", input=given, labels=labels)
    given["paths"].append("y")
    labels["team"] = "b"
    assert started.labels == {"team": "a"}
    other = ledger.acquire("q", heartbeat=False)
    other.input["paths"].append("z")
    assert other.input == {"paths": ["x"]}
    suspended = other.suspend(approvals)
    approvals.append("y")
    assert suspended == ledger.get("q")
    assert suspended.suspension is not None
    assert suspended.suspension.pending_approval_ids == ("x",)
    verify_run(journal, "r")
    verify_run(journal, "q")


def test_case_48_a_returned_record_is_no_way_into_the_store(journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.start("r", labels={"team": "a"})
    lease = ledger.acquire("r", heartbeat=False)
    lease.suspend(["x"])
    for record in (lease.record, ledger.get("r"), journal.runs()[0]):
        assert record is not None
        for mapping in (record.labels, record.approvals):
            try:
                mapping.clear()  # a mapping that refuses is as good
            except (TypeError, AttributeError):
                pass
    kept = ledger.get("r")
    assert kept is not None
    assert (kept.labels, kept.approvals) == ({"team": "a"}, {"x": None})


def test_case_48_another_thread_changes_it_meanwhile(
    journal: Journal, lease: RunLeaseHandle, verify_run: Verify
) -> None:
    """The stored value is one that the object had during the call, and has the hash on record."""
    state: dict[str, Any] = {"pad": "x" * 2000, "n": 0, "log": [0], "pair": [0, 0]}
    stop = threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            state["log"].append(n)
            state["pair"] = [n, n]
            state[f"extra-{n % 7}"] = n
            state["n"] = n
            state.pop(f"extra-{(n + 3) % 7}", None)
            if n % 500 == 0:
                state["log"] = [n]

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            low = state["n"]
            record = lease.save_checkpoint(state)
            high = state["n"] + 1  # the thread may be within one of its rounds
            saved = lease.checkpoint
            assert low <= saved["n"] <= high
            assert low <= saved["log"][-1] <= high
            assert saved["log"] == list(range(saved["log"][0], saved["log"][-1] + 1))
            assert saved["pair"][0] == saved["pair"][1]
            assert record.checkpoint_ref is not None
            assert record.checkpoint_ref.digest == digest(saved)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(usual)
    assert state["n"] > 300  # it really ran beside
    verify_run(journal, "r")


def digest(value: Any) -> str:
    """SHA-256 of the value's canonical stored form."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()
