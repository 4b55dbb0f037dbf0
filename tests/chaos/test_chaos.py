"""Chaos: many processes, everything that can happen to them, and a proof from the events.

`make chaos MINUTES=5` disturbs each backend for so long; in the suite everything happens once.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

from ..faults.checker import check, read_raw
from ..postgres.fixtures import restartable  # noqa: F401 - so pytest finds it
from .monkey import Monkey
from .network import Network

MINUTES = float(os.environ.get("RUNJOURNAL_CHAOS_MINUTES", 0))
SECONDS = 60 * MINUTES
ROLES = (
    {"worker": 6, "operator": 2, "sender": 2}
    if MINUTES
    else {"worker": 2, "operator": 2, "sender": 1}
)
SEED = int(os.environ.get("RUNJOURNAL_CHAOS_SEED", 0)) or random.randrange(1, 10**6)
#: Seconds that all that is left over may take afterwards.
DRAIN = 60 + SECONDS / 4
LEFT, UNSENT = ("queued", "running", "suspended"), ("pending", "unknown")


class Tail:
    """Reads the journal as it grows, whatever happens; `positions` is all it was given."""

    def __init__(self, journal: Journal) -> None:
        self.positions: list[int] = []
        self._recorder = journal.application.recorder
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        """Read what is left, and end."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            ending = self._ending.is_set()
            after = self.positions[-1] if self.positions else 0
            try:
                page = self._recorder.select_notifications(after, 500, inclusive_of_start=False)
            except Exception:
                page = []  # the store is away
                ending = False
            self.positions += [notification.id for notification in page]
            if ending and not page:
                return
            time.sleep(0.02)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def sqlite_monkey(sqlite_url: str, folder: Path) -> Iterator[Monkey]:
    open_journal(sqlite_url).close()
    monkey = Monkey(sqlite_url, folder, ROLES, random.Random(SEED))
    yield monkey
    monkey.kill_all()


@pytest.fixture
def postgres_monkey(restartable: Any, folder: Path) -> Iterator[Monkey]:  # noqa: F811
    url = restartable.new_database()
    open_journal(url).close()
    network = Network(url)
    monkey = Monkey(url, folder, ROLES, random.Random(SEED), network, restartable)
    yield monkey
    monkey.kill_all()
    network.close()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_chaos(
    backend: str, request: pytest.FixtureRequest, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    """Everything that was started ends and arrives, and every promise was kept on the way."""
    monkey: Monkey = request.getfixturevalue(f"{backend}_monkey")
    with open_journal(monkey.url) as journal:
        tail = Tail(journal)
        try:
            # All of them are at work.
            wait_until(lambda: journal.deliveries(status="delivered"))
            monkey.disturb(SECONDS)
            assert monkey.dead() == []
            drain(journal, monkey)
        finally:
            tail.end()
        acks, received = monkey.logged()
        raw = read_raw(monkey.url)
        print(
            f"{backend}, seed {SEED}: {len(raw.runs)} runs ended, {len(received)} results received,"
            f" {len(raw.events)} events, {len(acks)} acknowledgements, {monkey.started} processes;"
            f" {dict(sorted(monkey.faults.items()))}"
        )
        assert len(raw.runs) > SECONDS / 2
        assert monkey.faults.total() > max(2, SECONDS / 3)
        assert check(raw, acks, received) == [], f"seed {SEED}"
        assert tail.positions == sorted(row[0] for row in raw.events)
        assert journal.verify().findings == []
        assert journal.attention() == []


def drain(journal: Journal, monkey: Monkey) -> None:
    """No more runs are started; wait until all have ended and their results have arrived."""
    assert monkey.ask_to_end("operator") == []
    ledger = journal.ledger()

    def left() -> list[Any]:
        for run in journal.runs(status="suspended", limit=1000):
            ledger.record_decision(run.run_id, "a", "yes", command_id=f"decide-{run.run_id}")
        rest: list[Any] = [r for s in LEFT for r in journal.runs(status=s)]
        return rest + [d for s in UNSENT for d in journal.deliveries(status=s)]

    wait_in_time(left, monkey)
    assert monkey.ask_to_end("worker", "sender") == []


def wait_in_time(left: Callable[[], list[Any]], monkey: Monkey) -> None:
    end = time.monotonic() + DRAIN
    while rest := left():
        assert monkey.dead() == []
        assert time.monotonic() < end, f"{len(rest)} are left, as {rest[0]}"
        time.sleep(0.1)
