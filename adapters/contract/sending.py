"""Sending: one sender at a time, and what became of each attempt is on record."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ...domain.delivery import DeliveryRecord, DeliveryStatus, delivery_stream
from ...domain.errors import (
    RUN_INVALID_TRANSITION,
    RUN_LEASE_HELD,
    RUN_NOT_FOUND,
    RUN_OUTCOME_UNKNOWN,
)
from ...domain.ports import RunStore
from .between import LosesReplies
from .deliveries import attempt, folded, kept, put_delivery
from .lost_replies import each_loss
from .scribe import START, TTL, Scribe, after
from .tools import SteppedClock, StoreHooks, deliveries_on, ledger_on, refused


class SendingContract(StoreHooks):
    """DeliveryLedger on top of the port."""

    @pytest.fixture
    def invocation_id(self, store: RunStore, scribe: Scribe) -> str:
        return put_delivery(store, scribe).invocation_id

    def test_what_is_sent_is_the_end_of_the_run(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        ledger.start("run", kind="etl", delivery_ref="inbox")
        ledger.acquire("run").complete({"rows": 12}, message="all of them")
        (found,) = store.due_deliveries(DeliveryStatus.PENDING, 10, now=START)
        claimed = deliveries_on(store, clock).attempt(found.invocation_id)
        assert claimed is not None
        request = claimed.request
        assert (request.invocation_id, request.run_id) == (found.invocation_id, "run")
        assert (request.delivery_ref, request.kind) == ("inbox", "etl")
        assert (request.status, request.code, request.message) == ("completed", "ok", "all of them")
        assert (request.result, request.ended_at) == ({"rows": 12}, START)

    def test_nobody_else_sends_while_one_does(
        self, store: RunStore, clock: SteppedClock, invocation_id: str
    ) -> None:
        one, other = deliveries_on(store, clock), deliveries_on(store, clock, "sender-2")
        claimed = one.attempt(invocation_id)
        assert claimed is not None
        assert claimed.record.attempts == 1
        assert other.attempt(invocation_id) is None
        one.succeeded(claimed.record)
        assert other.attempt(invocation_id) is None
        assert kept(store, invocation_id).status == "delivered"

    def test_unreported_attempt_is_unknown_before_it_is_repeated(
        self, store: RunStore, scribe: Scribe, clock: SteppedClock, invocation_id: str
    ) -> None:
        dead, other = deliveries_on(store, clock), deliveries_on(store, clock, "sender-2")
        assert dead.attempt(invocation_id) is not None
        clock.advance(TTL - 1)
        assert other.expire(invocation_id, lambda _: None).sending is not None
        clock.advance(1)
        with refused(RUN_INVALID_TRANSITION, "unreported"):
            other.attempt(invocation_id)
        record = other.expire(invocation_id, lambda _: None)
        assert (record.status, record.definite, record.sending) == ("unknown", False, None)
        assert record.needs_attention
        assert "sender-1" in str(record.error)
        again = other.attempt(invocation_id)
        assert again is not None
        assert (again.record.attempts, again.record.invocation_id) == (2, invocation_id)
        assert kept(store, invocation_id) == folded(store, scribe, invocation_id)

    def test_late_success_is_a_success(
        self, store: RunStore, clock: SteppedClock, invocation_id: str
    ) -> None:
        """The sender was given up, and then says that the receiver has it: it has."""
        late, other = deliveries_on(store, clock), deliveries_on(store, clock, "sender-2")
        claimed = late.attempt(invocation_id)
        assert claimed is not None
        clock.advance(TTL)
        other.expire(invocation_id, lambda _: None)
        assert late.succeeded(claimed.record).status == "delivered"
        assert other.attempt(invocation_id) is None

    def test_late_failure_of_an_old_attempt_changes_nothing(
        self, store: RunStore, clock: SteppedClock, invocation_id: str
    ) -> None:
        late, other = deliveries_on(store, clock), deliveries_on(store, clock, "sender-2")
        claimed = late.attempt(invocation_id)
        assert claimed is not None
        clock.advance(TTL)
        other.expire(invocation_id, lambda _: None)
        again = other.attempt(invocation_id)
        assert again is not None
        record = late.doubted(claimed.record, "late", definite=True, next_attempt_at=None)
        assert record == again.record
        other.succeeded(again.record)
        assert (
            late.doubted(claimed.record, "late", definite=True, next_attempt_at=None).error is None
        )

    def test_trying_since_begins_anew_when_somebody_asked(
        self, store: RunStore, clock: SteppedClock, invocation_id: str
    ) -> None:
        ledger = deliveries_on(store, clock)
        seen = []
        for again in (timedelta(seconds=5), None, None):
            claimed = ledger.attempt(invocation_id)
            assert claimed is not None
            seen.append(claimed.record.trying_since)
            at = None if again is None else clock.now + again
            ledger.doubted(claimed.record, "no", definite=True, next_attempt_at=at)
            clock.advance(10)
        assert seen == [START, START, after(20)]

    @each_loss
    @pytest.mark.parametrize("times", [1, 2])
    def test_attempt_and_report_whose_reply_is_lost_are_written_once(
        self,
        store: RunStore,
        clock: SteppedClock,
        invocation_id: str,
        lost: str,
        times: int,
    ) -> None:
        losing = LosesReplies(store)
        ledger = deliveries_on(losing, clock)
        setattr(losing, lost, times)
        claimed = ledger.attempt(invocation_id)
        assert claimed is not None
        setattr(losing, lost, times)
        assert ledger.succeeded(claimed.record).status == "delivered"
        topics = [e.topic for e in store.read(delivery_stream(invocation_id))]
        assert topics == ["delivery.requested", "delivery.attempted", "delivery.succeeded"]

    def test_claim_that_was_given_up_while_its_reply_was_lost_is_not_ours(
        self, store: RunStore, clock: SteppedClock, invocation_id: str
    ) -> None:
        """Long after the claim landed its sender learns of it: another one is at work by then."""
        losing = LosesReplies(store)
        slow, other = deliveries_on(losing, clock), deliveries_on(store, clock, "sender-2")
        losing.replies, losing.stays_down = 1, True
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
            slow.attempt(invocation_id, command_id="claim")
        losing.cut_off = False
        clock.advance(TTL)
        with refused(RUN_INVALID_TRANSITION, "unreported"):
            slow.attempt(invocation_id, command_id="claim", again=True)
        other.expire(invocation_id, lambda _: None)
        theirs = other.attempt(invocation_id)
        assert theirs is not None
        assert slow.attempt(invocation_id, command_id="claim", again=True) is None
        assert kept(store, invocation_id) == theirs.record

    def test_claim_whose_reply_was_lost_is_ours_when_asked_again(
        self, store: RunStore, clock: SteppedClock, invocation_id: str
    ) -> None:
        losing = LosesReplies(store)
        ledger = deliveries_on(losing, clock)
        losing.replies, losing.stays_down = 1, True
        with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
            ledger.attempt(invocation_id, command_id="claim")
        losing.cut_off = False
        clock.advance(TTL - 1)
        claimed = ledger.attempt(invocation_id, command_id="claim", again=True)
        assert claimed is not None
        assert (claimed.record.attempts, claimed.record.version) == (1, 2)

    def test_unknown_invocation_id_is_refused(self, store: RunStore, clock: SteppedClock) -> None:
        with refused(RUN_NOT_FOUND, "delivery"):
            deliveries_on(store, clock).attempt("delivery-none")

    def test_error_that_tells_who_is_sending(self, store: RunStore, scribe: Scribe) -> None:
        record = put_delivery(store, scribe)
        sending = scribe.delivery(record, attempt(scribe), START).record
        assert isinstance(sending, DeliveryRecord)
        with refused(RUN_LEASE_HELD, "held") as caught:
            scribe.delivery(sending, attempt(scribe, owner="sender-2"), START)
        assert "'sender-1'" in caught.value.message
