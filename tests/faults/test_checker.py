"""The checker finds what a broken product does: each of these breaks one promise on purpose."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import RunStoreError, open_journal
from runjournal.adapters.sqlite import store as sqlite_store
from runjournal.adapters.sqlite.database import Database
from runjournal.domain import granting
from runjournal.domain.engine import Engine

from .checker import Ack, Raw, check, read_raw
from .failpoints import Failpoints, watch_sqlite
from .life import Life, later

Patch = pytest.MonkeyPatch


def commits_are_lost(patch: Patch) -> None:
    """Every third commit is none, and nobody is told."""
    commit, number = Database.commit, itertools.count(1)

    def forgetful(self: Database, conn: sqlite3.Connection) -> None:
        self.rollback(conn) if next(number) % 3 == 0 else commit(self, conn)

    patch.setattr(Database, "commit", forgetful)


def last_writer_wins(patch: Patch) -> None:
    """What was refused is written at whatever version the run is, under whatever token."""
    commit = Engine.commit

    def unfenced(
        self: Engine, before: Any, events: Any, guard: Any, at: Any, patience: Any = None
    ) -> Any:
        done = commit(self, before, events, guard, at, patience)
        if done is not None or before is None:
            return done
        stored = self.read(before.run_id).record
        assert stored is not None
        place = {"originator_version": stored.version + 1}
        changes, record = self.changes(stored, [e.model_copy(update=place) for e in events])
        reply = self.store.append(changes[:1], None, at.given)
        return reply and (record, reply)

    patch.setattr(Engine, "commit", unfenced)


def leases_last_no_time(patch: Patch) -> None:
    """A claim takes every run that somebody holds."""
    due = sqlite_store._due

    def all_due(conn: Any, kinds: Any, at: int, limit: int) -> list[tuple[Any, ...]]:
        return [(*r[:5], at, *r[6:]) for r in due(conn, kinds, at + 10**12, limit)]

    patch.setattr(sqlite_store, "_due", all_due)


def tokens_stay(patch: Patch) -> None:
    """Each grant has the token of the one before."""
    grant = granting._grant

    def stale(*args: Any, token: int, **fields: Any) -> Any:
        return grant(*args, token=max(1, token - 1), **fields)

    patch.setattr(granting, "_grant", stale)


def outbox_is_forgotten(patch: Patch) -> None:
    patch.setattr(Engine, "_delivery", lambda *_: [])


def raw_life(path: Path, rival_clock: Any = None) -> tuple[Raw, list[Ack], list[str]]:
    """A life during whose second checkpoint a rival does what it can; what there is afterwards."""
    acks: list[Ack] = []
    received: list[str] = []
    url = f"sqlite:///{path / 'journal.db'}"
    points = Failpoints()
    with pytest.MonkeyPatch.context() as patch, open_journal(url) as rivals:
        watch_sqlite(points, patch.setattr)
        with open_journal(url) as journal:
            life = Life(journal, "run", "first", acks.append, received.append)
            rival = Life(rivals, "run", "rival", acks.append, received.append, rival_clock)

            def act(_fail: Callable[[], None]) -> None:
                points.on = False
                rival.go_on()

            points.choose(6, "before", act)
            points.on = True
            try:
                life.go_on()
            except (RunStoreError, AssertionError):
                pass  # a broken product may notice it itself, too late
    return read_raw(url), acks, received


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    raw, acks, received = raw_life(tmp_path, later)
    assert [ack.topic for ack in acks].count("run.lease_granted") == 3
    assert check(raw, acks, received) == []


@pytest.mark.parametrize(
    ("breakage", "finding"),
    [
        (commits_are_lost, "acknowledged and not there"),
        (last_writer_wins, "comes after the end"),
        (leases_last_no_time, "taken over before its lease was over"),
        (tokens_stay, "token 1 is granted after 1"),
        (outbox_is_forgotten, "run run: 0 deliveries, not 1"),
    ],
)
def test_broken_product_is_found(
    tmp_path: Path, monkeypatch: Patch, breakage: Callable[[Patch], None], finding: str
) -> None:
    breakage(monkeypatch)
    rival_clock = None if breakage is leases_last_no_time else later
    found = check(*raw_life(tmp_path, rival_clock))
    assert any(finding in text for text in found), found
