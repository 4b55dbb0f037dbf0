"""Several processes that write under one lease: the same holder, told by its grant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import pytest

from ...domain.errors import (
    RUN_ALREADY_TERMINAL,
    RUN_CONFLICT,
    RUN_LEASE_LOST,
    RUN_NOT_FOUND,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from ...domain.lease import RunLeaseHandle
from ...domain.ports import Change, Guard, Reply, RunStore
from .between import ActsFirst, Between, LosesReplies, Rewindable
from .scribe import TTL
from .tools import SteppedClock, StoreHooks, ledger_on, race, refused, stored, topics, trace

ENDS: dict[str, Callable[[RunLeaseHandle], object]] = {
    "complete": lambda handle: handle.complete("done"),
    "fail": lambda handle: handle.fail("broken"),
    "suspend": lambda handle: handle.suspend(["approval"]),
    "release": lambda handle: handle.release(error="broken"),
    "cancel": lambda handle: handle.cancel(),
}
each_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS.keys())


class AlwaysFirst(Between):
    """Has another process of the holder write before each append under a live guard."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self.act: Callable[[], object] | None = None
        self.acted = 0

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        if self.act is not None and guard is not None and guard.lease == "live":
            self.acted += 1
            self.act()
        return super().append(changes, guard, now, patience)


