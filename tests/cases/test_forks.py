"""Case 64: a host that forks with a journal open."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

FORKER = Path(__file__).with_name("forking_host.py")
OUTLIVER = Path(__file__).with_name("outliving_child.py")
MEMORY = Path(__file__).with_name("forking_memory.py")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing to fork with")

Verify = Callable[[Journal, str], None]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_case_64_fork_while_the_journal_is_open(
    request: pytest.FixtureRequest, start_script: Start, verify_run: Verify, backend: str
) -> None:
    """Children connect anew, the parent's leases are refused to them, and the parent goes on."""
    url = str(request.getfixturevalue(f"{backend}_url"))
    said, complaints = start_script(FORKER, url).communicate()
    assert said, complaints
    found = json.loads(said)
    assert found["codes"] == [0, 0, 0, 0], complaints
    with open_journal(url) as journal:
        owners = set()
        for number in range(4):
            events: list[Any] = list(journal.events(f"child-{number}"))
            assert len(events) == 100
            result = events[-1].result
            assert result["refusals"] == ["RUN_LEASE_LOST/forked"] * 4
            owners.add(result["owner"])
            verify_run(journal, f"child-{number}")
        assert len(owners) == 4
        assert "parent" not in owners
        # Nobody but the parent wrote to its runs, and none of its writes is missing.
        assert [e.topic for e in journal.events("quiet")] == [
            "run.queued",
            "run.lease_granted",
            "run.checkpoint_saved",
            "run.checkpoint_saved",
            "run.completed",
        ]
        steps = [e.state for e in journal.events("busy") if e.topic == "run.checkpoint_saved"]
        assert steps == [{"step": n} for n in range(found["written"])]
        for run_id in ("quiet", "busy"):
            verify_run(journal, run_id)
    if backend == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_case_64_parent_closes_before_its_child(
    sqlite_url: str, start_script: Start, verify_run: Verify
) -> None:
    """What the child is told is written, stays written, though the parent closed the file since.

    SQLite keeps a process's locks in its memory: a child that inherits them believes it holds
    locks that it does not, and the parent would take the log away from under it.
    """
    said, complaints = start_script(OUTLIVER, sqlite_url).communicate()
    assert said, complaints
    with open_journal(sqlite_url) as journal:
        assert len(list(journal.events("child"))) == int(said) == 103
        for run in journal.runs():
            verify_run(journal, run.run_id)


def test_case_64_memory_is_the_parents_alone(start_script: Start) -> None:
    """What a child wrote into its copy nobody would ever read: it is refused, never hangs."""
    said, complaints = start_script(MEMORY).communicate()
    assert said, complaints
    found = json.loads(said)
    refusals = ["RUN_VALIDATION_ERROR/closed"] * 5 + ["RUN_LEASE_LOST/forked"]
    assert found == {"told": [refusals] * 4, "others": 0}
