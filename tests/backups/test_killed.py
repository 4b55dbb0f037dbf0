"""A backup or a restore that is killed leaves no half file under the name it was to have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal, restore_backup

SCRIPT = Path(__file__).with_name("killed_at_each_point.py")
#: `make prove` sets it: every point, and not one in so many.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    with open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        ledger = journal.ledger(owner="w")
        for number in range(3):
            ledger.start(f"run-{number}", delivery_ref="inbox")
            ledger.acquire(f"run-{number}", heartbeat=False).complete()
        yield journal


@pytest.mark.parametrize("what", ["backup", "restore"])
def test_case_56_killed_at_every_point(
    what: str, journal: Journal, tmp_path: Path, start_script: Any
) -> None:
    folder = tmp_path / "made"
    folder.mkdir()
    source = f"sqlite:///{tmp_path / 'runs.db'}"
    if what == "restore":
        source = str(tmp_path / "backup.db")
        journal.backup(source)
    every = 1 if PROVE else 23
    process = start_script(SCRIPT, what, source, folder, every)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    points = int(out)
    assert points > 100
    there = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    # Whoever was killed after the name was given has left a whole file, and nobody a half one.
    assert "whole.db" in there
    late = {f"{point}.db" for point in range(max(1, points - 40), points + 1)}
    assert there <= late | {"whole.db"}
    for name in there:
        with open_journal(f"sqlite:///{folder / name}") as made:
            assert made.verify().findings == []
            assert made.verify().events == (10 if what == "restore" else 9) + 3
    # What is left beside it is in nobody's way.
    if what == "restore":
        restore_backup(source, folder / "1.db", actor="operator", reason="again")
    else:
        journal.backup(folder / "1.db")
