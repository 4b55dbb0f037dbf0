"""Creating a SQLite file: recognisable, durable unless asked otherwise, by many at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from runjournal import Journal, open_journal
from runjournal.adapters.sqlite.statements import APPLICATION_ID, MIGRATIONS

CREATOR = Path(__file__).with_name("creating_process.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def url(path: Path) -> str:
    return f"sqlite:///{path}"


#: What PRAGMA synchronous answers for each accepted word.
LEVELS = {"": 2, "?synchronous=full": 2, "?synchronous=normal": 1, "?synchronous=NORMAL": 1}


@pytest.mark.parametrize("query", LEVELS)
def test_durability_is_full_unless_asked(path: Path, query: str) -> None:
    with open_journal(url(path) + query) as journal:
        store = journal.store
        with store.database.writing() as conn:  # type: ignore[attr-defined]
            assert conn.execute("PRAGMA synchronous").fetchone() == (LEVELS[query],)
            assert conn.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("before", [None, b""], ids=["no file", "empty file"])
def test_new_file_is_recognised_as_ours(path: Path, before: bytes | None) -> None:
    if before is not None:
        path.write_bytes(before)
    open_journal(url(path)).close()
    assert os.listdir(path.parent) == ["journal.db"]
    assert int.from_bytes(path.read_bytes()[68:72], "big") == APPLICATION_ID
    with closing(sqlite3.connect(path)) as conn:
        assert conn.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    before_again = path.read_bytes()
    open_journal(url(path)).close()
    assert path.read_bytes() == before_again


def test_eight_processes_create_it_together(
    tmp_path: Path, start_script: Callable[..., subprocess.Popen[str]]
) -> None:
    """None of them fails, and there is one schema with all that they wrote: twenty times."""
    names = [f"run-{n}" for n in range(8)]
    processes = [start_script(CREATOR, name) for name in names]

    def said() -> list[str]:
        return [p.stdout.readline() for p in processes if p.stdout is not None]

    assert said() == ["ready\n"] * 8
    for number in range(20):
        path = tmp_path / f"{number}.db"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(f"{url(path)}\n")
            process.stdin.flush()
        assert said() == ["done\n"] * 8
        with open_journal(url(path)) as journal:
            assert sorted(r.run_id for r in journal.runs()) == names
        with closing(sqlite3.connect(path)) as conn:
            assert conn.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
            assert conn.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture
def filled(path: Path) -> Iterator[Journal]:
    with open_journal(url(path)) as journal:
        for number in range(3):
            journal.ledger().start(f"run-{number}")
        yield journal


def test_the_last_event_stays(filled: Journal, path: Path) -> None:
    """A deleted position would be handed out again, so the highest one cannot be deleted."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in (
            "DELETE FROM events WHERE position = 3",
            "DELETE FROM events WHERE position >= 2",
            "DELETE FROM events",
            "DELETE FROM events WHERE stream = 'run/run-2'",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="must stay"):
                conn.execute(statement)
        assert conn.execute("SELECT count(*) FROM events").fetchone() == (3,)
        conn.execute("DELETE FROM events WHERE position < 3")
    filled.ledger().start("run-3")
    positions = [n.id for n in filled.application.recorder.select_notifications(1, 10)]
    assert positions == [3, 4]
