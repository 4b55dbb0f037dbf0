"""Journals with runs that ended long ago, and what must hold once some were pruned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from runjournal import CallableGateway, DeliveryService, Journal
from runjournal.adapters.contract.tools import SteppedClock


def end(journal: Journal, *run_ids: str, clock: SteppedClock | None = None, **start: Any) -> None:
    """Runs that are started, held, and completed."""
    ledger = journal.ledger(owner="worker", clock=clock)
    for run_id in run_ids:
        ledger.start(run_id, **start)
        lease = ledger.acquire(run_id, heartbeat=False)
        lease.save_checkpoint({"of": run_id})
        lease.complete({"rows": run_id})


def deliver(journal: Journal) -> None:
    """Send what waits in the outbox."""
    gateway = CallableGateway(lambda _request: None)
    DeliveryService(journal, {"inbox": gateway}).deliver_due(limit=10_000)


def later() -> datetime:
    """A cut after everything that has ended so far, on any host's clock."""
    return datetime.now(UTC) + timedelta(seconds=30)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The address of a new, empty journal in a database, once for each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))
