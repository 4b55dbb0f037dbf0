"""The journals that orders are played on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from runjournal.adapters.postgres import host

from .stepped_postgres import PostgresWorld, SteppedSession
from .stepped_sqlite import SQLiteWorld
from .world import World


@pytest.fixture
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A new journal, opened several times. The parameter names the backend."""
    opened: World
    if request.param == "sqlite":
        path = request.getfixturevalue("tmp_path") / "journal.db"
        opened = SQLiteWorld(path, monkeypatch)
    else:
        monkeypatch.setattr(host, "Session", SteppedSession)
        opened = PostgresWorld(request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()
