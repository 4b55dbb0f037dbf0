"""What becomes of commands whose replies are lost, on a store that loses them."""

from __future__ import annotations

import pytest
from runjournal import RunStoreError
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.contract.tools import SteppedClock, refused, topics
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain.commands import Cancel
from runjournal.domain.errors import (
    RUN_NOT_FOUND,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
)
from runjournal.domain.ledger import RunLedger
from runjournal.domain.ports import RunStore
from runjournal.domain.unsettled import SETTLE_TRIES, Unsettled

from .watched import Watched, ledger_of


def long_run(store: RunStore, clock: SteppedClock) -> RunLedger:
    """A run with ten events, which nobody holds."""
    ledger = ledger_of(store, clock)
    lease = ledger.acquire("run")
    for n in range(7):
        lease.save_checkpoint(n)
    lease.release()
    return ledger


@pytest.mark.parametrize("lost", ["replies", "requests"])
def test_grant_with_a_lost_reply(
    store: Watched, losing: LosesReplies, clock: SteppedClock, lost: str
) -> None:
    """One grant, found at its place, and trusted as long as if the reply had come."""
    long_run(store, clock)
    ledger = ledger_of(losing, clock, "w2")
    setattr(losing, lost, 1)
    store.reads.clear()
    lease = ledger.acquire("run")
    assert topics(store.store).count("lease_granted") == 2
    assert (lease.fencing_token, lease.record.version) == (2, 11)
    assert lease.trusted_for == 59.0
    assert lease.held
    assert store.reads == ([("run/run", 10, 4)] if lost == "replies" else [])


def test_operators_command_with_lost_replies(
    store: Watched, losing: LosesReplies, clock: SteppedClock
) -> None:
    long_run(store, clock)
    ledger = ledger_of(losing, clock)
    losing.requests = SETTLE_TRIES
    assert ledger.cancel("run").version == 11
    assert topics(store.store).count("cancelled") == 1
    ledger.start("other")
    losing.requests = SETTLE_TRIES + 1
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost") as caught:
        ledger.cancel("other", command_id="mine")
    assert "run 'other': whether command 'mine' was written" in caught.value.message
    # Cut off before anything was sent, it is known that nothing was written.
    losing.requests, losing.cut_off = 0, True
    with refused(RUN_STORE_UNAVAILABLE, "failed"):
        ledger.cancel("other")
    # Cut off afterwards, it is not.
    losing.cut_off, losing.stays_down, losing.requests = False, True, 1
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
        ledger.cancel("other")


def test_unsettled_write() -> None:
    command = Cancel(run_id="run", command_id="mine")
    store = MemoryStore()
    record = ledger_of(store, SteppedClock()).start("run").changed({"version": 7})
    unsettled = Unsettled(command)
    assert not unsettled.moved(record), "no write is open"
    assert [unsettled.again(record) for _ in range(4)] == [True, True, True, False]
    assert unsettled.version == 7, "where the first one was to land"
    assert not unsettled.moved(record)
    assert unsettled.moved(record.changed({"version": 8}))
    new = Unsettled(command)
    assert new.again(None)
    assert new.version == 0
    assert new.moved(record.changed({"version": 1}))
    later = record.changed({"version": 9})
    assert new.again(later)
    assert new.version == 0, "a write lands at one version only"


@pytest.mark.parametrize(
    ("opened", "error", "becomes"),
    [
        (True, RunStoreError(RUN_STORE_UNAVAILABLE, "failed", "x"), RUN_OUTCOME_UNKNOWN),
        (True, RunStoreError(RUN_OUTCOME_UNKNOWN, "reply_lost", "x"), RUN_OUTCOME_UNKNOWN),
        (True, RunStoreError(RUN_NOT_FOUND, "run", "x"), RUN_NOT_FOUND),
        (False, RunStoreError(RUN_STORE_UNAVAILABLE, "failed", "x"), RUN_STORE_UNAVAILABLE),
    ],
)
def test_a_store_that_is_away_says_nothing_of_an_open_write(
    opened: bool, error: RunStoreError, becomes: str
) -> None:
    unsettled = Unsettled(Cancel(run_id="run", command_id="mine"))
    if opened:
        unsettled.again(None)
    with pytest.raises(RunStoreError) as caught, unsettled:
        raise error
    assert caught.value.code == becomes
    if becomes == RUN_OUTCOME_UNKNOWN:
        assert "run 'run': whether command 'mine'" in caught.value.message
    with pytest.raises(ZeroDivisionError), unsettled:
        _ = 1 // 0
