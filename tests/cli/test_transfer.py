"""The commands export, import and copy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal


@pytest.fixture
def runs(journal: Journal) -> None:
    ledger = journal.ledger(owner="w")
    for name in ("a", "b"):
        ledger.start(name, kind="etl", delivery_ref="inbox")
        ledger.acquire(name, heartbeat=False).complete()
    ledger.start("c")


@pytest.mark.usefixtures("runs")
def test_there_and_back(cli: Any, tmp_path: Path) -> None:
    assert cli("export", "--all", "-o", "all.jsonl") == "all.jsonl: 9 events in 5 streams\n"
    said = cli("--db", "sqlite:///other.db", "import", "all.jsonl")
    assert said == (
        "3 new, 0 extended, 0 there already; 9 events written\n"
        "2 undelivered results are set aside: see `deliveries retry` and --send-deliveries\n"
    )
    assert cli("--db", "sqlite:///other.db", "verify").startswith("9 events read; nothing new")
    again = cli("copy", "sqlite:///other.db", "sqlite:///runjournal.db")
    assert again == "0 new, 0 extended, 3 there already; 0 events written\n"
    copied = json.loads(cli("--json", "copy", "sqlite:///other.db", "sqlite:///third.db"))
    assert copied == {
        "new": 3,
        "extended": 0,
        "unchanged": 0,
        "events": 9,
        "heldDeliveries": 2,
        "conflicts": [],
        "pruned": 0,
        "tombstones": 0,
        "torn": [],
    }
    assert cli("--db", "sqlite:///third.db", "export", "--all", "-o", "-") == (
        tmp_path / "all.jsonl"
    ).read_text(encoding="utf-8")
    told = json.loads(cli("--json", "export", "a", "-o", "a.jsonl"))
    assert (told["file"], told["streams"], told["events"]) == ("a.jsonl", 2, 4)


@pytest.mark.usefixtures("runs")
def test_refusals(cli: Any, tmp_path: Path) -> None:
    assert "name the runs" in cli("export", "-o", "x", code=2)
    assert "name the runs" in cli("export", "a", "--all", "-o", "x", code=2)
    assert "RUN_NOT_FOUND/run" in cli("export", "z", "-o", "x", code=3)
    assert "no folder" in cli("export", "a", "-o", "none/x", code=2)
    cli("export", "a", "-o", "x")
    assert "exists" in cli("export", "a", "-o", "x", code=2)
    assert "cannot be read" in cli("import", "nothing", code=2)
    assert "line 1 " in cli("import", "runjournal.db", code=2)
    assert "RUN_STORE_ATOMIC_REQUIRED" in cli("--db", "memory:", "import", "x", code=2)
    assert "RUN_STORE_ATOMIC_REQUIRED" in cli("copy", "sqlite:///runjournal.db", "memory:", code=2)
    assert "there is no file" in cli("copy", "sqlite:///typo.db", "sqlite:///y.db", code=2)
    assert not (tmp_path / "typo.db").exists()
    assert not (tmp_path / "y.db").exists()


@pytest.mark.usefixtures("runs")
def test_a_conflict_is_named_and_the_rest_goes_on(cli: Any) -> None:
    cli("export", "--all", "-o", "x")
    cli("--db", "sqlite:///other.db", "start", "a")
    other = ("--db", "sqlite:///other.db")
    said = _ended_with_conflict(cli, *other, "import", "x")
    assert "conflict: run/a is another stream here" in said
    assert "2 new, 0 extended, 0 there already, 1 in conflict; 5 events written" in said
    again = _ended_with_conflict(cli, *other, "--json", "import", "x")
    assert [c["stream"] for c in json.loads(again)["conflicts"]] == ["run/a"]


def _ended_with_conflict(cli: Any, *args: str) -> str:
    from runjournal.adapters.cli.main import app
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, args)
    assert result.exit_code == 4, result.output
    return str(result.stdout)


@pytest.mark.usefixtures("runs")
def test_a_pipe_is_refused(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    process = spawn("--db", "sqlite:///other.db", "import", "/dev/stdin", stdin=subprocess.PIPE)
    _, err = process.communicate("")
    assert process.returncode == 2
    assert "is a pipe" in err
