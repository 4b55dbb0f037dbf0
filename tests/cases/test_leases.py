"""Cases of leases, fencing and renewal."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunStoreError, Worker, WorkerContext, open_journal
from runjournal.adapters.contract import LosesReplies
from runjournal.adapters.contract.tools import SteppedClock, ledger_on, refused

SLEEPER = Path(__file__).with_name("sleeping_worker.py")
Verify = Callable[[Journal, str], None]
WaitUntil = Callable[[Callable[[], Any]], None]


def topics(journal: Journal, run_id: str = "r") -> list[str]:
    return [e.topic.removeprefix("run.") for e in journal.events(run_id)]


def expires_at(journal: Journal, run_id: str = "r") -> datetime:
    record = journal.get(run_id)
    assert record is not None
    assert record.lease is not None
    return record.lease.expires_at


def test_clock_that_was_set_back_leaves_a_new_lease_as_long_as_it_is(
    journal: Journal, clock: SteppedClock
) -> None:
    """The grant is stamped with the run's last instant; its deadline is now + ttl all the same."""
    line = LosesReplies(journal.store)
    ledger = ledger_on(line, clock, "a", lease_ttl=10)
    ledger.start("r")
    clock.advance(-3600)
    lease = ledger.acquire("r")
    assert lease.record.lease is not None
    assert lease.record.lease.expires_at == expires_at(journal) == clock.now + timedelta(seconds=10)
    clock.advance(10)
    line.requests = 1
    with refused("RUN_LEASE_LOST", "expired"):  # it is known to be, and nothing is sent
        lease.save_checkpoint(1)
    assert line.requests == 1


@pytest.mark.parametrize("late", [0.0, 0.001, 3600.0])
@pytest.mark.parametrize("command", ["renew", "save_checkpoint", "complete", "release", "suspend"])
def test_case_02_expired_lease_is_dead_for_its_holder(
    journal: Journal, clock: SteppedClock, late: float, command: str
) -> None:
    """Expired is now >= expires_at, for every command, also when nobody has taken over."""
    ledger = journal.ledger(owner="a", lease_ttl=10, clock=clock)
    lease = ledger.acquire("r", heartbeat=False)
    before = journal.get("r")
    clock.advance(10 + late)
    arguments = ({"n": 1},) if command == "save_checkpoint" else ()
    with refused("RUN_LEASE_LOST", "expired"):
        getattr(lease, command)(*arguments)
    assert not lease.held
    assert journal.get("r") == before
    again = ledger.acquire("r", heartbeat=False)
    assert (again.fencing_token, again.attempt) == (lease.fencing_token + 1, lease.attempt + 1)


def test_case_02_one_boundary_for_holder_and_contender(
    journal: Journal, clock: SteppedClock
) -> None:
    """A microsecond before the deadline only the holder may write; at it only the contender."""
    ledger = journal.ledger(owner="a", lease_ttl=10, clock=clock)
    rival = journal.ledger(owner="b", lease_ttl=10, clock=clock)
    lease = ledger.acquire("r", heartbeat=False)
    clock.advance(9.999999)
    with refused("RUN_LEASE_HELD", "held"):
        rival.acquire("r", heartbeat=False)
    assert rival.claim(heartbeat=False) is None
    lease.save_checkpoint({"n": 1})  # less than half the ttl was left: this renews as well
    clock.advance(9.999999)
    lease.renew()
    assert expires_at(journal) == clock.now + timedelta(seconds=10)
    clock.advance(10)
    taken = rival.claim(heartbeat=False)
    assert taken is not None
    assert (taken.fencing_token, taken.attempt) == (2, 2)
    with refused("RUN_LEASE_LOST", "taken_over"):
        lease.renew()


@pytest.mark.parametrize("ttl", [0, -1, -0.001, float("nan"), float("inf"), timedelta(0), True])
def test_case_02_ttl_that_is_not_positive_is_refused(journal: Journal, ttl: Any) -> None:
    with refused("RUN_VALIDATION_ERROR", "argument"):
        journal.ledger(lease_ttl=ttl)


def test_case_05_work_longer_than_the_lease(journal: Journal, clock: SteppedClock) -> None:
    """While it is renewed a run is never acquirable, and renewals leave no events behind."""
    lease = journal.ledger(owner="a", lease_ttl=30, clock=clock).acquire("r", heartbeat=False)
    rival = journal.ledger(owner="b", lease_ttl=30, clock=clock)
    for second in range(1, 601):
        clock.advance(1)
        if second % 10 == 0:
            lease.renew()
        with refused("RUN_LEASE_HELD", "held"):
            rival.acquire("r", heartbeat=False)
        assert rival.claim(heartbeat=False) is None
    assert topics(journal) == ["queued", "lease_granted"]
    lease.complete()
    assert topics(journal) == ["queued", "lease_granted", "completed"]


