"""Case 12: a run that has ended stays ended, whoever comes late."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from runjournal import Journal, RunStoreError
from runjournal.adapters.contract.tools import SteppedClock, race, refused

Verify = Callable[[Journal, str], None]


def test_case_12_completed_stays_completed(
    journal: Journal, clock: SteppedClock, verify_run: Verify
) -> None:
    """Completion first: whatever comes later is refused as completed, or changes nothing."""
    ledger = journal.ledger(owner="a", lease_ttl=10, clock=clock)
    reaper = journal.ledger(owner="reaper", lease_ttl=10, clock=clock)
    lease = ledger.acquire("r", heartbeat=False)
    done = lease.complete({"rows": 3})
    for seconds in (0, 5, 5, 3600):
        clock.advance(seconds)
        ledger.beat_once([lease])
        for refuse in (lease.renew, lease.ensure_held, lambda: lease.save_checkpoint(1)):
            with refused("RUN_ALREADY_TERMINAL", "completed"):
                refuse()
        for refuse in (
            lambda: reaper.acquire("r"),
            lambda: reaper.restore("r"),
            lambda: reaper.cancel("r"),
            lambda: reaper.fail("r", "reaped"),
        ):
            with refused("RUN_ALREADY_TERMINAL", "completed"):
                refuse()
        assert reaper.claim() is None
        assert journal.get("r") == done
    verify_run(journal, "r")


def test_case_12_expiry_before_completion(
    journal: Journal, clock: SteppedClock, verify_run: Verify
) -> None:
    """Expiry first: the completion is refused, and a new attempt ends the run."""
    lease = journal.ledger(owner="a", lease_ttl=10, clock=clock).acquire("r", heartbeat=False)
    clock.advance(10)
    second = journal.ledger(owner="reaper", lease_ttl=10, clock=clock).claim(heartbeat=False)
    assert second is not None
    for _ in range(2):
        with refused("RUN_LEASE_LOST", "taken_over"):
            lease.complete("too late")
    assert second.complete("in time").attempt == 2
    (end,) = [e for e in journal.events("r") if e.topic == "run.completed"]
    assert end.result == "in time"  # type: ignore[attr-defined]
    verify_run(journal, "r")


def test_case_12_a_hundred_random_orders(
    journal: Journal, clock: SteppedClock, verify_run: Verify
) -> None:
    """Completion, renewals, beats and reaping in any order: one end, and it is the holder's."""
    ends = set()
    for seed in range(100):
        name = f"run-{seed}"
        ledger = journal.ledger(owner="a", lease_ttl=10, clock=clock)
        reaper = journal.ledger(owner="reaper", lease_ttl=10, clock=clock)
        lease = ledger.acquire(name, heartbeat=False)
        taken: list[Any] = []
        steps: list[Callable[[], object]] = [
            lambda lease=lease: lease.complete("a"),
            lambda lease=lease: lease.renew(),
            lambda lease=lease: lease.renew(),
            lambda ledger=ledger, lease=lease: ledger.beat_once([lease]),
            lambda: clock.advance(6),
            lambda: clock.advance(6),
            lambda reaper=reaper, taken=taken: taken.append(reaper.claim(heartbeat=False)),
        ]
        random.Random(seed).shuffle(steps)
        refusals = []
        for step in steps:
            try:
                step()
            except RunStoreError as e:
                refusals.append(e.code)
        assert set(refusals) <= {"RUN_LEASE_LOST", "RUN_ALREADY_TERMINAL"}
        record = journal.get(name)
        assert record is not None
        if not record.is_terminal:
            # The completion came too late: a new attempt runs, at the latest now.
            clock.advance(10)
            (new,) = [h for h in taken if h] or [reaper.acquire(name, heartbeat=False)]
            if not new.held:
                new = reaper.acquire(name, heartbeat=False)
            record = new.complete("reaper")
        ends.add((record.fencing_token, record.attempt))
        assert record.attempt == record.fencing_token
        verify_run(journal, name)
    assert {(1, 1), (2, 2)} <= ends


def test_case_12_completion_races_with_the_reaper(
    journal: Journal, clock: SteppedClock, verify_run: Verify
) -> None:
    """Both are right by their own clocks: exactly one lands, the other is told who did."""
    later = SteppedClock()
    later.advance(10)
    for number in range(40):
        name = f"run-{number}"
        lease = journal.ledger(owner="a", lease_ttl=10, clock=clock).acquire(name, heartbeat=False)
        reaper = journal.ledger(owner="reaper", lease_ttl=10, clock=later)
        calls: list[Callable[[], Any]] = [
            lease.complete,
            lambda name=name, reaper=reaper: reaper.acquire(name, heartbeat=False),
        ]
        completed, taken = race(2, lambda i, calls=calls: calls[i]())
        losses = [x for x in (completed, taken) if isinstance(x, RunStoreError)]
        assert len(losses) == 1
        if taken is losses[0]:
            assert (losses[0].code, losses[0].reason) == ("RUN_ALREADY_TERMINAL", "completed")
        else:
            assert (losses[0].code, losses[0].reason) == ("RUN_LEASE_LOST", "taken_over")
            taken.complete()
        verify_run(journal, name)
