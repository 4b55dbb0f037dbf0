"""The timeline of a run: it says of every grant what became of it, whatever the history."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

from hypothesis import given, settings
from runjournal import Journal
from runjournal.adapters.contract.scribe import START
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.domain import CheckpointSaved, Event, LeaseGranted, RunQueued
from runjournal.projections.lanes import FINE, OWNERS, drawing
from runjournal.projections.timeline import MARKS_KEPT, timeline

from .histories import STEPS, TTL, history


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_grant_is_a_holding(steps: list[tuple[str, str, float]]) -> None:
    events, record, now = history(steps)
    line = timeline(events, now=now, stored=record)
    assert line is not None
    assert line.record == record
    assert line.events == record.version
    grants = [e for e in events if isinstance(e, LeaseGranted)]
    assert [(h.owner, h.fencing_token, h.attempt, h.version, h.since) for h in line.holdings] == [
        (g.owner, g.fencing_token, g.attempt, g.originator_version, g.timestamp) for g in grants
    ]
    assert sum(h.checkpoints.count for h in line.holdings) == sum(
        isinstance(e, CheckpointSaved) for e in events
    )
    # One holder at a time, and only the last one may still have it.
    for one, next_one in pairwise(line.holdings):
        assert one.until is not None
        assert one.since <= one.until <= next_one.since
        assert one.ended is not None
        assert (one.ended in ("taken over", "reacquired")) == (next_one.after is not None)
    if line.holdings and line.holdings[-1].until is None:
        assert record.lease is not None
        assert now < record.lease.expires_at
    # The attempt grows by the takeovers alone.
    taken = sum(h.ended == "taken over" for h in line.holdings)
    assert record.attempt == 1 + taken
    assert len(line.losses) == taken + sum(h.ended == "expired" for h in line.holdings)
    for loss in line.losses:
        assert loss.last_sign <= loss.live_until <= loss.noticed_at
        assert loss.idle == (loss.noticed_at - loss.live_until).total_seconds()


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_every_history_can_be_drawn(steps: list[tuple[str, str, float]]) -> None:
    events, record, now = history(steps)
    line = timeline(events, now=now, stored=record)
    assert line is not None
    drawn = drawing(line, now)
    assert [lane.kind for lane in drawn.lanes].count("run") == 1
    assert len(drawn.lanes) == 1 + len({h.owner for h in line.holdings})
    for lane in drawn.lanes:
        for bar in lane.bars:
            assert 0 <= bar.begin <= bar.end <= 1
            assert bar.lost_from is None or bar.begin <= bar.lost_from <= bar.end
        assert all(0 <= mark.at <= 1 for mark in lane.marks)


def test_nothing_happened() -> None:
    assert timeline([]) is None


def test_how_each_holding_ends(journal: Journal, clock: SteppedClock) -> None:
    """On every backend, through the journal."""

    def acquire(owner: str):  # type: ignore[no-untyped-def]
        ledger = journal.ledger(owner=owner, clock=clock, lease_ttl=TTL)
        return ledger.acquire("r", heartbeat=False)

    operator = journal.ledger(owner="operator", clock=clock)
    operator.start("r", delivery_ref="inbox", actor="alice")
    first = acquire("a")
    clock.advance(1)
    first.save_checkpoint({"n": 1})
    clock.advance(7)
    first.save_checkpoint({"n": 2})
    clock.advance(60)
    acquire("b")
    clock.advance(1)
    acquire("b").release("enough")
    acquire("c").suspend(["boss", "bank"])
    clock.advance(1)
    operator.record_decision("r", "boss", "yes", actor="bob")
    operator.request_resume("r", actor="carol")
    last = acquire("d")
    clock.advance(1)
    last.cancel("not wanted")
    line = journal.timeline("r")
    assert [(h.owner, h.fencing_token, h.attempt, h.ended) for h in line.holdings] == [
        ("a", 1, 1, "taken over"),
        ("b", 2, 2, "reacquired"),
        ("b", 3, 2, "released"),
        ("c", 4, 2, "suspended"),
        ("d", 5, 2, "cancelled"),
    ]
    assert line.holdings[0].checkpoints.count == 2
    assert line.holdings[0].checkpoints.last_at == START + timedelta(seconds=8)
    (loss,) = line.losses
    # The grant was for 10 s; the checkpoint after 8 s left at least half of that.
    assert loss.live_until == START + timedelta(seconds=13)
    assert (loss.owner, loss.fencing_token, loss.idle) == ("a", 1, 55.0)
    assert loss.last_sign == START + timedelta(seconds=8)
    (suspension,) = line.suspensions
    assert (suspension.ended, suspension.undecided) == ("resumed", ("bank",))
    assert suspension.pending_approval_ids == ("boss", "bank")
    assert [(d.approval_id, d.decision, d.actor) for d in line.decisions] == [
        ("boss", "yes", "bob")
    ]
    assert [(a.what, a.actor, a.message) for a in line.actions] == [
        ("started", "alice", None),
        ("resumed", "carol", None),
        ("cancelled", "d", "not wanted"),
    ]
    assert line.record == journal.get("r")
    assert line.delivery is not None
    assert (line.delivery.status, line.delivery.attempts) == ("pending", ())
    sender = journal.delivery_ledger(owner="sender", clock=clock)
    claimed = sender.attempt(line.delivery.invocation_id)
    assert claimed is not None
    sender.doubted(claimed.record, "no answer", definite=False, next_attempt_at=None)
    claimed = sender.attempt(line.delivery.invocation_id)
    assert claimed is not None
    sender.succeeded(claimed.record)
    sent = journal.timeline("r").delivery
    assert sent is not None
    assert [(t.attempt, t.owner, t.result, t.error) for t in sent.attempts] == [
        (1, "sender", "unknown", "no answer"),
        (2, "sender", "delivered", None),
    ]


def test_a_lease_that_ran_out_and_nobody_took(journal: Journal, clock: SteppedClock) -> None:
    """Now, by the store's clock; and once an operator has given the run up, by its event."""
    operator = journal.ledger(clock=clock)  # in the past, so by the store's clock it has run out
    operator.acquire("r", heartbeat=False)
    (held,) = journal.timeline("r").holdings
    deadline = START + timedelta(seconds=60)
    assert (held.ended, held.until) == ("expired", deadline)
    assert journal.timeline("r").losses[0].live_until == deadline
    clock.advance(100)
    operator.fail("r", "gone", "nobody came back", actor="bob")
    line = journal.timeline("r")
    assert [(h.ended, h.until) for h in line.holdings] == [("expired", clock.now)]
    assert (line.losses[0].noticed_at, line.losses[0].idle) == (clock.now, 40.0)
    assert [(a.what, a.actor) for a in line.actions] == [("started", None), ("failed", "bob")]


