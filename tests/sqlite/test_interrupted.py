"""A command that is interrupted or fails in the middle of its transaction leaves none open."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from runjournal import open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.domain.errors import RUN_STORE_UNAVAILABLE

Patch = pytest.MonkeyPatch


def at_statement(patch: Patch, act: Callable[[str, Callable[[], Any]], Any]) -> None:
    """Each statement of a connection opened from now on goes through `act(sql, do)`."""

    class Acting(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> Any:
            return act(sql, partial(super().execute, sql, *values))

    patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Acting))


@pytest.mark.parametrize("begun", [True, False], ids=["after BEGIN", "before COMMIT"])
def test_interrupt_leaves_no_transaction_open(
    sqlite_url: str, monkeypatch: Patch, begun: bool
) -> None:
    """Python raises KeyboardInterrupt right after whichever call it came in."""
    armed = False

    def act(sql: str, do: Callable[[], Any]) -> Any:
        nonlocal armed
        if armed and sql == ("BEGIN IMMEDIATE" if begun else "COMMIT"):
            armed = False
            if begun:
                do()
            raise KeyboardInterrupt
        return do()

    with open_journal(sqlite_url) as others:
        at_statement(monkeypatch, act)
        with open_journal(sqlite_url) as journal:
            armed = True
            with pytest.raises(KeyboardInterrupt):
                journal.ledger().start("run")
            assert not armed
            others.ledger().start("theirs")
            journal.ledger().start("run")


def test_rollback_that_fails_hides_nothing(sqlite_url: str, monkeypatch: Patch) -> None:
    """What failed first is told as a store's error, and the next command goes through."""
    failing = False

    def act(sql: str, do: Callable[[], Any]) -> Any:
        if failing and sql.split()[0] in ("INSERT", "ROLLBACK"):
            raise sqlite3.OperationalError(f"{sql.split()[0]} failed")
        return do()

    at_statement(monkeypatch, act)
    with open_journal(sqlite_url) as journal:
        failing = True
        with refused(RUN_STORE_UNAVAILABLE, "failed") as caught:
            journal.ledger().start("run")
        assert "INSERT failed" in str(caught.value)
        failing = False
        assert journal.ledger().get("run") is None
        assert journal.ledger().start("run").version == 1
