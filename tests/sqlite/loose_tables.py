"""Journals whose tables have taken what STRICT refuses: a value of another type in any column."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from runjournal import open_journal

from ..projecting.projectors import Seen
from ..transfer.conftest import fill_all

#: A row of each table.
ROWS = {
    "events": "stream = 'run/done-0' AND version = 2",
    "runs": "run_id = 'queued-0'",
    "delivery_outbox": "run_id = 'done-0'",
    "tombstones": "stream = 'run/gone'",
    "projections": "name = 'seen'",
    "projection_seen_1": "key = 'done-0'",
    "token_epoch": "true",
}
#: In the bounded form one wrong type for each column; which one goes round.
PROVE = os.environ.get("RUNJOURNAL_PROVE") == "1"
#: One value of each type, by SQLite's name for it.
VALUES = {"NULL": None, "INTEGER": 3, "REAL": 2.5, "TEXT": "a text", "BLOB": b"bytes"}


class LooseTables:
    """A journal with something of everything, and copies of it with one wrong value."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path.with_name('copy.db')}"
        with open_journal(f"sqlite:///{path}") as journal:
            journal.ledger().acquire("gone", heartbeat=False).complete()
            journal.prune(datetime.now(UTC) + timedelta(seconds=30))
            fill_all(journal)
            journal.projection(Seen()).catch_up()
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            self._strict = file.execute("SELECT sql, name FROM sqlite_schema").fetchall()
            self.columns = {
                (table, column): (kind,) if full or key else (kind, "NULL")
                for table in ROWS
                for _, column, kind, full, _, key in file.execute(f"PRAGMA table_info({table})")
                if (table, column) != ("events", "position")  # the row's own number, always
            }
            file.execute("PRAGMA writable_schema = ON")
            for sql, name in self._strict:
                if name in ROWS:
                    loose = re.sub(
                        r"(?<!position) +(TEXT|INTEGER|BLOB)\b|(?<!IS )NOT NULL|STRICT,?", "", sql
                    )
                    file.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (loose, name))

    def copies(self, table: str, column: str, *, every: bool = PROVE) -> Iterator[Any]:
        """Make a copy at `url` for each wrong type that the row can hold; the value in it."""
        wrong = [value for kind, value in VALUES.items() if kind not in self.columns[table, column]]
        turn = list(self.columns).index((table, column)) % len(wrong)
        for value in wrong[turn:] + wrong[:turn]:
            if self._copy(table, column, value):
                yield value
                if not every:
                    return

    def _copy(self, table: str, column: str, value: Any) -> bool:
        target = Path(self.url.removeprefix("sqlite:///"))
        shutil.copyfile(self._path, target)
        with closing(sqlite3.connect(target, isolation_level=None)) as file:
            file.execute("PRAGMA ignore_check_constraints = ON")
            try:
                file.execute(f"UPDATE {table} SET {column} = ? WHERE {ROWS[table]}", (value,))
            except sqlite3.IntegrityError:
                return False  # a key is never NULL
            file.execute("PRAGMA writable_schema = ON")
            file.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", self._strict)
        return True
