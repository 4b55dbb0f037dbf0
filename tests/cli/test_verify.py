"""verify, anchor and projections on the command line."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal
from runjournal.adapters.cli.main import app
from runjournal.projections.takeovers import Takeovers
from typer.testing import CliRunner

from ..verifying.conftest import fill


@pytest.fixture
def filled(journal: Journal) -> Journal:
    fill(journal)
    return journal


def change(statement: str) -> None:
    with sqlite3.connect("runjournal.db") as file:
        file.execute("DROP TRIGGER IF EXISTS events_last_stays")
        file.execute(statement)


def test_verify_says_that_all_is_well(cli: Any, filled: Journal) -> None:
    text = cli("verify")
    assert text.endswith("events read; nothing new, 0 acknowledged\n")
    done = cli.json("verify")
    assert (done["findings"], done["acknowledged"]) == ([], [])
    assert f"{done['events']} events read" in text


def test_what_is_wrong_is_named_and_can_be_acknowledged(cli: Any, filled: Journal) -> None:
    change("UPDATE runs SET kind = 'x' WHERE run_id = 'done-0'")
    text = failing("verify")
    assert "record: run/done-0 has a record that its events do not lead to: kind is 'x'" in text
    cli("verify", "--acknowledge", code=2)
    said = cli("verify", "--acknowledge", "--actor", "ada", "--reason", "known")
    assert said.endswith("1 now acknowledged, 0 acknowledged\n")
    again = cli("verify")
    assert "acknowledged by ada (known)" in again
    assert again.endswith("nothing new, 1 acknowledged\n")


def test_anchor_finds_what_is_gone(cli: Any, filled: Journal, tmp_path: Path) -> None:
    (tmp_path / "anchor").write_text(cli("anchor"))
    assert "nothing new" in cli("verify", "--anchor", "anchor")
    change("DELETE FROM events WHERE stream = 'run/plain-0'")
    change("DELETE FROM runs WHERE run_id = 'plain-0'")
    assert "nothing new" in cli("verify")
    assert "anchor_missing: run/plain-0" in failing("verify", "--anchor", "anchor")
    assert "cannot be read" in cli("verify", "--anchor", "none", code=2)


def test_projections(cli: Any, filled: Journal) -> None:
    filled.projection(Takeovers()).catch_up()
    text = cli("projections", "status")
    assert all(name in text for name in ("run_records", "delivery_outbox", "takeovers"))
    (state,) = cli.json("projections", "status")["projections"]
    assert (state["name"], state["behind"], state["parkedAt"]) == ("takeovers", 0, None)
    change("UPDATE runs SET kind = 'x' WHERE run_id = 'done-0'")
    assert "record: run/done-0" in failing("projections", "verify", "run_records")
    assert "nothing new" in cli("projections", "verify", "delivery_outbox")
    assert cli("projections", "rebuild", "run_records").endswith("1 rows put right\n")
    done = cli.json("projections", "rebuild", "run_records")
    assert (done["repaired"], done["findings"], done["interrupted"]) == (0, [], False)
    change("UPDATE runs SET head = 'x' WHERE run_id = 'done-0'")
    assert "head: run/done-0" in failing("projections", "rebuild", "run_records")
    for command in ("verify", "rebuild"):
        assert "there is no table 'nope'" in cli("projections", command, "nope", code=2)


def failing(*args: str) -> str:
    """What a command prints that exits with 6: its findings are on stdout."""
    result = CliRunner().invoke(app, args)
    assert (result.exit_code, result.stderr) == (6, "")
    return result.stdout
