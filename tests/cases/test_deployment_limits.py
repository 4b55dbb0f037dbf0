"""Every limit of the deployment is hit, on every backend; the run stays usable, or is ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pydantic import ValidationError
from runjournal import DeploymentLimits, Journal, RunLeaseHandle, open_journal
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.contract.tools import SteppedClock, ledger_on, refused, topics

Verify = Callable[[Journal, str], None]
Open = Callable[..., Journal]
LIMIT = "RUN_LIMIT_EXCEEDED"
TTL = 60


@pytest.fixture
def opened(journal_url: str) -> Iterator[Open]:
    """Opens the test's journal with these limits."""
    journals: list[Journal] = []

    def open_with(**limits: float) -> Journal:
        journals.append(open_journal(journal_url, limits=DeploymentLimits(**limits)))
        return journals[-1]

    yield open_with
    for journal in journals:
        journal.close()


def on_another_host(journal: Journal, **limits: float) -> Journal:
    """The same journal as a host with other limits has it."""
    return Journal(journal.store, journal._codec, DeploymentLimits(**limits))


def lose_workers(journal: Journal, clock: SteppedClock, count: int, run_id: str = "run") -> None:
    """So many workers take the run, one after another, and are never heard of again."""
    for number in range(count):
        journal.ledger(owner=f"lost-{number}", clock=clock).acquire(run_id, heartbeat=False)
        clock.advance(TTL)


def test_label_bytes(opened: Open) -> None:
    ledger = opened(label_bytes=10).ledger()
    with refused(LIMIT, "label_bytes") as caught:
        ledger.start("run", labels={"team": "größer"})
    assert "12; the limit is 10" in caught.value.message
    assert ledger.get("run") is None
    assert ledger.start("run", labels={"team": "größ"}).labels == {"team": "größ"}


def test_lease_ttl(opened: Open) -> None:
    journal = opened(min_ttl=10, max_ttl=60)
    for ttl in (9.9, 60.5):
        with refused(LIMIT, "lease_ttl") as caught:
            journal.ledger(lease_ttl=ttl)
        assert f"{ttl} s; the limits are 10 to 60 s" in caught.value.message
    assert [journal.ledger(lease_ttl=at).lease_ttl for at in (10, 60)] == [10, 60]


def test_a_range_of_leases_must_hold_some() -> None:
    with pytest.raises(ValidationError, match="min_ttl is above max_ttl"):
        DeploymentLimits(min_ttl=10, max_ttl=9)


@pytest.mark.parametrize("name", ["run_seconds", "min_ttl", "max_ttl"])
@pytest.mark.parametrize("odd", [float("inf"), float("nan"), -1.0])
def test_seconds_are_finite(name: str, odd: float) -> None:
    with pytest.raises(ValidationError):
        DeploymentLimits(**{name: odd})


# Events.


def test_events_per_run(opened: Open, verify_run: Verify) -> None:
    journal = opened(events_per_run=4)
    lease = journal.ledger().acquire("run", heartbeat=False)
    lease.save_checkpoint(3)
    lease.save_checkpoint(4)
    writes: list[Callable[[], object]] = [lambda: lease.save_checkpoint(5), lease.suspend]
    for write in writes:
        with refused(LIMIT, "events_per_run") as caught:
            write()
        assert "5; the limit is 4" in caught.value.message
    assert lease.held
    assert lease.record.version == 4
    assert lease.complete().version == 5
    verify_run(journal, "run")


def test_ends_and_releases_pass_the_limit_on_events(opened: Open, verify_run: Verify) -> None:
    journal = opened(events_per_run=2)
    ledger = journal.ledger()
    ledger.acquire("failed", heartbeat=False).fail("no-more")
    ledger.acquire("cancelled", heartbeat=False)
    ledger.cancel("cancelled")
    ledger.acquire("released", heartbeat=False).release()
    # Granted no more, and ended all the same.
    with refused(LIMIT, "events_per_run"):
        ledger.acquire("released")
    assert ledger.fail("released", "no-more").version == 4
    for run_id in ("failed", "cancelled", "released"):
        verify_run(journal, run_id)


def test_a_suspended_run_at_its_limit_can_still_be_ended(opened: Open) -> None:
    ledger = opened(events_per_run=3).ledger()
    ledger.acquire("run", heartbeat=False).suspend(["go"], resume_when_decided=True)
    commands: list[Callable[[], object]] = [
        lambda: ledger.record_decision("run", "go", "yes"),
        lambda: ledger.request_resume("run"),
        lambda: ledger.restore("run"),
    ]
    for command in commands:
        with refused(LIMIT, "events_per_run"):
            command()
    assert ledger.cancel("run").status == "cancelled"


