"""A journal on SQLite whose commands stop before each statement, and the host's clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal
from runjournal.adapters.sqlite import deliveries, store
from runjournal.adapters.sqlite.database import Database
from runjournal.adapters.sqlite.store import SQLiteStore

from .scheduler import Act, current
from .world import World, journal_on


class SteppedConnection:
    """Stops before each statement of a command that an order governs.

    Who finds another at work in a transaction waits for its end: nobody waits by sleeping.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)

    def execute(self, text: str, values: Iterable[Any] = ()) -> Any:
        player = current()
        if player is None or text.startswith("PRAGMA"):
            return self._conn.execute(text, values)
        words = text.split()
        if words[0] == "BEGIN":
            return self._begin()
        ends = words[0] in ("COMMIT", "ROLLBACK")
        if ends or not self._conn.in_transaction:
            # Within a transaction nobody sees what is written, and nobody else writes: no order of
            # what is between begin and commit makes a difference.
            player.step(words[0].lower())
        if not ends:
            return self._conn.execute(text, values)
        fault = player.take_fault() if words[0] == "COMMIT" else None
        self._conn.execute("ROLLBACK" if fault == "rolled back" else text)
        player.wake()
        if fault is not None:
            raise sqlite3.OperationalError("disk I/O error")
        return None

    def _begin(self) -> None:
        player = current()
        assert player is not None
        player.step("begin")
        while True:
            try:
                self._conn.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as e:
                if e.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
            player.block()


class SteppedDatabase(Database):
    def _connect(self, timeout: float) -> Any:
        return SteppedConnection(super()._connect(timeout))


class SQLiteWorld(World):
    """Several connections to one SQLite file, as several processes have them."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = path
        self._now = datetime(2030, 1, 1, tzinfo=UTC)
        world = self

        class Clock(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Any:
                return world._now

        for module in (store, deliveries):
            monkeypatch.setattr(module, "datetime", Clock)
        monkeypatch.setattr(SQLiteStore, "now", staticmethod(lambda: self._now))
        super().__init__()
        self._conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._locker: Any = SteppedConnection(
            sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0)
        )

    def open(self) -> Journal:
        return journal_on(SQLiteStore(SteppedDatabase(self._path, "OFF")))

    def set_clock(self, now: datetime) -> None:
        self._now = now

    def waiting(self, sessions: Sequence[int]) -> int:
        return 0  # nobody waits inside of SQLite here

    def lock(self, run_id: str) -> Act:
        def act() -> None:
            self._locker.execute("BEGIN IMMEDIATE")
            self._locker.execute("ROLLBACK")

        return act

    def execute(self, text: str, *values: Any) -> Any:
        return self._conn.execute(text, values).fetchone()

    def close(self) -> None:
        super().close()
        self._locker.close()
        self._conn.close()
