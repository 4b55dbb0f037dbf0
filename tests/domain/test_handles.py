"""A ledger and its handles: watched, renewed, released, left and lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest
from runjournal import DeploymentLimits, RunStoreError
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.contract.scribe import START, after, contract_codec
from runjournal.adapters.contract.tools import SteppedClock, refused
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain.errors import (
    RUN_LEASE_LOST,
    RUN_STORE_UNAVAILABLE,
)
from runjournal.domain.lease import RunLeaseHandle
from runjournal.domain.ports import LeaseRef, Reply

from .watched import Beats, Watched, ledger_of


def test_handles_are_watched_while_they_hold(store: Watched, clock: SteppedClock) -> None:
    beat = Beats()
    losses: list[RunStoreError] = []
    ledger = ledger_of(store, clock, beat=beat, on_loss=losses.append)
    a, b = ledger.acquire("a"), ledger.acquire("b", heartbeat=False)
    ledger.start("c")
    (c,) = ledger.claim(limit=5)
    assert beat.watched == [a, c]
    assert set(ledger.handles) == {a, b, c}
    c.stop_heartbeat()
    assert beat.watched == [a]
    a.complete()
    assert (beat.watched, set(ledger.handles)) == ([], {b, c})
    clock.advance(60)
    ledger_of(store, clock, "w2").acquire("b")
    with refused(RUN_LEASE_LOST, "taken_over"):
        b.save_checkpoint(1)
    assert ledger.handles == [c]
    assert losses == [b.lost]
    seen: list[RunStoreError] = []
    b.on_lost(seen.append)
    assert seen == [b.lost], "told at once, if it is lost already"
    assert ledger_of(store, clock, "w3").claim(heartbeat=False) is not None


def test_one_beat_renews_all(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock)
    a, b, c = (ledger.acquire(name) for name in "abc")
    clock.advance(30)
    ledger_of(store, clock).cancel("b")
    store.calls.clear()
    ledger.beat_once([a, b])
    assert store.calls == ["renew", "get"], "only who was not answered is looked for"
    assert a.trusted_for == 59.0
    assert a.record.lease is not None
    assert a.record.lease.expires_at == after(90)
    assert b.lost is not None
    assert (b.lost.reason, c.trusted_for) == ("cancelled", 29.0)
    assert set(ledger.handles) == {a, c}


def test_release_of_all(store: Watched, clock: SteppedClock) -> None:
    beat = Beats()
    ledger = ledger_of(store, clock, beat=beat)
    ledger.acquire("a")
    b = ledger.acquire("b")
    ledger_of(store, clock).cancel("b")
    ledger.acquire("c")
    ledger.release_all("shut down")
    assert (ledger.handles, beat.watched) == ([], [])
    codec = contract_codec()
    for name in "ac":
        last = codec.open(list(store.read(f"run/{name}"))[-1])
        assert (last.topic, last.reason) == ("run.lease_released", "shut down")  # type: ignore[attr-defined]
    assert b.lost is not None


def test_handles_of_a_parent_are_lost_in_its_child(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock)
    lease = ledger.acquire("run")
    adopted = ledger.adopt("run", 1)
    ledger.forked("w1-child")
    assert ledger.owner == "w1-child"
    for handle in (lease, adopted):
        assert handle.lost is not None
        assert (handle.lost.code, handle.lost.reason) == (RUN_LEASE_LOST, "forked")
        assert handle.lost.record == handle.record
        assert "run 'run' is held by the parent" in handle.lost.message
    assert ledger.handles == []


def leave(
    lease: RunLeaseHandle, raised: BaseException | None, act: Callable[[], None] | None = None
) -> None:
    with lease:
        if act is not None:
            act()
        if raised is not None:
            raise raised


@pytest.mark.parametrize(
    ("raised", "reason", "error"),
    [
        (None, "left unfinished", None),
        (ValueError("bad"), "exception", "ValueError: bad"),
        (KeyboardInterrupt(), "interrupted", None),
    ],
)
def test_leaving_the_block(
    store: Watched,
    clock: SteppedClock,
    raised: BaseException | None,
    reason: str,
    error: str | None,
) -> None:
    lease = ledger_of(store, clock).acquire("run")
    with suppress(ValueError, KeyboardInterrupt):
        leave(lease, raised)
    last: Any = contract_codec().open(store.read("run/run", 2, 1)[0])
    assert (last.topic, last.reason, last.error) == ("run.lease_released", reason, error)
    before = list(store.calls)
    with lease:
        pass
    assert store.calls == before, "there is nothing to give back"


def test_leaving_the_block_when_it_is_lost(losing: LosesReplies, clock: SteppedClock) -> None:
    beat = Beats()
    ledger = ledger_of(losing, clock, beat=beat)
    lease = ledger.acquire("a")
    with lease:
        ledger_of(losing, clock).cancel("a")
        with refused(RUN_LEASE_LOST, "cancelled"):
            lease.save_checkpoint(1)
        calls = list(losing.calls)
    assert losing.calls == calls
    # A release that fails is told, but for an error of the block itself; nothing is renewed then.
    for raised in (None, ValueError("bad")):
        lease = ledger.acquire("b")
        with pytest.raises(RunStoreError if raised is None else ValueError):
            leave(lease, raised, lambda: setattr(losing, "cut_off", True))
        losing.cut_off = False
        assert lease not in beat.watched


def test_loss_that_is_told_from_outside(store: Watched, clock: SteppedClock) -> None:
    lease = ledger_of(store, clock).acquire("run")
    first = RunStoreError(RUN_LEASE_LOST, "abandoned", "first")
    lease.lose(first)
    lease.lose(RunStoreError(RUN_LEASE_LOST, "expired", "second"))
    assert lease.lost is first
    calls = list(store.calls)
    for call in (lease.renew, lease.ensure_held, lambda: lease.save_checkpoint(1)):
        with pytest.raises(RunStoreError) as caught:
            call()
        assert caught.value is first
    assert store.calls == calls
    assert not lease.held


def test_commands_have_ids_of_their_own(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock)
    ledger.start("a")
    for lease in (ledger.acquire("a"), ledger.acquire("b")):
        lease.save_checkpoint(1)
        lease.save_checkpoint(2)
        lease.release()
    ledger.cancel("a")
    codec = contract_codec()
    events = [codec.open(e) for name in "ab" for e in store.read(f"run/{name}")]
    ids = [e.command_id for e in events]
    assert None not in ids
    # Creating and granting is one command.
    assert ids.pop(6) == ids[6]
    assert len(set(ids)) == len(ids)


def test_busy_row_is_no_loss(clock: SteppedClock) -> None:
    """Who is not in the answer is not known to be lost."""

    class Locked(Watched):
        def renew(
            self, leases: Sequence[LeaseRef], now: datetime | None = None
        ) -> dict[str, Reply]:
            return {}

    lease = ledger_of(Locked(MemoryStore()), clock).acquire("run")
    with refused(RUN_STORE_UNAVAILABLE, "busy") as caught:
        lease.renew()
    assert caught.value.record == lease.record
    assert "run 'run' was locked by others" in caught.value.message
    assert (lease.lost, lease.held) == (None, True)


def test_tokens_of_a_later_epoch_reach_what_a_holder_writes(clock: SteppedClock) -> None:
    class Epoch(Watched):
        at = 3

        @property
        def epoch(self) -> int:
            return self.at

    store = Epoch(MemoryStore())
    lease = ledger_of(store, clock).acquire("run")
    assert lease.fencing_token == 3 * 2**32 + 1
    assert lease.cancel().fencing_token == 3 * 2**32 + 2
    held = ledger_of(store, clock).acquire("other")
    store.at = 4
    assert held.cancel().fencing_token == 4 * 2**32 + 1
    ledger_of(store, clock).start("third")
    claimed = ledger_of(store, clock).claim()
    assert claimed is not None
    assert claimed.fencing_token == 4 * 2**32 + 1


def test_limits_reach_what_a_holder_writes(store: Watched, clock: SteppedClock) -> None:
    lease = ledger_of(store, clock, limits=DeploymentLimits(events_per_run=2)).acquire("run")
    with refused("RUN_LIMIT_EXCEEDED", "events_per_run"):
        lease.save_checkpoint(1)
    assert lease.complete().updated_at == START


def test_trust_ends_a_twentieth_of_the_ttl_early(store: Watched, clock: SteppedClock) -> None:
    """And one second at most: the clocks of two machines do not run alike."""
    for ttl, trusted in ((10.0, 9.5), (20.0, 19.0), (600.0, 599.0)):
        assert ledger_of(store, clock, lease_ttl=ttl).acquire(f"{ttl}").trusted_for == trusted


def test_deadline_of_a_grant_is_the_stores(store: Watched, clock: SteppedClock) -> None:
    """Where its clock was set back, the grant's stamp is ahead of it."""
    ledger = ledger_of(store, clock)
    ledger.start("run")
    clock.advance(-30)
    lease = ledger.acquire("run").record.lease
    assert lease is not None
    assert (lease.acquired_at, lease.expires_at) == (START, after(30))