def test_a_claim_sets_aside_what_is_full_and_goes_on(opened: Open, clock: SteppedClock) -> None:
    journal = opened(events_per_run=4)
    ledger = journal.ledger(clock=clock)
    ledger.start("full")
    for _ in range(2):
        ledger.acquire("full", heartbeat=False).release()
    clock.advance(1)
    ledger.start("next")
    lease = ledger.claim(heartbeat=False)
    assert lease is not None
    assert lease.run_id == "next"
    (aside,) = journal.attention()
    assert aside.run_id == "full"
    assert "events per run would be 6; the limit is 4" in aside.reason
    # On a host that allows more it goes on.
    more = on_another_host(journal, events_per_run=6).ledger(clock=clock)
    assert more.acquire("full", heartbeat=False).complete().status == "completed"
    assert journal.attention() == []


# Attempts.


def test_attempts(opened: Open, clock: SteppedClock, verify_run: Verify) -> None:
    """The run that ends every worker is ended, its result is asked for, and it is told why."""
    journal = opened(attempts=3)
    ledger = journal.ledger(owner="taker", clock=clock)
    ledger.start("run", delivery_ref="inbox")
    lose_workers(journal, clock, 3)
    with refused(LIMIT, "attempts") as caught:
        ledger.acquire("run")
    assert "4; the limit is 3" in caught.value.message
    record = ledger.get("run")
    assert record is not None
    assert record == caught.value.record
    assert record.outcome is not None
    assert (record.status, record.outcome.code) == ("failed", "attempts_exhausted")
    assert (record.attempt, record.fencing_token) == (3, 4)
    *_, last = journal.events("run")
    assert (last.topic, last.actor) == ("run.failed", "taker")
    assert [d.run_id for d in journal.deliveries()] == ["run"]
    assert ledger.claim() is None
    with refused("RUN_ALREADY_TERMINAL", "failed"):
        ledger.acquire("run")
    verify_run(journal, "run")


def test_a_claim_ends_what_is_exhausted_and_goes_on(
    opened: Open, clock: SteppedClock, verify_run: Verify
) -> None:
    journal = opened(attempts=2)
    ledger = journal.ledger(owner="taker", clock=clock)
    for name in ("poison-1", "poison-2", "poison-3"):
        ledger.start(name, delivery_ref=None if name == "poison-3" else "inbox")
    for name in ("poison-1", "poison-2", "poison-3"):
        lose_workers(journal, clock, 2, name)
    ledger.start("good-1")
    ledger.start("good-2")
    (first,) = ledger.claim(limit=1, heartbeat=False)
    assert first.run_id == "good-1"
    assert [lease.run_id for lease in ledger.claim(limit=9, heartbeat=False)] == ["good-2"]
    failed = journal.runs(status="failed")
    assert {r.run_id: r.outcome and r.outcome.code for r in failed} == dict.fromkeys(
        ["poison-1", "poison-2", "poison-3"], "attempts_exhausted"
    )
    assert sorted(d.run_id for d in journal.deliveries()) == ["poison-1", "poison-2"]
    assert journal.attention() == []
    for record in failed:
        verify_run(journal, record.run_id)


def test_a_holder_that_wakes_up_after_the_end_is_fenced(opened: Open, clock: SteppedClock) -> None:
    journal = opened(attempts=1)
    lost = journal.ledger(clock=clock).acquire("run", heartbeat=False)
    clock.advance(TTL)
    assert journal.ledger(owner="taker", clock=clock).claim() is None
    with refused("RUN_LEASE_LOST", "taken_over"):
        lost.complete()


def test_a_renewed_run_is_not_ended(opened: Open, clock: SteppedClock) -> None:
    journal = opened(attempts=1)
    lease = journal.ledger(clock=clock).acquire("run", heartbeat=False)
    clock.advance(TTL - 1)
    lease.renew()
    clock.advance(1)
    taker = journal.ledger(owner="taker", clock=clock)
    with refused("RUN_LEASE_HELD", "held"):
        taker.acquire("run")
    assert taker.claim() is None
    assert lease.complete().status == "completed"


