"""Journals to move, and what must be alike after they were."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from runjournal import Journal, open_journal
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.projections.findings import Finding

from ..verifying.conftest import fill

#: What `fill_all` makes: runs, and the journal's own stream.
UNITS = 14


def fill_all(journal: Journal, runs: int = 1) -> None:
    """Runs with every kind of life, deliveries in every state, and the journal's own stream."""
    fill(journal, runs)
    clock = SteppedClock()
    ledger = journal.ledger(owner="worker", lease_ttl=20, clock=clock)
    for n in range(runs):
        ledger.acquire(f"waiting-{n}", heartbeat=False).suspend()
        ledger.start(f"pending-{n}", delivery_ref="later", available_at=clock() + timedelta(days=1))
        ledger.acquire(f"pending-{n}", heartbeat=False).complete({"größe": "\0 \u2028"})
        ledger.acquire(f"lost-{n}", heartbeat=False).save_checkpoint("ab\r\n")
    clock.advance(60)
    for n in range(runs):
        ledger.acquire(f"lost-{n}", heartbeat=False).save_checkpoint(n)
    known = Finding("chain", "run/x", 3, "a break of long ago", "evidence")
    journal.acknowledge([known], "ada", "the disk of last week")


def content(journal: Journal) -> bytes:
    """All of a journal, as bytes to be compared."""
    return b"".join(journal.export())


def is_sound(journal: Journal) -> bool:
    return journal.verify().findings == [] and journal.attention() == []


@pytest.fixture
def source() -> Iterator[Journal]:
    """A journal in memory with something of everything."""
    with open_journal("memory:") as opened:
        fill_all(opened)
        yield opened


@pytest.fixture
def export_file(source: Journal, tmp_path: Path) -> Path:
    """An export of `source`."""
    path = tmp_path / "export.jsonl"
    source.export_to(path)
    return path
