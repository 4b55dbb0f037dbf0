"""Copies of a SQLite journal as files: one is taken under load, one is checked to be whole."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path

from ...domain.checks import refuse
from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from .opening import check_header, is_short, newer, truncated
from .recorder import SQLiteRecorder
from .statements import MIGRATIONS

#: What SQLite keeps beside a file that is in use, or was when its process ended.
BESIDE = ("-wal", "-shm", "-journal")


class SQLiteBackup(SQLiteRecorder):
    """What SQLiteStore does for backups."""

    def copy_online(self, target: Path) -> None:
        """Write the database as it is at this moment into an empty file, while writers go on.

        All pages in one step: one read transaction sees one moment, and in write-ahead logging it
        stops no writer. In several steps SQLite would begin anew whenever another process has
        written in between, and under load never end.
        """
        with self.database.reading() as source, contextlib.closing(_plain(target)) as copy:
            copy.execute("PRAGMA synchronous = OFF")  # whoever gives the file its name syncs it
            source.backup(copy, pages=-1)


def copy_backup(source: Path, target: Path) -> None:
    """Copy a backup's file into an empty one, and check that it is whole.

    Raises RUN_VALIDATION_ERROR / backup_file where the source is no file, or one that is in use;
    RUN_INTEGRITY_ERROR / not_a_journal, newer_database or damaged_database.
    """
    if not source.is_file():
        raise refuse("backup_file", f"{str(source)!r} is no file")
    for beside in beside_of(source):
        raise refuse(
            "backup_file",
            f"{str(beside)!r} shows that {source.name!r} is in use, or was when its process ended: "
            "the last facts may be missing in it",
        )
    with source.open("rb") as file:
        header = file.read(100)
    check_header(source, header)
    version = int.from_bytes(header[60:64], "big")
    if version > len(MIGRATIONS):
        raise newer(source, version)
    if is_short(source):
        raise truncated(source)
    shutil.copyfile(source, target)
    check_pages(target, str(source))


def beside_of(path: Path) -> list[Path]:
    """The files beside it that show that it is in use, or was when its process ended."""
    files = [path.with_name(path.name + ending) for ending in BESIDE]
    return [file for file in files if file.exists()]


def check_pages(path: Path, name: str) -> None:
    """Check every page, index and constraint. Raises RUN_INTEGRITY_ERROR / damaged_database.

    name  what the file is called in the message
    """
    try:
        with contextlib.closing(_plain(path)) as conn:
            found = [text for (text,) in conn.execute("PRAGMA integrity_check(3)")]
            found += [
                f"{table}: row {row} refers to nothing in {parent}"
                for table, row, parent, _ in conn.execute("PRAGMA foreign_key_check")
            ]
    except sqlite3.DatabaseError as e:
        found = [str(e)]
    if found != ["ok"]:
        told = "; ".join(" ".join(text.split()) for text in found if text != "ok")
        raise RunStoreError(RUN_INTEGRITY_ERROR, "damaged_database", f"{name} is damaged: {told}")


def make_single(path: Path) -> None:
    """Leave write-ahead logging, so that the file alone is the whole database.

    Whoever opens it as a journal enters it again.
    """
    with contextlib.closing(_plain(path)) as conn:
        conn.execute("PRAGMA journal_mode = DELETE")


def _plain(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)