def test_releases_use_up_no_attempt(opened: Open, clock: SteppedClock) -> None:
    ledger = opened(attempts=1).ledger(clock=clock)
    for _ in range(3):
        ledger.acquire("run", heartbeat=False).release(error="no luck")
    assert ledger.acquire("run", heartbeat=False).attempt == 1


def test_an_end_whose_reply_was_lost_is_found_again(opened: Open, clock: SteppedClock) -> None:
    journal = opened(attempts=1)
    lose_workers(journal, clock, 1)
    lossy = LosesReplies(journal.store)
    taker = ledger_on(lossy, clock, "taker", limits=journal.limits)
    lossy.replies = 1
    with refused(LIMIT, "attempts") as caught:
        taker.acquire("run")
    assert "2; the limit is 1" in caught.value.message
    assert topics(journal.store) == ["queued", "lease_granted", "failed"]


# Time.


def take(journal: Journal, clock: SteppedClock) -> RunLeaseHandle:
    return journal.ledger(clock=clock, lease_ttl=1000).acquire("run", heartbeat=False)


def test_run_seconds(opened: Open, clock: SteppedClock, verify_run: Verify) -> None:
    """No more checkpoints, but the holder can still finish."""
    journal = opened(run_seconds=100)
    lease = take(journal, clock)
    clock.advance(100)
    lease.save_checkpoint("just in time")
    clock.advance(0.5)
    with refused(LIMIT, "run_seconds") as caught:
        lease.save_checkpoint("too late")
    assert "100.5; the limit is 100" in caught.value.message
    assert lease.checkpoint == "just in time"
    assert lease.complete().status == "completed"
    verify_run(journal, "run")


def test_the_next_taker_ends_a_run_whose_time_is_up(
    opened: Open, clock: SteppedClock, verify_run: Verify
) -> None:
    """A suspension and a resume do not set the clock back."""
    journal = opened(run_seconds=100)
    ledger = journal.ledger(owner="taker", clock=clock)
    ways = ("acquire", "restore", "claim")
    for run_id in ways:
        ledger.start(run_id, delivery_ref="inbox")
        lease = ledger.acquire(run_id, heartbeat=False)
        clock.advance(20)
        lease.suspend()
        if run_id != "restore":
            ledger.request_resume(run_id)
    clock.advance(100.25)
    for take_it in (ledger.acquire, ledger.restore):
        with refused(LIMIT, "run_seconds") as caught:
            take_it(take_it.__name__)
        assert caught.value.message.endswith("0.25; the limit is 100")
    assert ledger.claim() is None
    for run_id in ways:
        record = ledger.get(run_id)
        assert record is not None
        assert record.outcome is not None
        assert (record.status, record.outcome.code) == ("failed", "duration_exhausted")
        assert record.suspension is None
        verify_run(journal, run_id)
    assert {d.run_id for d in journal.deliveries()} == set(ways)


# A host with lower limits.


def grow(journal: Journal, clock: SteppedClock) -> None:
    """A suspended run in its second attempt, with a checkpoint, labels and approvals."""
    ledger = journal.ledger(clock=clock)
    ledger.start("run", labels={"team": "search", "tier": "2"})
    ledger.acquire("run", heartbeat=False)
    clock.advance(TTL)
    lease = ledger.acquire("run", heartbeat=False)
    lease.save_checkpoint("x" * 98)
    lease.suspend(["a", "b"])


def test_lower_limits_are_checked_when_a_run_is_taken(opened: Open, clock: SteppedClock) -> None:
    journal = opened()
    grow(journal, clock)
    before = journal.get("run")
    for limit, allowed, actual in [
        ("checkpoint_bytes", 99, 100),
        ("labels", 1, 2),
        ("label_bytes", 14, 15),
        ("approvals", 1, 2),
        ("attempts", 1, 2),
        ("events_per_run", 6, 7),
    ]:
        with refused(LIMIT, limit) as caught:
            on_another_host(journal, **{limit: allowed}).ledger(clock=clock).restore("run")
        assert f"{actual}; the limit is {allowed}" in caught.value.message
        assert journal.get("run") == before
    assert journal.ledger(clock=clock).restore("run", heartbeat=False).complete().version == 8


def test_defaults_refuse_nothing_that_is_usual(opened: Open, clock: SteppedClock) -> None:
    journal = opened()
    grow(journal, clock)
    clock.advance(10 * 365 * 86_400)
    lease = journal.ledger(clock=clock, lease_ttl=0.001).restore("run", heartbeat=False)
    assert lease.save_checkpoint("x").version == 8
