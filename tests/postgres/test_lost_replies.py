"""Requests and replies that are lost on the way, at each step of each command.

Never a false conflict, never a false success, and exactly one event for each command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from runjournal import Journal, RunLeaseHandle, RunLedger, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.domain.errors import RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE

from .proxy import Lost, Proxy
from .servers import Until, Watcher, row_locked

Verify = Callable[[Journal, str], None]
#: More steps than any command has: a command that has more goes round in circles.
MOST_STEPS = 20


class Act(NamedTuple):
    """A command: what there is before it, how it is given, and the one event it leaves."""

    prepare: Callable[[RunLedger, str], Any]
    do: Callable[[RunLedger, str, Any], Any]
    events: tuple[str, ...]


def held(ledger: RunLedger, run_id: str) -> RunLeaseHandle:
    ledger.start(run_id, delivery_ref="inbox")
    return ledger.acquire(run_id, heartbeat=False)


def started(ledger: RunLedger, run_id: str) -> None:
    ledger.start(run_id)


def suspended(ledger: RunLedger, run_id: str) -> None:
    held(ledger, run_id).suspend(["budget"], resume_when_decided=True)


HELD = ("queued", "lease_granted")
ACTS = {
    "start": Act(lambda _ledger, _run: None, lambda j, run, _: j.start(run), ("queued",)),
    "acquire a new run": Act(
        lambda _ledger, _run: None,
        lambda j, run, _: j.acquire(run, heartbeat=False),
        HELD,
    ),
    "acquire": Act(started, lambda j, run, _: j.acquire(run, heartbeat=False), HELD),
    "claim": Act(started, lambda j, _run, _: j.claim(heartbeat=False), HELD),
    "save_checkpoint": Act(
        held, lambda _j, _run, lease: lease.save_checkpoint({"n": 1}), (*HELD, "checkpoint_saved")
    ),
    "complete": Act(held, lambda _j, _run, lease: lease.complete({"n": 1}), (*HELD, "completed")),
    "release": Act(held, lambda _j, _run, lease: lease.release(), (*HELD, "lease_released")),
    "renew": Act(held, lambda _j, _run, lease: lease.renew(), HELD),
    "cancel": Act(held, lambda j, run, _: j.cancel(run), (*HELD, "cancelled")),
    "record_decision": Act(
        suspended,
        lambda j, run, _: j.record_decision(run, "budget", "yes"),
        (*HELD, "suspended", "approval_decided", "resume_requested"),
    ),
}


def happened(journal: Journal, run_id: str) -> tuple[str, ...]:
    return tuple(event.topic.removeprefix("run.") for event in journal.events(run_id))


@pytest.fixture
def direct(postgres_url: str) -> Iterator[Journal]:
    """The journal without a proxy."""
    with open_journal(postgres_url) as journal:
        yield journal


@pytest.fixture
def lossy(proxy: Proxy) -> Iterator[Journal]:
    """The journal through the proxy."""
    with open_journal(proxy.url) as journal:
        yield journal
        proxy.lose_nothing()


@pytest.mark.parametrize(("what", "times"), [("request", 1), ("reply", 1), ("reply", 2)])
@pytest.mark.parametrize("name", ACTS)
def test_each_step_of_each_command(
    direct: Journal,
    lossy: Journal,
    proxy: Proxy,
    watcher: Watcher,
    verify_run: Verify,
    name: str,
    what: Lost,
    times: int,
) -> None:
    """The first round trip is lost, then the second one, until all of the command's were.

    Twice: the next one is lost as well, with which it looks for what it wrote.
    """
    act = ACTS[name]
    ledger = lossy.ledger(owner="worker")
    outside = direct.ledger(owner="outside")
    for step in range(MOST_STEPS):
        run_id = f"run-{step}"
        prepared = act.prepare(ledger, run_id)
        proxy.lose(what, after=step, times=times)
        before = proxy.lost
        answer = act.do(ledger, run_id, prepared)
        proxy.lose_nothing()
        if proxy.lost == before:
            break
        assert happened(direct, run_id) == act.events
        record = direct.get(run_id)
        assert record is not None
        assert record.fencing_token == sum(e in ("lease_granted", "cancelled") for e in act.events)
        if isinstance(answer, RunLeaseHandle):
            assert (answer.run_id, answer.held) == (run_id, True)
        elif answer is not None:
            assert answer == record
        verify_run(direct, run_id)
        rows = watcher.one("SELECT count(*) FROM delivery_outbox WHERE run_id = %s", run_id)
        assert rows == (record.is_terminal and record.delivery_ref is not None)
        if not record.is_terminal:
            outside.cancel(run_id)  # so that the next claim finds the next run
    assert 0 < step < MOST_STEPS - 1
    print(f"{name}: {step} steps crossed")


@contextmanager
def write_stuck(
    direct_url: str, proxy: Proxy, watcher: Watcher, wait_until: Until, statement: str, run_id: str
) -> Iterator[Callable[[], None]]:
    """The next write waits for the run's row when its client is cut off: it may yet commit.

    Gives what lets it commit and comes back when it has.
    """
    with row_locked(direct_url, run_id) as blocker:
        proxy.lose("contact", statement)

        def let_it_commit() -> None:
            # Before it lets go: else whoever was cut off could be first in the queue again.
            wait_until(lambda: watcher.waiting() == 1)
            version = watcher.one("SELECT version FROM runs WHERE run_id = %s", run_id)
            blocker.rollback()
            wait_until(
                lambda: watcher.one("SELECT version FROM runs WHERE run_id = %s", run_id) > version
            )

        yield let_it_commit


#: The reads between which a write that was given up may still commit.
READS = ["read_stream", "get"]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(
    ("name", "statement"), [("save_checkpoint", "save_checkpoint"), ("complete", "advance")]
)
def test_holder_whose_write_commits_after_it_was_looked_for(
    direct: Journal,
    lossy: Journal,
    proxy: Proxy,
    watcher: Watcher,
    wait_until: Until,
    postgres_url: str,
    name: str,
    statement: str,
    read: str,
) -> None:
    """Cut off while the server still works on it: landing late is a success, not a conflict."""
    act = ACTS[name]
    lease = held(lossy.ledger(), "run")
    with write_stuck(postgres_url, proxy, watcher, wait_until, statement, "run") as let_it_commit:
        proxy.before(read, let_it_commit)
        record = act.do(lossy.ledger(), "run", lease)
    assert lease.lost is None
    assert record == direct.get("run")
    assert happened(direct, "run") == act.events


@pytest.mark.parametrize("name", ["acquire", "cancel", "record_decision"])
def test_command_whose_write_commits_after_it_was_looked_for(
    direct: Journal,
    lossy: Journal,
    proxy: Proxy,
    watcher: Watcher,
    wait_until: Until,
    postgres_url: str,
    name: str,
) -> None:
    act = ACTS[name]
    ledger = lossy.ledger(owner="worker")
    prepared = act.prepare(ledger, "run")
    with write_stuck(postgres_url, proxy, watcher, wait_until, "advance", "run") as let_it_commit:
        # The first "get" is the command's own, before its write.
        def look_out() -> None:
            proxy.before("get", let_it_commit)

        proxy.before("advance", look_out)
        act.do(ledger, "run", prepared)
    assert happened(direct, "run") == act.events


def test_write_that_commits_beside_its_own_repetition(
    direct: Journal,
    lossy: Journal,
    proxy: Proxy,
    watcher: Watcher,
    wait_until: Until,
    postgres_url: str,
) -> None:
    """Both wait for the row: the first one lands, and the second one finds that it has."""
    with ThreadPoolExecutor() as pool:
        for name in ("acquire", "cancel", "save_checkpoint", "complete"):
            act = ACTS[name]
            ledger = lossy.ledger(owner="worker")
            prepared = act.prepare(ledger, name)
            with row_locked(postgres_url, name):
                statement = "save_checkpoint" if name == "save_checkpoint" else "advance"
                proxy.lose("contact", statement)
                doing = pool.submit(act.do, ledger, name, prepared)
                wait_until(lambda: watcher.waiting() == 2)
            doing.result()
            assert happened(direct, name) == act.events, name


@pytest.mark.usefixtures("impatient")
def test_unknown_is_said_and_resolve_settles_it(
    direct: Journal, lossy: Journal, proxy: Proxy
) -> None:
    ledger = lossy.ledger()
    ledger.start("landed")
    ledger.start("never")
    losses: list[tuple[str, Lost]] = [("landed", "reply"), ("never", "request")]
    for run_id, what in losses:
        proxy.lose(what, "advance")
        proxy.lose("request", times=100)
        with pytest.raises(RunStoreError) as caught:
            ledger.cancel(run_id, command_id=f"cancel-{run_id}")
        # Neither a conflict nor "nothing was written": that is not known.
        assert (caught.value.code, caught.value.reason) == (RUN_OUTCOME_UNKNOWN, "reply_lost")
        assert caught.value.retryable
        proxy.lose_nothing()
    landed = ledger.resolve("cancel-landed", "landed")
    assert (landed.applied, landed.version) == (True, 2)
    never = ledger.resolve("cancel-never", "never")
    assert (never.applied, never.version) == (False, None)
    for run_id in ("landed", "never"):
        ledger.cancel(run_id, command_id=f"cancel-{run_id}")
        assert ledger.resolve(f"cancel-{run_id}", run_id).applied
        assert happened(direct, run_id) == ("queued", "cancelled")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("what", ["request", "reply"])
def test_holder_that_cannot_settle_says_unknown_and_settles_later(
    direct: Journal, lossy: Journal, proxy: Proxy, what: Lost
) -> None:
    lease = held(lossy.ledger(), "run")
    proxy.lose(what, "save_checkpoint")
    proxy.lose("request", times=100)
    with pytest.raises(RunStoreError) as caught:
        lease.save_checkpoint(1)
    assert (caught.value.code, caught.value.reason) == (RUN_OUTCOME_UNKNOWN, "reply_lost")
    assert lease.lost is None
    proxy.lose_nothing()
    lease.save_checkpoint(2)
    assert happened(direct, "run") == (*HELD, "checkpoint_saved", "checkpoint_saved")
    assert lease.checkpoint == 2


@pytest.mark.usefixtures("impatient")
def test_server_that_is_away_before_anything_was_sent(lossy: Journal, proxy: Proxy) -> None:
    """Nothing was sent, so nothing was written, and that is what is said."""
    ledger = lossy.ledger()
    proxy.down = True
    proxy.cut()
    with refused(RUN_STORE_UNAVAILABLE, "failed") as caught:
        ledger.get("run")
    assert caught.value.retryable
    with refused(RUN_STORE_UNAVAILABLE, "failed"):
        ledger.start("run")
    proxy.down = False
    assert ledger.get("run") is None
    assert ledger.start("run").version == 1