class AdoptContract(StoreHooks):
    """RunLedger.adopt on the store: writes by token, and what the others then do."""

    def test_adopted_lease_writes_as_the_holder(self, store: RunStore, clock: SteppedClock) -> None:
        holder = ledger_on(store, clock).acquire("run")
        helper = ledger_on(store, clock, "helper").adopt("run", holder.fencing_token)
        assert (helper.owner, helper.fencing_token, helper.attempt) == ("worker-1", 1, 1)
        assert helper.save_checkpoint({"offset": 7}) == stored(store)
        assert helper.checkpoint == {"offset": 7}
        assert topics(store) == ["queued", "lease_granted", "checkpoint_saved"]

    @each_end
    def test_holder_ends_what_its_helper_has_moved(
        self, store: RunStore, clock: SteppedClock, end: Callable[[RunLeaseHandle], object]
    ) -> None:
        ledger = ledger_on(store, clock)
        ledger.start("run", delivery_ref="inbox")
        holder = ledger.acquire("run")
        helper = ledger_on(store, clock, "helper").adopt("run", 1)
        for offset in range(3):
            helper.save_checkpoint(offset)
        assert end(holder) == stored(store)
        assert topics(store)[2:-1] == ["checkpoint_saved"] * 3
        assert stored(store).lease is None
        before = trace(store)
        with pytest.raises(RunStoreError):
            helper.save_checkpoint("late")
        assert trace(store) == before

    def test_helpers_at_once_all_land(self, store: RunStore, clock: SteppedClock) -> None:
        holder = ledger_on(store, clock).acquire("run")
        helpers = [ledger_on(store, clock, f"helper-{n}").adopt("run", 1) for n in range(4)]
        answers = race(4, lambda n: [helpers[n].save_checkpoint([n, i]).version for i in range(3)])
        versions = [answer for answer in answers if isinstance(answer, list)]
        assert sorted(v for mine in versions for v in mine) == list(range(3, 15))
        assert all(mine == sorted(mine) for mine in versions)
        assert holder.complete().version == 15

    def test_trying_again_is_bounded(self, store: RunStore, clock: SteppedClock) -> None:
        contested = AlwaysFirst(store)
        holder = ledger_on(contested, clock).acquire("run")
        helper = ledger_on(store, clock, "helper").adopt("run", 1)
        contested.act = lambda: helper.save_checkpoint("first")
        with refused(RUN_CONFLICT, "contended") as caught:
            holder.save_checkpoint("never")
        assert caught.value.retryable
        assert contested.acted == 32
        # That is no loss: the lease is still the holder's.
        contested.act = None
        holder.save_checkpoint("now")
        assert holder.checkpoint == "now"

    @pytest.mark.parametrize("lost", ["replies", "requests"])
    def test_lost_reply_beside_a_helper_is_written_once(
        self, store: RunStore, clock: SteppedClock, lost: str
    ) -> None:
        losing = LosesReplies(store)
        holder = ledger_on(losing, clock).acquire("run")
        helper = ledger_on(store, clock, "helper").adopt("run", 1)
        setattr(losing, lost, 1)
        losing.stays_down = True
        with refused("RUN_OUTCOME_UNKNOWN", "reply_lost"):
            holder.save_checkpoint("mine")
        helper.save_checkpoint("helper's")
        losing.cut_off = False
        assert holder.complete() == stored(store)
        # A request that never arrived cannot land any more: the helper has moved the version.
        assert topics(store)[2:-1] == ["checkpoint_saved"] * (2 if lost == "replies" else 1)

    def test_request_lost_while_a_helper_writes_is_sent_again(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        losing = LosesReplies(store)
        holder = ledger_on(ActsFirst(losing, "live", lambda: act()), clock).acquire("run")
        helper = ledger_on(store, clock, "helper").adopt("run", 1)

        def act() -> None:
            losing.requests = 1
            helper.save_checkpoint("helper's")

        assert holder.save_checkpoint("mine") == stored(store)
        assert holder.checkpoint == "mine"
        assert topics(store)[2:] == ["checkpoint_saved"] * 2

    def test_takeover_fences_holder_and_helper(self, store: RunStore, clock: SteppedClock) -> None:
        def take_over() -> None:
            clock.advance(TTL)
            ledger_on(store, clock, "worker-2").acquire("run")

        holder = ledger_on(store, clock).acquire("run")
        between = ActsFirst(store, "live", take_over)
        helper = ledger_on(between, clock, "helper").adopt("run", 1)
        with refused(RUN_LEASE_LOST, "taken_over"):
            helper.save_checkpoint("late")
        with refused(RUN_LEASE_LOST, "taken_over"):
            holder.save_checkpoint("late")
        assert topics(store)[2:] == ["lease_granted"]

    def test_only_a_live_lease_is_adopted(self, store: RunStore, clock: SteppedClock) -> None:
        ledger, helper = ledger_on(store, clock), ledger_on(store, clock, "helper")
        with refused(RUN_NOT_FOUND, "run"):
            helper.adopt("run", 1)
        ledger.acquire("run").release()
        with refused(RUN_LEASE_LOST, "released"):
            helper.adopt("run", 1)
        ledger.acquire("run")
        for token in (1, 3):
            with refused(RUN_LEASE_LOST, "taken_over"):
                helper.adopt("run", token)
        clock.advance(TTL)
        with refused(RUN_LEASE_LOST, "expired"):
            helper.adopt("run", 2)
        handle = ledger.acquire("run")
        handle.complete()
        with refused(RUN_ALREADY_TERMINAL, "completed"):
            helper.adopt("run", handle.fencing_token)
        with refused(RUN_VALIDATION_ERROR, "argument"):
            helper.adopt("run", 0)

    def test_cancel_fences_the_helper(self, store: RunStore, clock: SteppedClock) -> None:
        ledger_on(store, clock).acquire("run")
        ledger = ledger_on(store, clock, "helper")
        helper = ledger.adopt("run", 1)
        ledger.cancel("run")
        with refused(RUN_LEASE_LOST, "cancelled"):
            helper.save_checkpoint("late")
        with refused(RUN_LEASE_LOST, "cancelled"):
            ledger.adopt("run", 1)

    def test_helper_lives_by_the_holders_renewals(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        holder = ledger_on(store, clock).acquire("run")
        helper = ledger_on(store, clock, "helper").adopt("run", 1)
        for _ in range(3):
            clock.advance(TTL / 2)
            holder.renew()
        assert helper.trusted_for == 0
        helper.save_checkpoint("on")
        assert 0 < helper.trusted_for <= TTL

    def test_letting_go_of_an_adopted_lease_keeps_the_run(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        holder = ledger_on(store, clock).acquire("run")
        ledger = ledger_on(store, clock, "helper")
        with ledger.adopt("run", 1) as helper:
            helper.save_checkpoint("on")
        with pytest.raises(ValueError, match="broken"), ledger.adopt("run", 1):
            raise ValueError("broken")
        ledger.release_all("the helper's journal was closed")
        assert topics(store)[2:] == ["checkpoint_saved"]
        holder.complete()

    @pytest.mark.parametrize("lost", [0, 1], ids=["", "lost"])
    @pytest.mark.parametrize("steps", [1, 3])
    def test_same_token_of_another_grant_is_a_conflict(
        self, store: RunStore, clock: SteppedClock, tmp_path: Path, steps: int, lost: int
    ) -> None:
        """A store restored without a new epoch hands the token out again: to somebody else.

        After one step the run is at the very version again that the stale holder knows. It makes no
        difference whether his late request arrives.
        """
        rewindable = Rewindable(store)
        between = LosesReplies(rewindable)
        ledger = ledger_on(between, clock)
        ledger.start("run")
        stale = ledger.acquire("run")
        stale.save_checkpoint("before")
        folder = tmp_path / "earlier"
        folder.mkdir()
        earlier = self.make_store(folder)
        rewindable.rewind(earlier, 1)
        clock.advance(1)
        holder = ledger_on(earlier, clock, "worker-2").acquire("run")
        assert holder.fencing_token == stale.fencing_token
        for step in range(steps):
            holder.save_checkpoint(step)
        before = trace(earlier)
        between.requests = lost
        with refused(RUN_CONFLICT, "unexpected_version") as first:
            stale.save_checkpoint("late")
        assert stale.lost is first.value
        assert trace(earlier) == before
        earlier.close()
