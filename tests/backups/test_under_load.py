"""Backups of a file that four processes write to."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from runjournal import open_journal, restore_backup

WRITER = Path(__file__).with_name("busy_writer.py")
#: `make prove` sets it: 50 backups, as the case says, ten with each four writers.
ROUNDS, BACKUPS = (5, 10) if os.environ.get("RUNJOURNAL_PROVE") else (1, 5)
UPTO = "SELECT position, stream, version, topic, state FROM events WHERE position <= ? ORDER BY 1"


def prefix(path: Path, position: int) -> list[Any]:
    with closing(sqlite3.connect(path)) as conn:
        return conn.execute(UPTO, (position,)).fetchall()


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_case_56_backups_while_four_write(tmp_path: Path, start_script: Any, round_: int) -> None:
    source = tmp_path / "runs.db"
    with open_journal(f"sqlite:///{source}") as journal:
        writers = [start_script(WRITER, f"sqlite:///{source}", f"w{n}") for n in range(4)]
        for writer in writers:
            assert writer.stdout.readline() == "ready\n"
        before = 0
        for number in range(BACKUPS):
            backup, copy = tmp_path / f"backup-{number}.db", tmp_path / f"restored-{number}.db"
            told = journal.backup(backup)
            assert stat.S_IMODE(backup.stat().st_mode) == 0o600
            assert told.position > before  # the writers were not stopped
            before = told.position
            # Exactly what was there at one moment: everything up to a position, and nothing else.
            assert prefix(backup, 2**62) == prefix(source, told.position)
            assert len(prefix(backup, 2**62)) == told.events
            done = restore_backup(backup, copy, actor="operator", reason="a test")
            assert (done.events, done.last_position) == (told.events, told.position)
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            with open_journal(f"sqlite:///{copy}") as restored:
                assert restored.verify().findings == []
                for table in ("run_records", "delivery_outbox"):
                    rebuilt = restored.rebuild(table)
                    assert (rebuilt.repaired, rebuilt.findings) == (0, ())
        for writer in writers:
            out, err = writer.communicate()
            assert (writer.returncode, err) == (0, "")
            waits = sorted(json.loads(out))
            assert waits[-1] < 5.0  # nobody was refused, and nobody waited out his patience
        assert journal.verify().findings == []
