"""The scene of all faults, on every backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from runjournal import RunStoreError, open_journal
from runjournal.adapters.sqlite import database as sqlite_database
from runjournal.domain.errors import RUN_OUTCOME_UNKNOWN

from ..postgres.fixtures import impatient  # noqa: F401 - so pytest finds it
from .failpoints import Failpoints, watch_postgres, watch_sqlite, watch_store
from .scenes import Scene


@pytest.fixture
def scene(
    journal_url: str,
    monkeypatch: pytest.MonkeyPatch,
    impatient: None,  # noqa: F811
) -> Iterator[Scene]:
    points = Failpoints()
    backend = journal_url.partition(":")[0].removesuffix("ql")
    # Who is locked out by a transaction that hangs need not wait for long to be told so.
    monkeypatch.setattr(sqlite_database, "PATIENCE", 0.05)
    watch_sqlite(points, monkeypatch.setattr)
    watch_postgres(points, monkeypatch.setattr)
    with open_journal(journal_url) as first:
        if backend == "memory":
            lost = RunStoreError(RUN_OUTCOME_UNKNOWN, "reply_lost", "lost")
            watch_store(points, monkeypatch.setattr, first.store, lost)
            yield Scene(backend, journal_url, first, first, points, [], [])
            return
        with open_journal(journal_url) as heirs:
            yield Scene(backend, journal_url, first, heirs, points, [], [])