def test_case_05_worker_renews_by_itself(journal: Journal) -> None:
    """The same in real time: a handler that works for more than two leases keeps its run."""
    journal.ledger().start("r")
    rival = journal.ledger(owner="b")
    polls: list[str] = []

    def handler(ctx: WorkerContext) -> str:
        end = ctx.record.lease.acquired_at + timedelta(seconds=2.2 * 0.9)  # type: ignore[union-attr]
        while expires_at(journal) < end:
            try:
                rival.acquire("r")
            except RunStoreError as e:
                polls.append(e.code)
            assert ctx.lease.held
        return "done"

    record = Worker(journal, handler, owner="a", lease_ttl=0.9).run_once()
    assert record is not None
    assert (record.status, record.fencing_token, record.attempt) == ("completed", 1, 1)
    assert set(polls) == {"RUN_LEASE_HELD"}
    assert topics(journal) == ["queued", "lease_granted", "completed"]


def test_case_05_a_lease_whose_release_failed_is_renewed_no_more(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """The block is left, so nobody works on the run: the beat must not keep it for ever."""

    def away(*_: Any, **__: Any) -> Any:
        raise RunStoreError("RUN_STORE_UNAVAILABLE", "failed", "the store is away")

    def taken_over() -> bool:
        try:
            return rival.acquire("r").attempt == 2
        except RunStoreError as e:
            return e.code != "RUN_LEASE_HELD"

    rival = journal.ledger(owner="b")
    lease = journal.ledger(owner="a", lease_ttl=0.3).acquire("r")
    with monkeypatch.context() as patched, suppress(ZeroDivisionError), lease:
        patched.setattr(journal.store, "append", away)
        raise ZeroDivisionError
    assert lease.lost is None
    wait_until(taken_over)


def say(process: subprocess.Popen[str]) -> Any:
    """The next thing the process says."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr.read() if process.stderr else ""
    return json.loads(line)


@pytest.mark.parametrize("taken_over", [False, True], ids=["a-nobody-else", "b-somebody-else"])
@pytest.mark.parametrize("heartbeat", [True, False], ids=["beating", "quiet"])
def test_case_09_host_sleeps_past_the_lease(
    sqlite_url: str,
    start_script: Callable[..., subprocess.Popen[str]],
    wait_until: WaitUntil,
    verify_run: Verify,
    taken_over: bool,
    heartbeat: bool,
) -> None:
    """A worker that slept past its lease never goes on under the old token."""
    sleeper = start_script(SLEEPER, sqlite_url, 1.0, heartbeat)
    assert say(sleeper) == {"token": 1, "held": True}
    sleeper.send_signal(signal.SIGSTOP)
    with open_journal(sqlite_url) as journal:
        now = journal.store.now
        wait_until(lambda: expires_at(journal) <= now())
        if taken_over:
            other = journal.ledger(owner="other").acquire("r")
            other.save_checkpoint({"by": "other"})
        assert sleeper.stdin is not None
        sleeper.stdin.write("go on\n")
        sleeper.stdin.flush()
        sleeper.send_signal(signal.SIGCONT)
        woken = say(sleeper)
        assert woken["held"] is False
        if taken_over:
            assert woken["refusal"] == ["RUN_LEASE_LOST", "taken_over"]
            assert woken["again"] == ["RUN_LEASE_HELD", "held"]
            other.complete()
            assert [e.state for e in journal.events("r") if e.topic == "run.checkpoint_saved"] == [
                {"by": "sleeper", "n": 1},
                {"by": "other"},
            ]
        else:
            assert woken["refusal"] == ["RUN_LEASE_LOST", "expired"]
            # One call, and it goes on from what was last committed, under a new token.
            assert woken["again"] == {
                "token": 2,
                "attempt": 2,
                "checkpoint": {"by": "sleeper", "n": 1},
            }
            assert topics(journal) == [
                "queued",
                "lease_granted",
                "checkpoint_saved",
                "lease_granted",
                "checkpoint_saved",
                "completed",
            ]
        verify_run(journal, "r")


@pytest.mark.parametrize("who", ["pod-0", "pod-1"])
def test_case_11_recovery_depends_on_the_lease_alone(
    journal: Journal, clock: SteppedClock, verify_run: Verify, who: str
) -> None:
    """A worker of the same name that comes back does not make its forerunner's run look owned."""
    dead = journal.ledger(owner="pod-0", lease_ttl=30, clock=clock)
    dead.acquire("r", heartbeat=False).save_checkpoint({"n": 7})
    journal.ledger(clock=clock).start("other")
    # The new pod-0 is alive, works on something else, and renews what is its own.
    reborn = journal.ledger(owner="pod-0", lease_ttl=30, clock=clock)
    other = reborn.claim(heartbeat=False)
    assert other is not None
    assert other.run_id == "other"
    contender = journal.ledger(owner=who, lease_ttl=30, clock=clock)
    clock.advance(29)
    reborn.beat_once([other])
    assert contender.claim(heartbeat=False) is None
    clock.advance(1)
    reborn.beat_once([other])
    recovered = contender.claim(heartbeat=False)
    assert recovered is not None
    assert (recovered.run_id, recovered.fencing_token, recovered.attempt) == ("r", 2, 2)
    assert recovered.checkpoint == {"n": 7}
    recovered.complete()
    verify_run(journal, "r")
