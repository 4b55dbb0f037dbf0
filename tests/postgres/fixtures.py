"""What tests on Postgres share: a proxy, a watcher, a server that can be restarted."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from runjournal.adapters.postgres import database

from .proxy import Proxy
from .servers import OwnServer, Watcher, own_server


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    """A proxy before the server, for a new database with an empty journal."""
    proxy = Proxy(postgres_url)
    yield proxy
    proxy.close()


@pytest.fixture
def watcher(postgres_url: str) -> Iterator[Watcher]:
    """Sees what goes on in the test's database."""
    watcher = Watcher(postgres_url)
    yield watcher
    watcher.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tries as always, with short pauses between them."""
    monkeypatch.setattr(database, "FIRST_PAUSE", 0.0005)


@pytest.fixture(scope="session")
def restartable() -> Iterator[OwnServer]:
    """A server that tests may restart and configure; they leave it up and as it was."""
    # Not in pytest's folder, which only its own user may enter, and each start makes sure of that.
    folder = Path(tempfile.mkdtemp(prefix="restartable"))
    with own_server(folder) as server:
        yield server
    shutil.rmtree(folder)
