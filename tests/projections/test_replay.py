"""Replay: each event with the record before and after it, and what it changed."""

from __future__ import annotations

from hypothesis import given, settings
from runjournal import Journal
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.domain import fold
from runjournal.projections.replay import UNTOLD, replay

from .histories import STEPS, history


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_the_changes_lead_from_the_first_event_to_the_record(
    steps: list[tuple[str, str, float]],
) -> None:
    events, record, _ = history(steps)
    told: dict[str, object] = {}
    before = None
    for number, step in enumerate(replay(events), start=1):
        assert step.event == events[number - 1]
        assert step.before == before
        assert step.after == fold(None, events[:number])
        for changed in step.changes:
            assert told.get(changed.field) == changed.before
            assert changed.before != changed.after
            told[changed.field] = changed.after
        before = step.after
    assert before == record
    shown = record.model_dump(mode="json", by_alias=True)
    for name, value in shown.items():
        if name not in UNTOLD and not isinstance(value, dict) and value != []:
            assert told.get(name) == value


def test_the_record_after_a_step_is_that_of_time_travel(
    journal: Journal, clock: SteppedClock
) -> None:
    """On every backend."""
    ledger = journal.ledger(owner="a", clock=clock)
    ledger.start("r", labels={"team": "x"}, actor="alice")
    clock.advance(1)
    lease = ledger.acquire("r", heartbeat=False)
    clock.advance(1)
    lease.save_checkpoint({"n": 1})
    lease.suspend(["boss"])
    steps = list(replay(journal.events("r")))
    for step in steps:
        assert step.after == journal.get("r", version=step.event.originator_version)
    granted = {c.field: (c.before, c.after) for c in steps[1].changes}
    assert granted["status"] == ("queued", "running")
    assert granted["fencingToken"] == (0, 1)
    assert granted["lease.owner"] == (None, "a")
    ended = {c.field: (c.before, c.after) for c in steps[3].changes}
    assert ended["lease.owner"] == ("a", None)
    assert ended["suspension.pendingApprovalIds"] == (None, ["boss"])
    assert "labels.team" in {c.field for c in steps[0].changes}
    assert "labels.team" not in {c.field for step in steps[1:] for c in step.changes}