def test_checkpoint_moves_the_deadline_that_is_known(store: Watched, clock: SteppedClock) -> None:
    lease = ledger_of(store, clock).acquire("run")
    clock.advance(50)
    record = lease.save_checkpoint(1)
    assert record.lease is not None
    assert (record.lease.expires_at, lease.trusted_for) == (after(110), 59.0)


def test_what_the_beat_leaves_alone(losing: LosesReplies, clock: SteppedClock) -> None:
    """A lease that was given back, and one whose write is open and will learn its fate itself."""
    ledger = ledger_of(losing, clock)
    returned, unsettled = ledger.acquire("a"), ledger.acquire("b")
    returned.release()
    losing.requests, losing.stays_down = 1, True
    with pytest.raises(RunStoreError):
        unsettled.save_checkpoint(1)
    losing.cut_off = False
    ledger_of(losing, clock).cancel("b")
    losing.calls.clear()
    returned.examine()
    unsettled.examine()
    assert losing.calls == []
    assert (returned.lost, unsettled.lost) == (None, None)


def test_the_beat_does_not_wait_for_a_write_in_flight(store: Watched, clock: SteppedClock) -> None:
    class InUse:
        def acquire(self, blocking: bool = True) -> bool:
            assert not blocking
            return False

        def release(self) -> None:
            raise AssertionError("it was not taken")

        def __enter__(self) -> None: ...

        def __exit__(self, *_args: object) -> None: ...

    lease = ledger_of(store, clock, make_lock=InUse).acquire("run")
    ledger_of(store, clock).cancel("run")
    store.calls.clear()
    lease.examine()
    assert (store.calls, lease.lost) == ([], None)


def test_limits_that_end_or_refuse_a_run_that_is_taken(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock, limits=DeploymentLimits(attempts=1))
    ledger.acquire("run")
    clock.advance(60)
    with refused("RUN_LIMIT_EXCEEDED", "attempts") as caught:
        ledger.acquire("run")
    assert caught.value.record == store.get("run").record
    assert "run 'run': attempts would be 2; the limit is 1" in caught.value.message
    # A run that is created by taking it has an input, null; one that is restored brings its own.
    ledger_of(store, clock).start("other")
    small = ledger_of(store, clock, limits=DeploymentLimits(input_bytes=3))
    with refused("RUN_LIMIT_EXCEEDED", "input_bytes") as caught:
        small.acquire("new")
    assert "run 'new': input bytes would be 4; the limit is 3" in caught.value.message
    assert small.restore("other").held
