"""The commands for an auditor: replay, timeline, report."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal
from runjournal.adapters.contract.scribe import START
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.adapters.report import writing


@pytest.fixture
def story(journal: Journal, clock: SteppedClock) -> None:
    """A run that was started by alice, taken over, suspended, decided on by bob, and completed."""

    def ledger(owner: str):  # type: ignore[no-untyped-def]
        return journal.ledger(owner=owner, clock=clock, lease_ttl=20)

    ledger("x").start("r", kind="report", labels={"team": "x"}, actor="alice")
    clock.advance(1)
    first = ledger("worker-1").acquire("r", heartbeat=False)
    for n in range(3):
        clock.advance(4)
        first.save_checkpoint({"n": n})
    clock.advance(40)
    second = ledger("worker-2").acquire("r", heartbeat=False)
    clock.advance(10)
    second.suspend(["boss"], resume_when_decided=True)
    clock.advance(10)
    ledger("x").record_decision("r", "boss", "[red]yes[/red]", actor="bob")
    clock.advance(5)
    ledger("worker-2").acquire("r", heartbeat=False).complete({"rows": 12})


@pytest.mark.usefixtures("story")
def test_replay_is_the_record_as_it_was(cli: Any) -> None:
    for version in range(1, 12):
        replayed = cli.json("replay", "r", "--at", str(version))
        assert replayed == cli.json("show", "r", "--at", str(version))
    assert cli.json("replay", "r") == replayed == cli.json("show", "r")
    at = START.replace(second=16).isoformat()
    assert cli.json("replay", "r", "--as-of", at)["version"] == 2
    assert "status         running" in cli("replay", "r", "--at", "2")
    assert "RUN_NOT_FOUND/version" in cli("replay", "r", "--at", "12", code=3)
    assert "RUN_NOT_FOUND/run" in cli("replay", "nobody", code=3)
    assert "RUN_NOT_FOUND/run" in cli("replay", "nobody", "--as-of", at, code=3)
    assert "RUN_VALIDATION_ERROR/time" in cli("replay", "r", "--as-of", "soon", code=2)
    assert "RUN_VALIDATION_ERROR/time" in cli("replay", "r", "--as-of", "2026-01-01", code=2)
    both = cli("replay", "r", "--at", "1", "--as-of", at, code=2)
    assert "version or as_of, not both" in both


@pytest.mark.usefixtures("story")
def test_replay_tells_what_each_event_changed(cli: Any) -> None:
    *steps, record = cli.lines("replay", "r", "--at", "2", "--diff")
    assert [(s["version"], s["topic"], s["actor"]) for s in steps] == [
        (1, "run.queued", "alice"),
        (2, "run.lease_granted", None),
    ]
    assert {"field": "status", "before": "queued", "after": "running"} in steps[1]["changes"]
    assert record["version"] == 2
    text = cli("replay", "r", "--diff")
    assert "       fencingToken: 1 -> 2\n" in text
    assert "       lease.owner: worker-2 -> nothing\n" in text
    assert "       approvals.boss: -> [red]yes[/red]\n" in text
    assert text.index("lease_granted") < text.index("completed") < text.index("\nrun  ")


@pytest.mark.usefixtures("story")
def test_timeline_in_a_pipe(cli: Any) -> None:
    text = cli("timeline", "r")
    assert text.isprintable() or set(text) <= {"\n"} | {c for c in text if c.isprintable()}
    lines = text.splitlines()
    drawn = lines[: lines.index("", 2)]
    assert max(map(len, drawn)) <= 80
    run, one, two = drawn[2:5]
    assert re.fullmatch(r"run +○.*░+◆.*✓", run)
    assert re.fullmatch(r"worker-1 +1━*•━*•━*•━+╌+✗", one)
    assert re.fullmatch(r"worker-2 +▼2━+ +\S+", two)
    # The takeover is where the first holder's lease was seen to have run out.
    assert one.index("✗") == two.index("▼")
    assert "▼ takeover" in text
    rows = [line.split() for line in lines if "worker-" in line][2:]
    assert [(r[0], r[2]) for r in rows] == [("1", "worker-1"), ("2", "worker-2"), ("3", "worker-2")]
    assert "taken over, idle up to 30.0 s" in text
    assert "decided boss: [red]yes[/red] by bob" in text
    assert "RUN_NOT_FOUND/run" in cli("timeline", "nobody", code=3)


@pytest.fixture
def ascii_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")


@pytest.mark.usefixtures("ascii_only", "story")
def test_timeline_where_only_ascii_can_be_shown(
    spawn: Callable[..., subprocess.Popen[str]],
) -> None:
    text, errors = spawn("timeline", "r").communicate()
    assert errors == ""
    assert text.isascii()
    assert re.search(r"^worker-1 +1=*o=*o=*o=+-+x$", text, re.MULTILINE)


@pytest.mark.usefixtures("story")
def test_timeline_as_data(cli: Any, journal: Journal) -> None:
    data = cli.json("timeline", "r")
    assert data == journal.timeline("r").model_dump(mode="json", by_alias=True)
    assert [(h["owner"], h["fencingToken"], h["ended"]) for h in data["holdings"]] == [
        ("worker-1", 1, "taken over"),
        ("worker-2", 2, "suspended"),
        ("worker-2", 3, "completed"),
    ]
    assert data["record"] == cli.json("show", "r")


def test_timeline_of_a_run_that_nobody_had(cli: Any) -> None:
    cli("start", "new")
    text = cli("timeline", "new")
    assert "new  queued, 1 events in 0 ms" in text
    assert "TOKEN" not in text


@pytest.mark.usefixtures("story")
def test_report_is_a_file_for_its_owner(cli: Any, tmp_path: Path) -> None:
    assert cli("report", "r", "-o", "r.html") == "r.html: written\n"
    file = tmp_path / "r.html"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    written = file.read_bytes()
    assert "exists; --force replaces it" in cli("report", "r", "-o", "r.html", code=2)
    assert file.read_bytes() == written
    cli("start", "other")
    told = cli.json("report", "r", "other", "--output", "r.html", "--no-payloads", "--force")
    assert told == {"file": "r.html", "bytes": file.stat().st_size, "runIds": ["r", "other"]}
    assert 'href="#run-2">other<' in file.read_text(encoding="utf-8")
    assert list(tmp_path.glob(".r.html*")) == []


@pytest.mark.usefixtures("story")
def test_report_to_stdout(cli: Any, tmp_path: Path) -> None:
    page = cli("report", "r", "-o", "-")
    assert page.startswith("<!doctype html>")
    assert page.endswith("</html>")
    assert not (tmp_path / "-").exists()


@pytest.mark.usefixtures("story")
def test_report_writes_all_or_nothing(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "RUN_NOT_FOUND/run" in cli("report", "r", "nobody", "-o", "new.html", code=3)
    assert "is a folder" in cli("report", "r", "-o", ".", code=2)
    assert "there is no folder 'no'" in cli("report", "r", "-o", "no/r.html", code=2)
    assert "--output" in cli("report", "r", code=2)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    assert "No space left" in cli("report", "r", "-o", "new.html", code=7)
    assert [name for name in os.listdir(tmp_path) if "html" in name] == []
