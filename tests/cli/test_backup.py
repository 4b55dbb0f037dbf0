"""The commands backup, restore and restore-check."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

WHO = ("--actor", "alice", "--reason", "the disk died")


@pytest.fixture
def _runs(journal: Journal) -> None:
    journal.ledger(owner="w").acquire("a", heartbeat=False).complete()


@pytest.mark.usefixtures("_runs")
def test_there_and_back(cli: Any, tmp_path: Path) -> None:
    said = cli("backup", "backup.db")
    size = (tmp_path / "backup.db").stat().st_size
    assert re.fullmatch(
        rf"backup.db: {size:,} bytes, 3 events in 1 streams, up to position 3; verified\n"
        r"heads sha256 [0-9a-f]{64}\n",
        said,
    )
    assert cli("restore", "backup.db", "restored.db", *WHO) == (
        "restored.db: 3 events verified, up to position 3; epoch 1, tokens from 4,294,967,297 on\n"
    )
    with open_journal("sqlite:///restored.db") as journal:
        assert journal.ledger().acquire("b", heartbeat=False).fencing_token == 2**32 + 1
    again = ("--db", "sqlite:///restored.db", "restore-check", *WHO)
    assert cli(*again).startswith("the journal: 7 events verified, up to position ")
    assert cli.json(*again) == {
        "events": 8,
        "lastPosition": 2 * 2**32 + 6,
        "oldEpoch": 2,
        "epoch": 3,
    }


@pytest.mark.usefixtures("_runs")
def test_for_programs(cli: Any) -> None:
    told = cli.json("backup", "backup.db")
    assert told["file"] == "backup.db"
    assert (told["streams"], told["events"], told["position"], told["epoch"]) == (1, 3, 3, 0)
    assert set(told) == {"file", "bytes", "streams", "events", "position", "epoch", "heads"}
    assert cli.json("restore", "backup.db", "restored.db", *WHO) == {
        "events": 3,
        "lastPosition": 3,
        "oldEpoch": 0,
        "epoch": 1,
    }


@pytest.mark.usefixtures("_runs")
def test_what_is_refused_leaves_nothing(cli: Any, tmp_path: Path) -> None:
    cli("backup", "backup.db")
    before = sorted(os.listdir(tmp_path))
    for code, args, told in (
        (2, ("backup", "backup.db"), "'backup.db' exists; a backup replaces nothing"),
        (2, ("restore", "backup.db", "runjournal.db", *WHO), "another journal is or was"),
        (2, ("restore", "runjournal.db", "new.db", *WHO), "is in use"),
        (2, ("restore", "nothing.db", "new.db", *WHO), "'nothing.db' is no file"),
        (2, ("restore", "backup.db", "new.db"), "--actor"),
        (2, ("restore-check", "--actor", "alice"), "--reason"),
    ):
        said = cli(*args, code=code)
        assert told in said
        assert said.count("\n") == 1
    (tmp_path / "cut.db").write_bytes((tmp_path / "backup.db").read_bytes()[:9000])
    said = cli("restore", "cut.db", "new.db", *WHO, code=6)
    assert said.startswith("runjournal: RUN_INTEGRITY_ERROR/damaged_database: cut.db is cut short")
    (tmp_path / "cut.db").unlink()
    assert sorted(os.listdir(tmp_path)) == before


def test_on_postgres_it_names_what_to_use(cli: Any, postgres_url: str, tmp_path: Path) -> None:
    said = cli("--db", postgres_url, "backup", "backup.db", code=2)
    for named in ("pg_dump", "base backups", "restore-check", "export --all"):
        assert named in said
    assert said.count("\n") == 1
    assert os.listdir(tmp_path) == []
    said = cli("--db", postgres_url, "restore-check", *WHO)
    assert said.startswith("the journal: 0 events verified, up to position 0; epoch 1, ")
