"""Others who write: processes and threads of the holder, and whom a restored store lets in."""

from __future__ import annotations

from runjournal.adapters.contract.tools import SteppedClock, refused, topics
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain.errors import RUN_CONFLICT, RUN_LEASE_LOST
from runjournal.domain.lease import RunLeaseHandle

from .watched import Meanwhile, Watched, ledger_of


def test_others_with_the_same_token(
    store: Watched, meanwhile: Meanwhile, clock: SteppedClock
) -> None:
    ledger = ledger_of(meanwhile, clock)
    lease = ledger.acquire("run")
    adopted = ledger.adopt("run", 1)
    meanwhile.before["append"] = lambda: adopted.save_checkpoint("theirs")
    record = lease.save_checkpoint("mine")
    assert record.version == 4, "decided again on what the other one wrote"
    assert topics(store.store)[2:] == ["checkpoint_saved"] * 2

    # Without end, it gives up, and nothing of it is written.
    def again() -> None:
        adopted.save_checkpoint("theirs")
        meanwhile.before["append"] = again

    meanwhile.before["append"] = again
    with refused(RUN_CONFLICT, "contended") as caught:
        lease.save_checkpoint("mine")
    assert caught.value.record == lease.record
    assert "run 'run'" in caught.value.message
    assert lease.lost is None


def test_store_that_was_rewound(clock: SteppedClock) -> None:
    for left in (None, 1):
        store = Watched(MemoryStore())
        ledger = ledger_of(store, clock)
        if left:
            ledger.start("run")
        lease = ledger.acquire("run")
        lease.save_checkpoint(1)
        store.store = MemoryStore()
        if left:
            ledger_of(store, clock).start("run")
        record = store.get("run").record
        with refused(RUN_LEASE_LOST, "rewound") as caught:
            lease.save_checkpoint(2)
        assert caught.value.record == record
        at = "at version 1" if left else "gone"
        assert f"run 'run' is {at}, behind version" in caught.value.message


def test_run_that_is_granted_again_to_the_same_ledger(store: Watched, clock: SteppedClock) -> None:
    """The older handle is lost at once: nobody has to ask the store."""
    ledger = ledger_of(store, clock)
    first = ledger.acquire("run")
    clock.advance(60)
    calls = len(store.calls)
    second = ledger.acquire("run")
    assert store.calls[calls:] == ["get", "append"]
    assert first.lost is not None
    assert (first.lost.code, first.lost.reason) == (RUN_LEASE_LOST, "taken_over")
    assert first.lost.record == second.record
    assert (second.lost, ledger.handles) == (None, [second])


def test_run_that_is_granted_again_before_the_first_reply_is_in(
    meanwhile: Meanwhile, clock: SteppedClock
) -> None:
    """As by two threads: the grant that comes last is the one that holds."""

    ledger = ledger_of(meanwhile, clock)
    later: list[RunLeaseHandle] = []

    def again() -> None:
        clock.advance(60)
        later.append(ledger.acquire("run"))

    meanwhile.after["append"] = again
    first = ledger.acquire("run")
    assert first.lost is not None
    assert first.lost.reason == "taken_over"
    assert ledger.handles == later
    assert later[0].lost is None


def test_token_that_a_restored_store_hands_out_again(clock: SteppedClock) -> None:
    store = Watched(MemoryStore())
    ledger = ledger_of(store, clock)
    first = ledger.acquire("run")
    store.store = MemoryStore()
    second = ledger.acquire("run")
    assert first.fencing_token == second.fencing_token
    assert ledger.handles == [second]
    # To somebody else, who has written more than we have: it is not ours.
    store.store = MemoryStore()
    other = ledger_of(store, clock, "w2").acquire("run")
    other.save_checkpoint(1)
    with refused(RUN_CONFLICT, "unexpected_version") as caught:
        second.save_checkpoint(2)
    assert caught.value.record == other.record
    assert "run 'run': version 2 was expected" in caught.value.message
