"""What all tests share: a journal on every backend, a clock, processes, what always holds."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(params=["memory", "sqlite"])
def journal_url(request: pytest.FixtureRequest) -> str:
    """The address of a new, empty journal, once for every backend."""
    if request.param == "memory":
        return "memory:"
    return str(request.getfixturevalue("sqlite_url"))


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
