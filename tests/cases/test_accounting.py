"""Cases of attempts, tokens, instants and the causes of refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from runjournal import (
    CAUSES,
    Journal,
    RunLeaseHandle,
    RunLedger,
    RunStoreError,
    Worker,
    WorkerContext,
)
from runjournal.adapters.contract.tools import SteppedClock, refused

Verify = Callable[[Journal, str], None]


def accounts(journal: Journal, run_id: str = "r") -> tuple[int, int, int]:
    """Attempt, token and number of grants, the first two as recorded and as the grants say."""
    record = journal.get(run_id)
    assert record is not None
    grants: list[Any] = [e for e in journal.events(run_id) if e.topic == "run.lease_granted"]
    tokens = [g.fencing_token for g in grants]
    attempts = [g.attempt for g in grants]
    assert tokens == list(range(1, len(grants) + 1))
    assert attempts == sorted(attempts)
    assert (record.attempt, record.fencing_token) == (attempts[-1], tokens[-1])
    return record.attempt, record.fencing_token, len(grants)


def test_case_14_attempts_tokens_and_grants_agree(
    journal: Journal, clock: SteppedClock, verify_run: Verify
) -> None:
    """The rule: each grant has the next token; only taking over an abandoned run is an attempt."""
    ledger = journal.ledger(owner="a", lease_ttl=10, clock=clock)
    other = journal.ledger(owner="b", lease_ttl=10, clock=clock)
    ledger.acquire("r", heartbeat=False).release()
    assert accounts(journal) == (1, 1, 1)
    # Acquired and left to expire.
    ledger.acquire("r", heartbeat=False)
    assert accounts(journal) == (1, 2, 2)
    clock.advance(10)
    lease = other.acquire("r", heartbeat=False)
    assert accounts(journal) == (2, 3, 3)
    # Failed and to be retried: counted as a failure, the attempt is given back.
    lease.release(error="network is down")
    record = journal.get("r")
    assert record is not None
    assert (record.failures, record.attempt, record.status) == (1, 2, "queued")
    with suppress(ZeroDivisionError), ledger.acquire("r", heartbeat=False):
        raise ZeroDivisionError
    record = journal.get("r")
    assert record is not None
    assert (record.failures, record.attempt, record.fencing_token) == (2, 2, 4)
    # The same owner again while it holds the run: a new token, no attempt.
    first = ledger.acquire("r", heartbeat=False)
    second = ledger.acquire("r", heartbeat=False)
    assert accounts(journal) == (2, 6, 6)
    with refused("RUN_LEASE_LOST", "taken_over"):
        first.save_checkpoint(1)
    # Shut down in good order.
    ledger.release_all("shutdown")
    assert accounts(journal) == (2, 6, 6)
    with refused("RUN_LEASE_LOST", "released"):
        second.save_checkpoint(1)
    assert ledger.acquire("r", heartbeat=False).complete().attempt == 2
    assert accounts(journal) == (2, 7, 7)
    record = journal.get("r")
    assert record is not None
    assert record.failures == 2
    verify_run(journal, "r")


def test_case_14_cancel_moves_the_token_and_not_the_attempt(
    journal: Journal, clock: SteppedClock
) -> None:
    ledger = journal.ledger(owner="a", clock=clock)
    ledger.acquire("r", heartbeat=False)
    record = ledger.cancel("r")
    assert (record.attempt, record.fencing_token) == (1, 2)


def test_case_14_suspension_and_resume_are_no_attempts(
    journal: Journal, clock: SteppedClock
) -> None:
    ledger = journal.ledger(owner="a", clock=clock)
    ledger.acquire("r", heartbeat=False).suspend()
    assert accounts(journal) == (1, 1, 1)
    ledger.restore("r", heartbeat=False).suspend()
    assert accounts(journal) == (1, 2, 2)
    ledger.request_resume("r")
    ledger.acquire("r", heartbeat=False)
    assert accounts(journal) == (1, 3, 3)


def test_case_14_worker_that_is_shut_down(journal: Journal) -> None:
    """An interrupted worker gives the run back: no attempt, no failure, never a cancel."""
    journal.ledger().start("r")
    interrupt = threading.Event()

    def handler(ctx: WorkerContext) -> None:
        interrupt.set()
        ctx.stop.wait()

    record = Worker(journal, handler).run_once(interrupt=interrupt)
    assert record is not None
    assert (record.status, record.failures) == ("queued", 0)
    assert accounts(journal) == (1, 1, 1)


class TickingClock:
    """A clock that moves on by a second each time it is read."""

    def __init__(self) -> None:
        self.stepped = SteppedClock()
        self.readings: list[datetime] = []

    def __call__(self) -> datetime:
        self.readings.append(self.stepped.advance(1))
        return self.readings[-1]


def test_case_15_one_instant_for_each_command(journal: Journal) -> None:
    """Every command reads the clock once, and all that it stores says that instant."""
    clock = TickingClock()
    ledger = journal.ledger(owner="a", lease_ttl=1000, clock=clock)
    lease: list[RunLeaseHandle] = []
    steps: list[Callable[[], object]] = [
        lambda: ledger.start("r"),
        lambda: lease.append(ledger.acquire("r", heartbeat=False)),
        lambda: lease[-1].save_checkpoint({"n": 1}),
        lambda: lease[-1].renew(),
        lambda: lease[-1].suspend(["x"]),
        lambda: ledger.record_decision("r", "x", "yes"),
        lambda: ledger.request_resume("r"),
        lambda: lease.append(ledger.acquire("r", heartbeat=False)),
        lambda: lease[-1].release(),
        lambda: lease.extend(ledger.claim(limit=1, heartbeat=False)),
        lambda: lease[-1].complete(),
        lambda: ledger.start("q"),
        lambda: ledger.cancel("q"),
        lambda: ledger.start("p"),
        lambda: ledger.fail("p", "no_use"),
    ]
    for number, step in enumerate(steps):
        before = len(clock.readings)
        step()
        assert len(clock.readings) == before + 1, f"step {number}"
    for run_id in ("r", "q", "p"):
        record = journal.get(run_id)
        assert record is not None
        stamps = [e.timestamp for e in journal.events(run_id)]
        assert set(stamps) <= set(clock.readings)
        assert record.updated_at == stamps[-1]


def test_case_15_expiry_between_two_readings(journal: Journal, clock: SteppedClock) -> None:
    """A run that expires between two readings is either held or free, never half of each."""
    lease = journal.ledger(owner="a", lease_ttl=10, clock=clock).acquire("r", heartbeat=False)
    ticking = TickingClock()
    ticking.stepped.advance(8.5)  # the next readings are 9.5 and 10.5 seconds after the grant
    rival = journal.ledger(owner="b", lease_ttl=10, clock=ticking)
    with refused("RUN_LEASE_HELD", "held"):
        rival.acquire("r", heartbeat=False)
    assert len(ticking.readings) == 1
    taken = rival.acquire("r", heartbeat=False)
    instant = ticking.readings[1]
    assert len(ticking.readings) == 2
    assert taken.record.lease is not None
    assert taken.record.lease.acquired_at == instant
    assert taken.record.lease.expires_at == instant + timedelta(seconds=10)
    assert [e.timestamp for e in journal.events("r")][-1] == instant
    clock.advance(10.5)
    with refused("RUN_LEASE_LOST", "taken_over"):
        lease.renew()


def test_case_15_every_refusal_has_a_cause_of_its_own(
    journal: Journal, clock: SteppedClock
) -> None:
    """Eight situations, eight causes: stable, listed with a hint, and without any trace."""
    ledger = journal.ledger(owner="a", lease_ttl=10, clock=clock)
    other = journal.ledger(owner="b", lease_ttl=10, clock=clock)
    leases = {
        name: ledger.acquire(name, heartbeat=False)
        for name in ("expired", "taken_over", "released", "cancelled", "completed", "suspended")
    }
    clock.advance(10)
    other.acquire("taken_over", heartbeat=False)
    for name in ("released", "cancelled", "completed", "suspended"):
        leases[name] = ledger.acquire(name, heartbeat=False)
    leases["released"].release()
    ledger.cancel("cancelled")
    leases["completed"].complete()
    leases["suspended"].suspend()
    ledger.acquire("held", heartbeat=False)
    expected: dict[str, tuple[Callable[[], object], tuple[str, str]]] = {
        "unknown": (lambda: ledger.cancel("unknown"), ("RUN_NOT_FOUND", "run")),
        "held": (lambda: other.acquire("held"), ("RUN_LEASE_HELD", "held")),
        "expired": (leases["expired"].renew, ("RUN_LEASE_LOST", "expired")),
        "taken_over": (leases["taken_over"].renew, ("RUN_LEASE_LOST", "taken_over")),
        "released": (leases["released"].renew, ("RUN_LEASE_LOST", "released")),
        "cancelled": (leases["cancelled"].renew, ("RUN_LEASE_LOST", "cancelled")),
        "completed": (lambda: other.acquire("completed"), ("RUN_ALREADY_TERMINAL", "completed")),
        "suspended": (lambda: other.acquire("suspended"), ("RUN_SUSPENDED", "suspended")),
    }
    found = set()
    for name, (command, cause) in expected.items():
        before = journal.get(name), list(journal.events(name))
        with refused(*cause) as caught:
            command()
        assert name in caught.value.message
        assert caught.value.hint == CAUSES[cause].hint
        assert (caught.value.record is None) == (name == "unknown")
        assert (journal.get(name), list(journal.events(name))) == before
        found.add((caught.value.code, caught.value.reason))
    assert len(found) == 8


def test_case_16_the_holders_own_term_counts(journal: Journal, clock: SteppedClock) -> None:
    """A contender with short leases waits for the holder's deadline, also for a renewed one."""
    lease = journal.ledger(owner="a", lease_ttl=60, clock=clock).acquire("r", heartbeat=False)
    hasty = journal.ledger(owner="b", lease_ttl=5, clock=clock)

    def refuse() -> RunStoreError:
        with refused("RUN_LEASE_HELD", "held") as caught:
            hasty.acquire("r", heartbeat=False)
        assert hasty.claim(heartbeat=False) is None
        with refused("RUN_LEASE_HELD", "held"):
            hasty.fail("r", "impatient")
        return caught.value

    start = clock.now
    clock.advance(6)
    assert refuse().record.lease.expires_at == start + timedelta(seconds=60)  # type: ignore[union-attr]
    clock.advance(34)
    lease.renew()
    clock.advance(59.999999)
    refuse()
    clock.advance(0.000001)
    assert hasty.acquire("r", heartbeat=False).fencing_token == 2


def test_case_16_the_holder_stops_before_its_deadline(
    journal: Journal, clock: SteppedClock
) -> None:
    """A loop that asks `held` stops while the run is still its own, not at the deadline."""

    def steps(ledger: RunLedger) -> float:
        lease = ledger.acquire("r", heartbeat=False)
        assert lease.record.lease is not None
        begin = clock.now
        while lease.held:
            clock.advance(0.05)
        last = (clock.now - begin).total_seconds()
        assert clock.now < lease.record.lease.expires_at
        lease.release()  # there is still time for this
        return last

    assert 58 < steps(journal.ledger(owner="a", lease_ttl=60, clock=clock)) < 60
    assert 9 < steps(journal.ledger(owner="a", lease_ttl=10, clock=clock)) < 10
