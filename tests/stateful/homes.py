"""Where the machine's journal lives: one home for each backend, alike in what can befall it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import psycopg
from runjournal import Journal, open_journal, restore_backup
from runjournal.adapters.backup import Restored


class Home(Protocol):
    """What differs between the backends."""

    def new(self) -> Journal:
        """An empty journal."""
        ...

    def leave(self, journal: Journal) -> None:
        """It is not used any more."""
        ...

    def reopen(self, journal: Journal) -> Journal:
        """The same journal, as a process finds it that begins now."""
        ...

    def forget_rows(self, journal: Journal) -> None:
        """Lose every record and the whole outbox; the events stay."""
        ...

    def another(self, journal: Journal) -> AbstractContextManager[Journal]:
        """The same journal, as another process has it open beside this one."""
        ...

    #: Whether it can be backed up to a file.
    backed_up: bool
    #: Whether positions are passed over when an epoch begins.
    passes_over: bool

    def put_back(self, journal: Journal, backup: Path, how: str) -> tuple[Journal, Restored | None]:
        """The journal of a backup in place of this one.

        how  restore: as the product does it; check: by hand, and then restore_check; silently: by
             hand, and nobody says so
        """
        ...


class MemoryHome:
    backed_up = False
    passes_over = False

    def another(self, journal: Journal) -> AbstractContextManager[Journal]:
        return nullcontext(journal)

    def put_back(self, journal: Journal, backup: Path, how: str) -> tuple[Journal, Restored | None]:
        raise NotImplementedError

    def new(self) -> Journal:
        return open_journal("memory:")

    def leave(self, journal: Journal) -> None:
        journal.close()

    def reopen(self, journal: Journal) -> Journal:
        return journal

    def forget_rows(self, journal: Journal) -> None:
        store: Any = journal.store
        store.rows.clear()
        store.outbox.clear()


class SQLiteHome:
    backed_up = True
    passes_over = True

    def __init__(self, folder: Path) -> None:
        self._files = (folder / f"journal-{n}.db" for n in count())
        self._file = folder

    def new(self) -> Journal:
        self._file = next(self._files)
        return self._open()

    def leave(self, journal: Journal) -> None:
        journal.close()

    def reopen(self, journal: Journal) -> Journal:
        journal.close()
        return self._open()

    def forget_rows(self, journal: Journal) -> None:
        conn = sqlite3.connect(self._file)
        with conn:
            conn.execute("DELETE FROM runs")
            conn.execute("DELETE FROM delivery_outbox")
        conn.close()

    def another(self, journal: Journal) -> AbstractContextManager[Journal]:
        return self._open()

    def put_back(self, journal: Journal, backup: Path, how: str) -> tuple[Journal, Restored | None]:
        journal.close()
        self._file = next(self._files)
        if how == "restore":
            restored = restore_backup(backup, self._file, actor="ada", reason="the disk died")
            return self._open(), restored
        shutil.copyfile(backup, self._file)
        opened = self._open()
        return opened, opened.restore_check("ada", "a rollback") if how == "check" else None

    def _open(self) -> Journal:
        return open_journal(f"sqlite:///{self._file}?synchronous=normal")


class PostgresHome:
    """Two databases that take turns; making one for each journal would take most of the time."""

    backed_up = False
    passes_over = True

    def __init__(self, make: Callable[[], str]) -> None:
        self._urls = [make(), make()]
        self._journals = [open_journal(url) for url in self._urls]
        self._conns = [psycopg.connect(url, autocommit=True) for url in self._urls]
        self._turn = 0

    def new(self) -> Journal:
        self._turn = 1 - self._turn
        conn, journal = self._conns[self._turn], self._journals[self._turn]
        for state in journal.projection_states():
            conn.execute(f"DROP TABLE {state.table}".encode())
        for table in ("events", "tombstones", "projections", "tracking"):
            conn.execute(f"DELETE FROM {table}".encode())
        self.forget_rows(journal)
        return journal

    def leave(self, journal: Journal) -> None:
        """It stays open for the next time."""

    def reopen(self, journal: Journal) -> Journal:
        journal.close()
        self._journals[self._turn] = open_journal(self._urls[self._turn])
        return self._journals[self._turn]

    def forget_rows(self, journal: Journal) -> None:
        self._conns[self._turn].execute("DELETE FROM runs")
        self._conns[self._turn].execute("DELETE FROM delivery_outbox")

    def another(self, journal: Journal) -> AbstractContextManager[Journal]:
        return open_journal(self._urls[self._turn])

    def put_back(self, journal: Journal, backup: Path, how: str) -> tuple[Journal, Restored | None]:
        raise NotImplementedError

    def close(self) -> None:
        for open_one in (*self._journals, *self._conns):
            open_one.close()
