"""The command prune."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal
from runjournal.adapters.cli.main import app
from runjournal.adapters.contract.tools import SteppedClock
from typer.testing import CliRunner


@pytest.fixture
def runs(journal: Journal) -> None:
    clock = SteppedClock()
    ledger = journal.ledger(owner="w", clock=clock)
    for name, ref in (("a", None), ("b", None), ("sent", "inbox")):
        ledger.start(name, delivery_ref=ref)
        ledger.acquire(name, heartbeat=False).complete()
    journal.ledger(owner="w").acquire("new", heartbeat=False).complete()


@pytest.mark.usefixtures("runs")
def test_by_age(cli: Any, journal: Journal) -> None:
    told = cli("prune", "--older-than", "30d", "--dry-run")
    assert told.splitlines()[0].startswith("would remove 2 runs with 6 events that ended before ")
    assert told.splitlines()[1:3] == ["  a", "  b"]
    assert told.splitlines()[3].startswith("held back, undelivered: 1, such as sent: delivery ")
    assert len(journal.runs()) == 4
    said = cli("prune", "--older-than", "30d", "--actor", "ada", "--reason", "kept for 30 days")
    assert said.startswith("removed 2 runs with 6 events that ended before ")
    assert [r.run_id for r in journal.runs()] == ["sent", "new"]
    (event,) = [e for _, e in journal.subscribe(topics=["audit.runs_pruned"], follow=False)]
    assert (event.actor, event.reason) == ("ada", "kept for 30 days")  # type: ignore[attr-defined]
    assert cli("verify").endswith("nothing new, 0 acknowledged\n")


@pytest.mark.usefixtures("runs")
def test_by_time_as_json_with_an_archive(cli: Any, tmp_path: Path) -> None:
    cut = "2026-02-01T00:00:00+05:45"
    done = cli.json("prune", "--ended-before", cut, "--archive", "old.jsonl", "--limit", "1")
    assert (done["runs"], done["events"], done["runIds"]) == (2, 6, ["a", "b"])
    assert (done["held"], done["done"], done["dryRun"]) == ({"undelivered": 1}, True, False)
    assert done["endedBefore"] == "2026-01-31T18:15:00+00:00"
    assert done["heldRuns"][0]["runId"] == "sent"
    assert (tmp_path / "old.jsonl").stat().st_mode & 0o777 == 0o600
    said = cli("--db", "sqlite:///old.db", "import", "old.jsonl")
    assert said == "2 new, 0 extended, 0 there already; 6 events written\n"
    said = cli("import", "old.jsonl")
    assert said == (
        "0 new, 0 extended, 0 there already; 0 events written\n2 were pruned here, and stay so\n"
    )
    for command in ("show", "log", "timeline", "replay"):
        assert "RUN_NOT_FOUND/pruned" in cli(command, "a", code=3)
    assert "RUN_CONFLICT/pruned" in cli("start", "a", "--kind", "other", code=4)
    told = json.loads(cli("--json", "start", "a"))
    assert (told["status"], bool(told["prunedAt"])) == ("completed", True)


@pytest.mark.usefixtures("runs")
def test_torn_archive(cli: Any, tmp_path: Path) -> None:
    cli("prune", "--ended-before", "2026-02-01T00:00:00Z", "--archive", "old", "--limit", "1")
    archive = tmp_path / "old"
    archive.write_bytes(archive.read_bytes()[:-9])
    # What is whole is imported, and somebody must look at the rest.
    done = CliRunner().invoke(app, ["--db", "sqlite:///old.db", "import", "old"])
    assert done.exit_code == 6
    assert done.stdout.endswith("the last document is cut short and left out: run/b\n")
    # It was whole once: its run is gone, so the next prune must not take it away.
    cut_short = archive.read_bytes()
    said = cli("prune", "--older-than", "30d", "--archive", "old", code=2)
    assert said.startswith("runjournal: RUN_VALIDATION_ERROR/export_file: old is cut short")
    assert archive.read_bytes() == cut_short


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--older-than", "30d", "--ended-before", "2026-01-01T00:00:00Z"),
        ("--older-than", "0d"),
        ("--older-than", "thirty days"),
        ("--older-than", "30"),
        ("--older-than", "999999w"),
        ("--ended-before", "2026-01-01T00:00:00"),
        ("--ended-before", "yesterday"),
        ("--ended-before", "9026-01-01T00:00:00Z"),
        ("--older-than", "30d", "--limit", "0"),
        ("--older-than", "30d", "--ignore-projection", "none"),
        ("--older-than", "30d", "--archive", "no/folder"),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("runs")
def test_bad_input_removes_nothing(cli: Any, journal: Journal, arguments: tuple[str, ...]) -> None:
    complaint = cli("prune", *arguments, code=2)
    assert complaint.startswith("runjournal: RUN_VALIDATION_ERROR/")
    assert len(complaint.splitlines()) == 1
    assert len(journal.runs()) == 4
