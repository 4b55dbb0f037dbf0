"""The commands on Postgres: the same as on a file."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import open_journal
from runjournal.adapters.postgres import database

Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def _in_the_environment(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNJOURNAL_DB", postgres_url)


def test_a_run_from_start_to_end(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "pg_jobs.py").write_text(
        "def report(ctx):\n    ctx.save_checkpoint([1])\n    return {'rows': ctx.input['rows']}\n"
    )
    assert (
        cli("start", "a", "--input", '{"rows": 3}', "--label", "k=v") == "a: queued (version 1)\n"
    )
    assert cli("worker", "--handler", "pg_jobs:report", "--once") == "a: completed (version 4)\n"
    assert cli("worker", "--handler", "pg_jobs:report", "--once") == "no run is due\n"
    record = cli.json("show", "a")
    assert (record["status"], record["labels"]) == ("completed", {"k": "v"})
    assert cli.json("show", "a", "--at", "1")["status"] == "queued"
    topics = [event["topic"] for event in cli.lines("log", "a")]
    assert topics == [
        "run.queued",
        "run.lease_granted",
        "run.checkpoint_saved",
        "run.completed",
    ]
    assert [r["runId"] for r in cli.json("list", "--status", "completed")] == ["a"]
    assert "RUN_NOT_FOUND/run" in cli("show", "b", code=3)


def test_commands_of_an_operator(cli: Any, postgres_url: str) -> None:
    with open_journal(postgres_url) as journal:
        journal.ledger().acquire("a").suspend(["boss"])
        with journal.ledger().acquire("held"):
            assert "RUN_LEASE_HELD/held" in cli("fail", "held", "--code", "x", code=5)
    assert cli.json("decide", "a", "boss", "yes")["approvals"] == {"boss": "yes"}
    assert "RUN_CONFLICT/different_decision" in cli("decide", "a", "boss", "no", code=4)
    assert cli("resume", "a") == "a: queued (version 5)\n"
    assert cli("cancel", "a", "--command-id", "c") == "a: cancelled (version 6)\n"
    assert cli("cancel", "a", "--command-id", "c") == "a: cancelled (version 6)\n"
    cli("start", "broken")
    assert cli("fail", "broken", "--code", "gone") == "broken: failed (version 2)\n"


def test_a_schema_of_its_own(cli: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("--schema", "team_a", "start", "a")
    monkeypatch.setenv("RUNJOURNAL_SCHEMA", "team_b")
    cli("start", "b")
    assert [r["runId"] for r in cli.json("list")] == ["b"]
    assert [r["runId"] for r in cli.json("--schema", "team_a", "list")] == ["a"]
    assert cli.json("--schema", "public", "list") == []
    with psycopg.connect(postgres_url) as conn:
        assert conn.execute("SELECT run_id FROM team_b.runs").fetchall() == [("b",)]


def test_without_a_session(cli: Any) -> None:
    """What the commands do behind a transaction pooler."""
    assert cli("--pooler", "start", "a") == "a: queued (version 1)\n"
    assert cli("--pooler", "cancel", "a") == "a: cancelled (version 2)\n"


def test_a_worker_process_is_interrupted(
    cli: Any, spawn: Spawn, tmp_path: Path, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    (tmp_path / "pg_waiting.py").write_text(
        "def wait(ctx):\n    ctx.save_checkpoint('here')\n    ctx.stop.wait()\n"
    )
    cli("start", "a")
    process = spawn("worker", "--handler", "pg_waiting:wait")
    wait_until(lambda: cli.json("show", "a")["version"] == 3)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert cli.json("show", "a")["status"] == "queued"


def test_what_cannot_be_reached_is_one_line(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "TRIES", 2)
    nowhere = "postgresql://me:secret@127.0.0.1:1/db?connect_timeout=1"
    line = cli("--db", nowhere, "list", code=7)
    assert line.startswith("runjournal: RUN_STORE_UNAVAILABLE/failed: ")
    assert "secret" not in line
    assert "RUN_VALIDATION_ERROR/address" in cli("--db", "postgresql://[", "list", code=2)
