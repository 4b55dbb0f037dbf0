"""Opening a SQLite file: what is refused untouched, the schema, and write-ahead logging."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ...domain.errors import RUN_INTEGRITY_ERROR, RUN_VALIDATION_ERROR, RunStoreError
from .statements import APPLICATION_ID, MIGRATIONS

#: What SQLite answers while others are at work on the file.
BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_MAGIC = b"SQLite format 3\0"
#: Seconds within which a file that another process is writing has its whole size.
GROWS_WITHIN = 1.0


def migrate(conn: sqlite3.Connection, path: Path, patience: float) -> None:
    """Bring the file to the schema this code knows, and into write-ahead logging.

    Raises RUN_INTEGRITY_ERROR / newer_database for a file of newer code.
    """
    if _schema_version(conn, path) < len(MIGRATIONS):
        # The rollback journal, not yet WAL: so the file's own header names it as ours.
        conn.execute("BEGIN IMMEDIATE")
        for number in range(_schema_version(conn, path), len(MIGRATIONS)):
            for statement in _statements(MIGRATIONS[number]):
                conn.execute(statement)
            conn.execute(f"PRAGMA user_version = {number + 1}")
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("COMMIT")
    _enter_wal(conn, path, patience)


def _schema_version(conn: sqlite3.Connection, path: Path) -> int:
    (version,) = conn.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise newer(path, version)
    return int(version)


def newer(path: Path, version: int) -> RunStoreError:
    """The error for a file of newer code."""
    return RunStoreError(
        RUN_INTEGRITY_ERROR,
        "newer_database",
        f"{path} has schema version {version}; this code knows {len(MIGRATIONS)}",
    )


def _enter_wal(conn: sqlite3.Connection, path: Path, patience: float) -> None:
    # Switching needs the file alone for a moment, and SQLite does not wait for that itself.
    end = time.monotonic() + patience
    while True:
        try:
            (mode,) = conn.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as e:
            if primary_code(e) not in BUSY or time.monotonic() >= end:
                raise
            time.sleep(random.uniform(0.001, 0.01))  # spreads the contenders
            continue
        if mode == "wal":
            return
        raise RunStoreError(
            RUN_VALIDATION_ERROR,
            "address",
            f"{path}: its file system has no shared memory for SQLite's write-ahead log",
        )


def primary_code(e: sqlite3.Error) -> int | None:
    code = getattr(e, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _statements(script: str) -> Iterator[str]:
    """The script's statements one by one: executescript would commit in between."""
    statement = ""
    for line in script.splitlines():
        if line.strip().startswith("--"):
            continue
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def check_file(path: Path) -> None:
    """Refuse, without touching it, a file that is not a journal's or cannot be one."""
    if str(path) == ":memory:":
        # For SQLite that is no file at all, and another database for each connection.
        raise RunStoreError(RUN_VALIDATION_ERROR, "address", "use memory: for a journal in memory")
    if not path.parent.is_dir():
        raise RunStoreError(
            RUN_VALIDATION_ERROR, "address", f"{path}: the folder {path.parent} does not exist"
        )
    if not _writable(path.parent):
        raise _read_only(path)
    if not path.exists():
        return
    if not path.is_file():
        raise RunStoreError(RUN_VALIDATION_ERROR, "address", f"{path} is not a file")
    if not _writable(path):
        raise _read_only(path)
    with path.open("rb") as file:
        header = file.read(100)
    if not header:
        return  # an empty file is a new database, as it is for SQLite
    check_header(path, header)
    # SQLite writes the header, with the new size, before the pages: another process that is just
    # creating or folding in is through in a moment, and a file that is cut short stays so.
    end = time.monotonic() + GROWS_WITHIN
    while is_short(path):
        if time.monotonic() >= end:
            raise truncated(path)
        time.sleep(0.005)


def check_header(path: Path, header: bytes) -> None:
    """Refuse a file that does not begin, with its first 100 bytes, as a journal's does."""
    if not header.startswith(_MAGIC[: len(header)]):
        raise _foreign(path, "is no SQLite database")
    if len(header) < 100:
        raise truncated(path)
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise _foreign(path, "is a database of another application")


def is_short(path: Path) -> bool:
    """Whether the file is shorter than its header says, with no log that has the rest."""
    with path.open("rb") as file:
        header = file.read(100)
    page = int.from_bytes(header[16:18], "big")
    size = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    wal = path.with_name(path.name + "-wal")
    try:
        logged = wal.stat().st_size > 0
    except FileNotFoundError:
        logged = False
    return path.stat().st_size < size and not logged


def _writable(path: Path) -> bool:
    """Whether it is meant to be written to: by its mode as well, which root could override."""
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o222) and os.access(path, os.W_OK)


def _foreign(path: Path, what: str) -> RunStoreError:
    return RunStoreError(RUN_INTEGRITY_ERROR, "not_a_journal", f"{path} {what}")


def truncated(path: Path) -> RunStoreError:
    """The error for a file that ends too early."""
    return RunStoreError(RUN_INTEGRITY_ERROR, "damaged_database", f"{path} is cut short")


def _read_only(path: Path) -> RunStoreError:
    return RunStoreError(RUN_VALIDATION_ERROR, "read_only", f"{path} cannot be written to")
