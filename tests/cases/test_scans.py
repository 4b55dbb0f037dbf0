"""Case 04: what cannot be recovered is in nobody's way."""

from __future__ import annotations

from runjournal import Journal, Worker
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.domain.events import run_stream

from ..receivers import rewrite

BAD = [f"bad-{n:02}" for n in range(20)]
HEALTHY = [f"healthy-{n}" for n in range(5)]


def test_case_04_runs_whose_events_cannot_be_read_starve_nobody(
    journal: Journal, journal_url: str, clock: SteppedClock
) -> None:
    """A page of runs that can be claimed and not recovered, all due before the five behind it."""
    dead = journal.ledger(owner="dead", lease_ttl=60, clock=clock)
    for run_id in [*BAD, *HEALTHY]:
        dead.acquire(run_id, heartbeat=False).save_checkpoint({"of": run_id})
        clock.advance(1)
    for run_id in BAD:
        rewrite(journal, journal_url, run_stream(run_id), 3, b'"state"', b'"odd"')
    worker = Worker(journal, lambda ctx: ctx.checkpoint, owner="heir")
    passed: dict[str, str] = {}
    while record := worker.run_once():
        assert record.run_id not in passed, "the same run was taken again"
        passed[record.run_id] = record.status
    assert {run_id for run_id, status in passed.items() if status == "completed"} == set(HEALTHY)
    for run_id in HEALTHY:
        assert journal.result(run_id) == {"of": run_id}
    # The others are listed for somebody, each with its reason, and do not come back by themselves.
    assert sorted(mark.run_id for mark in journal.attention()) == BAD
    assert all("event 3" in mark.reason for mark in journal.attention())
    assert worker.run_once() is None