def test_a_renewed_lease_is_held(journal: Journal) -> None:
    """A renewal is no event: the present deadline comes from the record."""
    lease = journal.ledger(lease_ttl=30).acquire("r", heartbeat=False)
    lease.renew()
    (held,) = journal.timeline("r").holdings
    record = journal.get("r")
    assert record is not None
    assert (held.ended, held.until) == (None, None)
    assert journal.timeline("r").record == record


def long_history(count: int) -> Iterator[Event]:
    """A run's events one by one; nobody keeps them."""
    at = {"originator_id": "run/r", "hash": "x"}
    yield RunQueued(**at, originator_version=1, timestamp=START, kind="k", start_digest="")
    yield LeaseGranted(
        **at, originator_version=2, timestamp=START, owner="a", fencing_token=1, attempt=1, ttl=9
    )
    for n in range(3, count + 1):
        yield CheckpointSaved(
            **at,
            originator_version=n,
            timestamp=START + timedelta(seconds=n),
            key="k",
            snapshot_version=1,
            digest="",
            size=10,
        )


def test_a_long_run_has_a_short_timeline() -> None:
    count = 20_000
    line = timeline(long_history(count))
    assert line is not None
    (held,) = line.holdings
    saved = held.checkpoints
    assert (saved.count, saved.bytes) == (count - 2, 10 * (count - 2))
    assert (saved.first_at, saved.last_at) == (
        START + timedelta(seconds=3),
        START + timedelta(seconds=count),
    )
    assert saved.last_version == count
    assert MARKS_KEPT <= len(saved.marks) < 2 * MARKS_KEPT
    gaps = {b - a for a, b in pairwise(saved.marks)}
    assert len(gaps) == 1
    assert len(line.model_dump_json()) < 6_000


def test_many_holders_are_drawn_together() -> None:
    """Lanes, bars and marks are bounded, and say what they stand for."""
    events = list(long_history(2))
    for n in range(3, 3_003):
        at = START + timedelta(seconds=n)
        events.append(
            LeaseGranted(
                originator_id="run/r",
                originator_version=n,
                timestamp=at,
                owner=f"w{n}",
                fencing_token=n,
                attempt=n,
                ttl=0.5,
                took_over={"owner": "x", "fencing_token": n - 1},  # type: ignore[arg-type]
            )
        )
    line = timeline(events)
    assert line is not None
    assert len(line.holdings) == 3_001
    drawn = drawing(line, START + timedelta(seconds=3_003))
    assert len(drawn.lanes) == 1 + OWNERS
    rest = drawn.lanes[-1]
    assert rest.name == f"{3_001 - OWNERS + 1:,} other owners"
    assert len(rest.bars) <= 2 / FINE
    assert len(rest.marks) <= 3 / FINE
    assert any("stretches" in bar.title for bar in rest.bars)
    assert any("more)" in mark.title for mark in rest.marks)
