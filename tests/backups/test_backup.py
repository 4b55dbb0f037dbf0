"""What a backup is, and what is not backed up."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from runjournal import Journal, RunStoreError, open_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with open_journal(f"sqlite:///{path}") as journal:
        journal.ledger(owner="w").acquire("run", heartbeat=False).complete()
        yield journal


def names_in(folder: Path) -> set[str]:
    """What is in the folder beside an open journal's own -wal and -shm."""
    if not folder.is_dir():
        return set()
    return {name for name in os.listdir(folder) if not name.startswith("runs.db-")}


def refusal(journal: Journal, target: Path) -> tuple[str, str]:
    """The cause with which a backup is refused; it leaves nothing behind."""
    there = names_in(target.parent)
    with pytest.raises(RunStoreError) as caught:
        journal.backup(target)
    assert names_in(target.parent) == there
    return caught.value.code, caught.value.reason


def test_file_is_whole_alone_and_its_owners(journal: Journal, tmp_path: Path) -> None:
    target = tmp_path / "kept" / "backup.db"
    target.parent.mkdir()
    told = journal.backup(target)
    assert os.listdir(target.parent) == ["backup.db"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert (told.bytes, told.events, told.position) == (target.stat().st_size, 3, 3)
    assert (told.streams, told.epoch) == (1, 0)
    with closing(sqlite3.connect(f"file:{target}?mode=ro", uri=True)) as conn:
        assert conn.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert os.listdir(target.parent) == ["backup.db"]


def test_heads_are_those_of_an_anchor(journal: Journal, tmp_path: Path) -> None:
    told = journal.backup(tmp_path / "one.db")
    _, *lines, _ = journal.anchor()
    assert told.heads == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert journal.backup(tmp_path / "two.db").heads == told.heads
    journal.ledger().start("more")
    assert journal.backup(tmp_path / "three.db").heads != told.heads


def test_nothing_is_replaced(journal: Journal, path: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    for target in (kept, dangling, path):
        assert refusal(journal, target) == ("RUN_VALIDATION_ERROR", "argument")
    assert kept.read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    missing = refusal(journal, tmp_path / "no folder" / "backup.db")
    assert missing == ("RUN_VALIDATION_ERROR", "argument")


def test_unsound_journal_is_not_backed_up_before_it_is_acknowledged(
    journal: Journal, path: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(
            "UPDATE events SET state = CAST(replace(CAST(state AS TEXT), '\"w\"', '\"v\"') AS BLOB)"
            " WHERE version = 2"
        )
    target = tmp_path / "backup.db"
    assert refusal(journal, target) == ("RUN_INTEGRITY_ERROR", "unsound")
    journal.acknowledge(journal.verify().findings, "alice", "known")
    assert journal.backup(target).events == 4


def test_damaged_pages_are_noticed(journal: Journal, path: Path, tmp_path: Path) -> None:
    """A backup that copies damage and says "verified" is worse than none."""
    ledger = journal.ledger(owner="w")
    for number in range(200):
        ledger.start(f"run-{number:03}")
    journal.close()
    with path.open("r+b") as file:
        file.seek(file.seek(0, os.SEEK_END) // 4096 * 2048)
        file.write(b"\xff" * 4096)
    with open_journal(f"sqlite:///{path}") as damaged:
        code, reason = refusal(damaged, tmp_path / "backup.db")
    assert (code, reason) == ("RUN_INTEGRITY_ERROR", "damaged_database")


def test_only_a_file_is_backed_up_to_a_file(tmp_path: Path, postgres_url: str) -> None:
    for url in ("memory:", postgres_url):
        with open_journal(url) as journal:
            assert refusal(journal, tmp_path / "backup.db") == ("RUN_VALIDATION_ERROR", "argument")
