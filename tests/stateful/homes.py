"""Where the machine's journal lives: one home for each backend, alike in what can befall it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import psycopg
from runjournal import Journal, open_journal


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


class MemoryHome:
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

    def _open(self) -> Journal:
        return open_journal(f"sqlite:///{self._file}?synchronous=normal")


class PostgresHome:
    """Two databases that take turns; making one for each journal would take most of the time."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._urls = [make(), make()]
        self._journals = [open_journal(url) for url in self._urls]
        self._conns = [psycopg.connect(url, autocommit=True) for url in self._urls]
        self._turn = 0

    def new(self) -> Journal:
        self._turn = 1 - self._turn
        self._conns[self._turn].execute("DELETE FROM events")
        self.forget_rows(self._journals[self._turn])
        return self._journals[self._turn]

    def leave(self, journal: Journal) -> None:
        """It stays open for the next time."""

    def reopen(self, journal: Journal) -> Journal:
        journal.close()
        self._journals[self._turn] = open_journal(self._urls[self._turn])
        return self._journals[self._turn]

    def forget_rows(self, journal: Journal) -> None:
        self._conns[self._turn].execute("DELETE FROM runs")
        self._conns[self._turn].execute("DELETE FROM delivery_outbox")

    def close(self) -> None:
        for open_one in (*self._journals, *self._conns):
            open_one.close()
