"""A lost reply is neither a failure nor a conflict: what was written is found, once."""

from __future__ import annotations

import pytest

from ...domain.errors import (
    RUN_LEASE_LOST,
    RUN_OUTCOME_UNKNOWN,
    RunStoreError,
)
from ...domain.lease import RunLeaseHandle
from ...domain.ports import RunStore
from .between import LosesReplies
from .scribe import TTL
from .tools import SteppedClock, StoreHooks, ledger_on, refused, stored, topics

each_loss = pytest.mark.parametrize("lost", ["replies", "requests"])


class LostReplyContract(StoreHooks):
    """Commits whose reply is lost, and requests that never arrive, around the store."""

    @pytest.fixture
    def losing(self, store: RunStore) -> LosesReplies:
        return LosesReplies(store)

    @pytest.fixture
    def handle(self, losing: LosesReplies, clock: SteppedClock) -> RunLeaseHandle:
        ledger = ledger_on(losing, clock)
        ledger.start("run", delivery_ref="inbox")
        return ledger.acquire("run")

    @each_loss
    @pytest.mark.parametrize("times", [1, 2])
    def test_checkpoint_is_written_exactly_once(
        self, store: RunStore, losing: LosesReplies, handle: RunLeaseHandle, lost: str, times: int
    ) -> None:
        setattr(losing, lost, times)
        record = handle.save_checkpoint({"offset": 7})
        assert record == stored(store)
        assert handle.checkpoint == {"offset": 7}
        handle.save_checkpoint({"offset": 8})
        assert topics(store) == ["queued", "lease_granted", "checkpoint_saved", "checkpoint_saved"]

    @each_loss
    def test_completion_is_written_exactly_once(
        self, store: RunStore, losing: LosesReplies, handle: RunLeaseHandle, lost: str
    ) -> None:
        setattr(losing, lost, 1)
        record = handle.complete({"rows": 12})
        assert record == stored(store)
        assert record.status == "completed"
        assert not handle.held
        assert topics(store) == ["queued", "lease_granted", "completed"]

    def test_checkpoint_that_landed_counts_though_the_run_was_taken_over(
        self, store: RunStore, losing: LosesReplies, handle: RunLeaseHandle, clock: SteppedClock
    ) -> None:
        losing.replies, losing.stays_down = 1, True
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
            handle.save_checkpoint("mine")
        clock.advance(TTL)
        successor = ledger_on(store, clock, "worker-2").acquire("run")
        losing.cut_off = False
        assert successor.checkpoint == "mine"
        with refused(RUN_LEASE_LOST, "taken_over"):
            handle.save_checkpoint("late")
        assert topics(store).count("checkpoint_saved") == 1

    def test_checkpoint_that_never_arrived_is_lost_with_the_lease(
        self, store: RunStore, losing: LosesReplies, handle: RunLeaseHandle, clock: SteppedClock
    ) -> None:
        losing.requests, losing.stays_down = 1, True
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
            handle.save_checkpoint("never")
        clock.advance(TTL)
        successor = ledger_on(store, clock, "worker-2").acquire("run")
        losing.cut_off = False
        with refused(RUN_LEASE_LOST, "taken_over"):
            handle.save_checkpoint("late")
        assert successor.checkpoint is None

    @each_loss
    def test_open_write_is_settled_before_the_next_one(
        self, store: RunStore, losing: LosesReplies, handle: RunLeaseHandle, lost: str
    ) -> None:
        setattr(losing, lost, 1)
        losing.stays_down = True
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
            handle.save_checkpoint(1)
        losing.cut_off = False
        assert handle.lost is None
        handle.save_checkpoint(2)
        assert topics(store)[2:] == ["checkpoint_saved"] * 2
        assert handle.checkpoint == 2

    @each_loss
    def test_lease_that_may_have_been_given_back_is_not_trusted(
        self,
        store: RunStore,
        losing: LosesReplies,
        handle: RunLeaseHandle,
        clock: SteppedClock,
        lost: str,
    ) -> None:
        setattr(losing, lost, 1)
        losing.stays_down = True
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
            handle.release()
        assert not handle.held
        losing.cut_off = False
        if lost == "replies":
            assert ledger_on(store, clock, "worker-2").acquire("run").held
        # The gate before the next step first finds out what became of the release.
        with refused(RUN_LEASE_LOST, "released"):
            handle.ensure_held()
        assert topics(store).count("lease_released") == 1

    def test_what_stays_open_is_reported_as_unknown(
        self, store: RunStore, losing: LosesReplies, handle: RunLeaseHandle
    ) -> None:
        losing.requests = 100
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
            handle.save_checkpoint(1)
        losing.requests = 0
        handle.save_checkpoint(2)
        assert topics(store)[2:] == ["checkpoint_saved"] * 2

    def test_operator_command_that_landed_is_found(
        self, store: RunStore, losing: LosesReplies, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(losing, clock)
        losing.replies = 1
        assert ledger.start("run", input=1).version == 1
        ledger_on(store, clock).acquire("run").suspend(["budget"])
        losing.replies = 1
        assert ledger.record_decision("run", "budget", "yes").approvals == {"budget": "yes"}
        losing.replies = 1
        assert ledger.request_resume("run").status == "queued"
        losing.replies = 1
        assert ledger.cancel("run").status == "cancelled"
        expected = ["queued", "lease_granted", "suspended"]
        assert topics(store) == [*expected, "approval_decided", "resume_requested", "cancelled"]

    def test_operator_command_that_never_arrived_is_sent_again(
        self, store: RunStore, losing: LosesReplies, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(losing, clock)
        ledger.start("run")
        losing.requests = 1
        # Sent again at the same version and under the same id: it lands once, whichever arrives.
        assert ledger.cancel("run", command_id="cancel-1").version == 2
        assert topics(store) == ["queued", "cancelled"]

    def test_operator_command_that_keeps_getting_lost_can_be_repeated(
        self, store: RunStore, losing: LosesReplies, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(losing, clock)
        ledger.start("run")
        losing.requests = 10
        # Not there proves nothing while the old request may still arrive: so it is said.
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost") as caught:
            ledger.cancel("run", command_id="cancel-1")
        assert caught.value.retryable
        assert not ledger.resolve("cancel-1", "run").applied
        losing.requests = 0
        ledger.cancel("run", command_id="cancel-1")
        outcome = ledger.resolve("cancel-1", "run")
        assert (outcome.applied, outcome.version) == (True, 2)
        assert outcome.record == stored(store)
        assert topics(store) == ["queued", "cancelled"]

    def test_old_commands_are_still_resolved(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        ledger.acquire("run").suspend()
        for n in range(40):
            ledger.request_resume("run", command_id=f"resume-{n}")
            ledger.acquire("run").suspend()
        # The record remembers the last commands only; the stream remembers all of them.
        assert ledger.resolve("resume-0", "run").version == 4
        assert ledger.resolve("resume-39", "run").version == 4 + 39 * 3
        assert not ledger.resolve("resume-40", "run").applied

    def test_grant_whose_reply_was_lost_ends_in_one_holder(
        self, store: RunStore, losing: LosesReplies, clock: SteppedClock
    ) -> None:
        losing.replies = 1
        handle = ledger_on(losing, clock).acquire("run")
        record = stored(store)
        assert record.lease is not None
        assert (record.fencing_token, record.lease.owner) == (handle.fencing_token, "worker-1")
        assert record.attempt == handle.attempt == 1
        handle.save_checkpoint("mine")

    def test_claim_whose_reply_was_lost_comes_back_by_expiry(
        self, store: RunStore, losing: LosesReplies, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(losing, clock)
        ledger.start("run")
        losing.replies = 1
        try:
            found = ledger.claim()
        except RunStoreError as error:
            assert error.code == RUN_OUTCOME_UNKNOWN  # noqa: PT017 - both answers are right
            found = None
        if found is None:
            clock.advance(TTL)
            found = ledger_on(store, clock, "worker-2").claim()
        assert found is not None
        found.complete()
        assert topics(store)[-1] == "completed"
