"""Opening a SQLite file: what is not ours, or cannot be used, is refused and left as it is."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from runjournal import RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.sqlite.statements import MIGRATIONS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder in which the file lies, alone."""
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "journal.db"


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def contents(folder: Path) -> dict[str, tuple[bytes, int, int]]:
    """By name: each file's bytes, mode and time of change."""
    found = {}
    for file in folder.iterdir():
        facts = file.stat()
        data = file.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
        found[file.name] = (data, facts.st_mode, facts.st_mtime_ns)
    return found


def assert_refused(path: Path, code: str, reason: str, *words: str) -> None:
    """Opening is refused with this cause and these words, and leaves everything as it is."""
    before = contents(path.parent)
    with refused(code, reason) as caught:
        open_journal(url(path))
    assert str(path) in caught.value.message
    for word in words:
        assert word in caught.value.message
    assert contents(path.parent) == before


def make_journal(path: Path, runs: int = 20) -> None:
    with open_journal(url(path)) as journal:
        for number in range(runs):
            with journal.ledger().acquire(f"run-{number}", heartbeat=False) as lease:
                lease.save_checkpoint("x" * 1000)
                lease.complete()


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in statements:
            conn.execute(statement)


FOREIGN: dict[str, bytes] = {
    "random bytes": random.Random(1).randbytes(50_000),
    "few random bytes": random.Random(2).randbytes(7),
    "one byte": b"x",
    "text": b"Dear diary,\n" * 500,
    "JSON": b'{"runs": []}',
    "zeros": bytes(8192),
    "SQLite's first words and nothing of it": b"SQLite format 3\0" + b"\xff" * 8000,
    "SQLite's first words in text": b"SQLite format 3 is what I use\n" * 20,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_file_that_is_no_database(path: Path, name: str) -> None:
    path.write_bytes(FOREIGN[name])
    assert_refused(path, "RUN_INTEGRITY_ERROR", "not_a_journal")


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_database_of_another_application(path: Path, mode: str) -> None:
    execute(
        path,
        f"PRAGMA journal_mode = {mode}",
        "CREATE TABLE runs (id INTEGER PRIMARY KEY, note TEXT)",
        "INSERT INTO runs (note) VALUES ('precious')",
        "PRAGMA user_version = 1",
    )
    assert_refused(path, "RUN_INTEGRITY_ERROR", "not_a_journal", "another application")
    execute(path, "PRAGMA application_id = 7")
    assert_refused(path, "RUN_INTEGRITY_ERROR", "not_a_journal", "another application")


def test_database_of_another_application_that_is_in_use(path: Path) -> None:
    """Its log lies beside it; nothing of that is folded in, read or removed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("CREATE TABLE precious (note TEXT)")
        assert sorted(contents(path.parent)) == ["journal.db", "journal.db-shm", "journal.db-wal"]
        assert_refused(path, "RUN_INTEGRITY_ERROR", "not_a_journal")


def test_newer_schema(path: Path) -> None:
    make_journal(path)
    newer = len(MIGRATIONS) + 1
    execute(path, f"PRAGMA user_version = {newer}")
    words = (f"version {newer}", f"knows {len(MIGRATIONS)}")
    assert_refused(path, "RUN_INTEGRITY_ERROR", "newer_database", *words)


def test_newer_schema_that_is_in_use(path: Path) -> None:
    """Newer code works on the file meanwhile: neither the file nor its log is touched."""
    make_journal(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as newer:
        newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        before = {n: c[0] for n, c in contents(path.parent).items() if not n.endswith("-shm")}
        with refused("RUN_INTEGRITY_ERROR", "newer_database"):
            open_journal(url(path))
        after = {n: c[0] for n, c in contents(path.parent).items() if not n.endswith("-shm")}
        assert after == before


@pytest.mark.parametrize("kept", [16, 50, 99, 100, 4096, 4097, 0.5, -4096, -1])
def test_truncated_file(path: Path, kept: float) -> None:
    make_journal(path)
    size = path.stat().st_size
    length = kept if kept > 1 else size + kept if kept < 0 else size * kept
    os.truncate(path, int(length))
    assert_refused(path, "RUN_INTEGRITY_ERROR", "damaged_database", "cut short")


def test_damage_inside(path: Path) -> None:
    """Pages of noise behind a sound header: whatever meets them says what it is."""
    make_journal(path, runs=200)
    data = path.read_bytes()
    path.write_bytes(data[:8192] + random.Random(3).randbytes(len(data) - 8192))

    def read_all() -> None:
        with open_journal(url(path)) as journal:
            for number in range(200):
                list(journal.events(f"run-{number}"))
                journal.get(f"run-{number}")

    with pytest.raises(RunStoreError) as caught:
        read_all()
    assert caught.value.code == "RUN_INTEGRITY_ERROR"
    assert caught.value.reason == "damaged_database"
    assert not caught.value.retryable


@pytest.mark.parametrize("mode", [0o444, 0o400])
def test_read_only_file(path: Path, mode: int) -> None:
    """By its mode: a superuser could write to it, and is kept from it all the same."""
    make_journal(path)
    path.chmod(mode)
    assert_refused(path, "RUN_VALIDATION_ERROR", "read_only")


def test_read_only_folder(path: Path) -> None:
    make_journal(path)
    path.parent.chmod(0o555)
    try:
        assert_refused(path, "RUN_VALIDATION_ERROR", "read_only")
        with refused("RUN_VALIDATION_ERROR", "read_only"):
            open_journal(url(path.with_name("new.db")))
    finally:
        path.parent.chmod(0o755)


def test_folder_in_place_of_a_file(path: Path) -> None:
    path.mkdir()
    assert_refused(path, "RUN_VALIDATION_ERROR", "address", "not a file")


def test_pipe_in_place_of_a_file(path: Path) -> None:
    os.mkfifo(path)
    assert_refused(path, "RUN_VALIDATION_ERROR", "address", "not a file")


def test_missing_folder(path: Path) -> None:
    missing = path.parent / "missing" / "journal.db"
    with refused("RUN_VALIDATION_ERROR", "address") as caught:
        open_journal(url(missing))
    assert "does not exist" in caught.value.message
    assert contents(path.parent) == {}


def test_file_in_place_of_its_folder(path: Path) -> None:
    path.write_text("not a folder")
    with refused("RUN_VALIDATION_ERROR", "address"):
        open_journal(url(path / "journal.db"))
    assert list(contents(path.parent)) == ["journal.db"]


@pytest.mark.parametrize(
    "address",
    [
        "sqlite:///",
        "sqlite:///?synchronous=normal",
        "sqlite://journal.db",
        "sqlite:journal.db",
        "sqlite:///:memory:",
        "journal.db",
        "memory:journal",
        "mysql://root:hunter2@host/db",
        "",
        None,
        b"memory:",
    ],
    ids=repr,
)
def test_address_that_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch, address: object
) -> None:
    monkeypatch.chdir(folder)
    with refused("RUN_VALIDATION_ERROR", "address") as caught:
        open_journal(address)  # type: ignore[arg-type]
    assert "hunter2" not in caught.value.message
    assert contents(folder) == {}


@pytest.mark.parametrize(
    "query",
    [
        "synchronous=off",
        "synchronous=0",
        "synchronous=",
        "synchronous",
        "synchronous=normal&synchronous=nonsense",
        "Synchronous=normal",
        "nonsense=1",
        "nonsense",
        "synchronous=normal&nonsense=",
        "mode=ro",
    ],
)
def test_option_that_is_none(path: Path, query: str) -> None:
    """An option that would be passed over in silence is worse than one that is refused."""
    with refused("RUN_VALIDATION_ERROR", "address"):
        open_journal(f"{url(path)}?{query}")
    assert contents(path.parent) == {}


@pytest.mark.parametrize("gone", [False, True])
def test_opening_a_file_once_more_leaves_sqlites_locks_alone(path: Path, gone: bool) -> None:
    """Whoever closes a file that was opened past SQLite drops the process's locks on it."""
    elsewhere = path.with_name("elsewhere.db")
    with (
        open_journal(f"sqlite:///{elsewhere}"),
        open_journal(f"sqlite:///{path}") as journal,
    ):
        if gone:  # another file that is open, and has lost its name
            elsewhere.unlink()
        assert journal.runs() == []  # a connection that stays open
        with open_journal(f"sqlite:///{path}"):
            pass
        # Another process that believes to be the last one folds the log in and removes it.
        code = "from runjournal import open_journal; import sys\n"
        code += "with open_journal(sys.argv[1]) as j: j.ledger().start('run')"
        subprocess.run([sys.executable, "-c", code, f"sqlite:///{path}"], check=True)
        assert path.with_name(path.name + "-wal").exists()
        journal.ledger().start("another")
        assert [run.run_id for run in journal.runs()] == ["run", "another"]
        assert journal.verify().findings == []
