"""What becomes of commands whose replies are lost, on a store that loses them."""

from __future__ import annotations

import pytest
from runjournal import RunStoreError
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.contract.scribe import after, contract_codec
from runjournal.adapters.contract.tools import SteppedClock, refused, topics
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain.commands import Cancel
from runjournal.domain.errors import (
    RUN_LEASE_LOST,
    RUN_NOT_FOUND,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
)
from runjournal.domain.ledger import RunLedger
from runjournal.domain.ports import Guard, RunStore, StoredEvent
from runjournal.domain.tombstone import run_tombstone
from runjournal.domain.unsettled import SETTLE_TRIES, Unsettled

from .watched import Beats, Buried, Meanwhile, Watched, ledger_of


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


# What a holder writes.


@pytest.mark.parametrize("lands", ["before", "in between", "at the second try"])
def test_checkpoint_that_landed_is_saved_however_late_it_is_learnt(
    store: Watched, meanwhile: Meanwhile, clock: SteppedClock, lands: str
) -> None:
    """The lease has run out when the answer comes; what was written under it stands."""
    sent = Watched(meanwhile)
    ledger = ledger_of(sent, clock)
    lease = ledger.acquire("run")

    def expire() -> None:
        clock.advance(100)

    def land() -> None:
        changes, guard, _ = sent.appends[-1]
        assert store.append(changes, guard, clock()) is not None
        meanwhile.before["read"] = expire

    if lands == "before":
        meanwhile.replies, meanwhile.before["read"] = 1, expire
    else:
        meanwhile.requests = 1
        if lands == "in between":
            meanwhile.before["get"] = land
        else:
            meanwhile.after["append"] = expire
    store.reads.clear()
    assert lease.save_checkpoint(1).version == 3
    assert topics(store.store).count("checkpoint_saved") == 1
    assert set(store.reads) == {("run/run", 2, 4)}, "looked for where it was to land"
    assert ledger.handles == [lease]


def test_second_try_has_the_guard_of_the_first(
    store: Watched, meanwhile: Meanwhile, clock: SteppedClock
) -> None:
    """A holder whose lease has run out meanwhile writes nothing; whether it has, is not known."""
    lease = ledger_of(meanwhile, clock).acquire("run")
    meanwhile.requests, meanwhile.before["read"] = 1, lambda: clock.advance(60)
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost") as caught:
        lease.save_checkpoint(1)
    (change,), guard, _ = store.appends[-1]
    assert guard == Guard(1, "live")
    codec = contract_codec()
    command = codec.open(StoredEvent(*change.events[0][:4])).command_id
    assert f"run 'run': whether command '{command}' was written" in caught.value.message
    assert "checkpoint_saved" not in topics(store.store)
    # Somebody takes it over: now it is known.
    ledger_of(store, clock, "w2").acquire("run")
    with refused(RUN_LEASE_LOST, "taken_over"):
        lease.save_checkpoint(2)
    assert "checkpoint_saved" not in topics(store.store)


@pytest.mark.parametrize("lost", ["replies", "requests"])
def test_end_with_a_lost_reply(losing: LosesReplies, clock: SteppedClock, lost: str) -> None:
    """The handle is done with, and watched no more."""
    beat = Beats()
    ledger = ledger_of(losing, clock, beat=beat)
    lease, other = ledger.acquire("a"), ledger.acquire("b")
    setattr(losing, lost, 1)
    lease.complete()
    assert (ledger.handles, beat.watched) == ([other], [other])
    setattr(losing, lost, 1)
    other.save_checkpoint(1)
    assert (ledger.handles, beat.watched) == ([other], [other])


def test_end_with_a_lost_reply_whose_run_was_pruned(
    store: Watched, meanwhile: Meanwhile, clock: SteppedClock
) -> None:
    """Its events are gone; what is left of it knows the command."""
    ledger = ledger_of(meanwhile, clock)
    lease = ledger.acquire("run")
    buried = Buried(MemoryStore())

    def prune() -> None:
        record = store.get("run").record
        assert record is not None
        last = contract_codec().open(store.read("run/run", 2, 1)[0])
        buried.left = run_tombstone(record, last, 1, after(9)).record
        meanwhile.store = buried

    meanwhile.replies, meanwhile.before["read"] = 1, prune
    assert lease.complete() == buried.left
    assert (ledger.handles, lease.lost) == ([], None)
    calls = list(buried.calls)
    assert lease.complete() == buried.left
    assert buried.calls == calls, "there is nothing left to find out"


def test_run_that_is_gone_when_the_reply_is_looked_for(
    meanwhile: Meanwhile, clock: SteppedClock
) -> None:
    lease = ledger_of(meanwhile, clock).acquire("run")
    meanwhile.requests = 1
    meanwhile.before["read"] = lambda: setattr(meanwhile, "store", MemoryStore())
    with refused(RUN_LEASE_LOST, "rewound"):
        lease.save_checkpoint(1)
    assert lease.lost is not None


def test_write_stays_open_until_its_fate_is_known(
    store: Watched, meanwhile: Meanwhile, clock: SteppedClock
) -> None:
    """Another process of the holder was first, and then the store was away for a while."""
    ledger = ledger_of(meanwhile, clock)
    lease = ledger.acquire("run")
    adopted = ledger_of(store, clock).adopt("run", 1)

    def others() -> None:
        adopted.save_checkpoint("theirs")
        meanwhile.before["read"] = lambda: meanwhile.before.update(get=cut_off)

    def cut_off() -> None:
        meanwhile.cut_off = True

    meanwhile.requests, meanwhile.before["get"] = 1, others
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
        lease.complete()
    assert lease.trusted_for == 0.0, "it may have given the lease back"
    meanwhile.cut_off = False
    assert lease.save_checkpoint("mine").version == 4
    assert topics(store.store)[2:] == ["checkpoint_saved"] * 2
