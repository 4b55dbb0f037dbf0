"""Who may write: leases through a ledger, takeover, fencing, and the loss that latches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ...domain.errors import (
    RUN_ALREADY_TERMINAL,
    RUN_LEASE_HELD,
    RUN_LEASE_LOST,
    RunStoreError,
)
from ...domain.lease import RunLeaseHandle
from ...domain.ports import LeaseRef, RunStore
from .between import ActsFirst, Between, Rewindable
from .scribe import INSTANT, TTL, after
from .tools import SteppedClock, StoreHooks, ledger_on, race, refused, stored, topics, trace

#: Everything that a holder can write.
WRITES: dict[str, Callable[[RunLeaseHandle], object]] = {
    "save_checkpoint": lambda handle: handle.save_checkpoint("late"),
    "suspend": lambda handle: handle.suspend(["approval"]),
    "complete": lambda handle: handle.complete("late"),
    "fail": lambda handle: handle.fail("late"),
    "cancel": lambda handle: handle.cancel(),
    "release": lambda handle: handle.release(),
    "renew": lambda handle: handle.renew(),
}
each_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


class HolderContract(StoreHooks):
    """RunLedger.acquire and RunLeaseHandle on the store, with a stepped clock."""

    def test_lease_lasts_a_minute_by_default(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        handle = ledger.acquire("run")
        lease = stored(store).lease
        assert lease is not None
        assert (lease.owner, lease.acquired_at, lease.ttl) == ("worker-1", clock.now, 60.0)
        assert lease.expires_at == after(60)
        assert (ledger.lease_ttl, ledger.heartbeat_every) == (60.0, 20.0)
        assert (handle.fencing_token, handle.attempt, handle.held) == (1, 1, True)

    def test_live_foreign_lease_is_refused(self, store: RunStore, clock: SteppedClock) -> None:
        ledger_on(store, clock).acquire("run")
        clock.advance(TTL)
        clock.now -= INSTANT
        before = trace(store)
        # The contender's own, shorter ttl does not shorten the holder's lease.
        with refused(RUN_LEASE_HELD, "held") as caught:
            ledger_on(store, clock, "worker-2", lease_ttl=5).acquire("run")
        assert caught.value.record == before.record
        assert caught.value.retryable
        assert trace(store) == before

    def test_expired_lease_is_taken_over(self, store: RunStore, clock: SteppedClock) -> None:
        ledger_on(store, clock).acquire("run").save_checkpoint({"offset": 7})
        clock.advance(TTL)
        handle = ledger_on(store, clock, "worker-2").acquire("run")
        assert (handle.fencing_token, handle.attempt, handle.owner) == (2, 2, "worker-2")
        assert handle.checkpoint == {"offset": 7}
        assert b'"worker-1"' in store.read("run/run", 3)[0].data  # whom it was taken from

    def test_takeover_loses_against_a_renewal(self, store: RunStore, clock: SteppedClock) -> None:
        holder = ledger_on(store, clock).acquire("run")
        clock.advance(TTL)

        def renew() -> None:
            assert store.renew([LeaseRef("run", 1, TTL)], after(TTL - 1))

        contested = ActsFirst(store, "expired", renew)
        with refused(RUN_LEASE_HELD, "held"):
            ledger_on(contested, clock, "worker-2").acquire("run")
        holder.save_checkpoint("still mine")
        assert (stored(store).fencing_token, stored(store).attempt) == (1, 1)

    def test_takeover_race_through_ledgers(self, store: RunStore, clock: SteppedClock) -> None:
        ledger_on(store, clock).acquire("run")
        clock.advance(TTL)
        ledgers = [ledger_on(store, clock, f"contender-{n}") for n in range(6)]
        answers = race(6, lambda n: ledgers[n].acquire("run").owner)
        losers = [answer for answer in answers if isinstance(answer, RunStoreError)]
        assert [error.code for error in losers] == [RUN_LEASE_HELD] * 5
        record = stored(store)
        assert (record.fencing_token, record.attempt) == (2, 2)
        assert record.lease is not None
        assert [answer for answer in answers if isinstance(answer, str)] == [record.lease.owner]

    def test_create_race_through_ledgers(self, store: RunStore, clock: SteppedClock) -> None:
        ledgers = [ledger_on(store, clock, f"contender-{n}") for n in range(6)]
        answers = race(6, lambda n: ledgers[n].acquire("run").fencing_token)
        assert sorted(answer for answer in answers if isinstance(answer, int)) == [1]
        assert topics(store) == ["queued", "lease_granted"]

    @each_write
    def test_stale_writer_is_refused_after_takeover(
        self, store: RunStore, clock: SteppedClock, write: Callable[[RunLeaseHandle], object]
    ) -> None:
        stale = ledger_on(store, clock).acquire("run")
        clock.advance(TTL)
        holder = ledger_on(store, clock, "worker-2").acquire("run")
        before = trace(store)
        with refused(RUN_LEASE_LOST, "taken_over"):
            write(stale)
        assert trace(store) == before
        holder.save_checkpoint("on")

    @each_write
    def test_expired_lease_is_dead_for_its_holder(
        self, store: RunStore, clock: SteppedClock, write: Callable[[RunLeaseHandle], object]
    ) -> None:
        handle = ledger_on(store, clock).acquire("run")
        clock.advance(TTL)
        before = trace(store)
        assert not handle.held
        # Nobody has taken the run over, and it is refused all the same.
        with refused(RUN_LEASE_LOST, "expired"):
            write(handle)
        assert trace(store) == before
        again = ledger_on(store, clock).acquire("run")
        assert (again.fencing_token, again.attempt) == (2, 2)

    @each_write
    def test_cancel_fences_the_holder(
        self, store: RunStore, clock: SteppedClock, write: Callable[[RunLeaseHandle], object]
    ) -> None:
        handle = ledger_on(store, clock).acquire("run")
        record = ledger_on(store, clock, "operator").cancel("run", "superseded")
        assert (record.status, record.fencing_token) == ("cancelled", 2)
        before = trace(store)
        with refused(RUN_LEASE_LOST, "cancelled"):
            write(handle)
        assert trace(store) == before

    def test_first_loss_latches(self, store: RunStore, clock: SteppedClock) -> None:
        counted = Between(store)
        handle = ledger_on(counted, clock).acquire("run")
        noticed: list[RunStoreError] = []
        handle.on_lost(noticed.append)
        clock.advance(TTL)
        other = ledger_on(store, clock, "worker-2").acquire("run")
        with refused(RUN_LEASE_LOST, "taken_over") as first:
            handle.save_checkpoint("late")
        other.complete()
        del counted.calls[:]
        for write in WRITES.values():
            with pytest.raises(RunStoreError) as later:
                write(handle)
            assert later.value is first.value
        assert counted.calls == []
        assert handle.lost is first.value
        assert not handle.held
        assert noticed == [first.value]

    def test_acquiring_again_fences_the_older_handle(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        # By another ledger: the older handle is told nothing, and the store has to fence it.
        older = ledger_on(store, clock).acquire("run")
        newer = ledger_on(store, clock).acquire("run")
        # The same owner's live lease was not abandoned: the token grows, the attempt does not.
        assert (newer.fencing_token, newer.attempt) == (2, 1)
        with refused(RUN_LEASE_LOST, "taken_over"):
            older.save_checkpoint("late")
        newer.save_checkpoint("on")

    def test_renewal_keeps_the_run(self, store: RunStore, clock: SteppedClock) -> None:
        handle = ledger_on(store, clock).acquire("run")
        contender = ledger_on(store, clock, "worker-2")
        events = topics(store)
        for _ in range(20):
            clock.advance(TTL / 3)
            handle.renew()
            with refused(RUN_LEASE_HELD, "held"):
                contender.acquire("run")
        assert topics(store) == events
        assert handle.record == stored(store)

    def test_gate_asks_the_store_only_when_trust_has_run_out(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        counted = Between(store)
        handle = ledger_on(counted, clock).acquire("run")
        del counted.calls[:]
        handle.ensure_held()
        assert counted.calls == []
        # Trust ends a margin before the deadline, so that the holder stops first.
        clock.advance(TTL - 0.5)
        assert not handle.held
        handle.ensure_held()
        assert counted.calls == ["renew"]
        handle.ensure_held()
        assert counted.calls == ["renew"]
        clock.advance(TTL)
        with refused(RUN_LEASE_LOST, "expired"):
            handle.ensure_held()

    def test_release_is_picked_up_without_a_new_attempt(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(store, clock)
        first = ledger.acquire("run")
        first.save_checkpoint({"offset": 7})
        record = first.release(reason="shutdown", available_at=after(30))
        assert (record.status, record.lease, record.failures) == ("queued", None, 0)
        assert ledger.claim() is None
        # Not yet due keeps it from claims, not from one who asks for this very run.
        second = ledger.acquire("run")
        assert (second.fencing_token, second.attempt) == (2, 1)
        assert second.checkpoint == {"offset": 7}
        with refused(RUN_LEASE_LOST, "released"):
            first.save_checkpoint("late")

    def test_released_handle_writes_no_more(self, store: RunStore, clock: SteppedClock) -> None:
        handle = ledger_on(store, clock).acquire("run")
        handle.release(error="ValueError: no")
        before = trace(store)
        with refused(RUN_LEASE_LOST, "released"):
            handle.save_checkpoint("late")
        handle.release()  # there is nothing to give back any more
        assert trace(store) == before
        assert (stored(store).failures, stored(store).last_error) == (1, "ValueError: no")

    def test_block_left_unfinished_releases(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        with ledger.acquire("run"):
            pass
        with pytest.raises(ValueError, match="broken"), ledger.acquire("run"):
            raise ValueError("broken")
        record = stored(store)
        assert (record.status, record.failures) == ("queued", 1)
        with ledger.acquire("run") as handle:
            handle.complete()
        assert topics(store)[-1] == "completed"
        assert topics(store).count("lease_released") == 2

    def test_rewound_store_is_a_loss(
        self, store: RunStore, clock: SteppedClock, tmp_path: Path
    ) -> None:
        rewindable = Rewindable(store)
        handle = ledger_on(rewindable, clock).acquire("run")
        handle.save_checkpoint(1)
        handle.save_checkpoint(2)
        earlier = self.make_store(_folder(tmp_path, "earlier"))
        rewindable.rewind(earlier, 2)
        before = trace(earlier)
        with refused(RUN_LEASE_LOST, "rewound") as first:
            handle.save_checkpoint(3)
        with pytest.raises(RunStoreError) as later:
            handle.complete()
        assert later.value is first.value
        assert trace(earlier) == before
        earlier.close()

    def test_emptied_store_is_a_loss(
        self, store: RunStore, clock: SteppedClock, tmp_path: Path
    ) -> None:
        rewindable = Rewindable(store)
        handle = ledger_on(rewindable, clock).acquire("run")
        empty = self.make_store(_folder(tmp_path, "empty"))
        rewindable.rewind(empty, 0)
        with refused(RUN_LEASE_LOST, "rewound"):
            handle.renew()
        empty.close()

    def test_ended_run_is_no_loss_of_the_lease(self, store: RunStore, clock: SteppedClock) -> None:
        handle = ledger_on(store, clock).acquire("run")
        handle.complete({"rows": 12})
        with refused(RUN_ALREADY_TERMINAL, "completed"):
            handle.renew()
        assert handle.lost is None


def _folder(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / name
    folder.mkdir()
    return folder
