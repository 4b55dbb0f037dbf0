"""A sender's ledger: what it asks of the store, and what becomes of its writes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pytest
from runjournal import RunStoreError
from runjournal.adapters.contract.between import Between, LosesReplies
from runjournal.adapters.contract.scribe import START, contract_codec
from runjournal.adapters.contract.tools import FreshIds, SteppedClock, deliveries_on, refused
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain.delivery import DeliveryRecord, DeliveryStatus
from runjournal.domain.delivery_ledger import DeliveryLedger
from runjournal.domain.delivery_store import DeliveryReading, DueDelivery
from runjournal.domain.errors import (
    RUN_CONFLICT,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
)
from runjournal.domain.gateway import DeliveryFailed, DeliveryRequest
from runjournal.domain.ports import Change, RunStore
from runjournal.domain.unsettled import DECIDE_TRIES, SETTLE_TRIES

from .watched import ledger_of


class Asked(Between):
    """Keeps what it was asked about deliveries, and what was written of them."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self.asked: list[Any] = []
        self.changes: list[Change] = []

    def advance_delivery(self, change: Change) -> bool:
        self.changes.append(change)
        return super().advance_delivery(change)

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        self.asked.append((status, limit, refs, now, but))
        return super().due_deliveries(status, limit, refs, now, but)

    def deliveries(self, **asked: Any) -> list[DeliveryRecord]:
        self.asked.append(asked)
        return super().deliveries(**asked)


@pytest.fixture
def store() -> Asked:
    return Asked(MemoryStore())


def requested(store: RunStore, clock: SteppedClock) -> str:
    """The id of the delivery that a run's end has asked for."""
    ledger = ledger_of(store, clock)
    ledger.start("run", delivery_ref="inbox")
    ledger.acquire("run").complete({"n": 1}, message="well done")
    (due,) = store.due_deliveries(DeliveryStatus.PENDING, 10, now=clock())
    return due.invocation_id


def history(store: RunStore, invocation_id: str) -> list[Any]:
    codec = contract_codec()
    return [codec.open(event) for event in store.read(f"delivery/{invocation_id}")]


def test_questions_are_handed_on_with_the_ledgers_clock(store: Asked, clock: SteppedClock) -> None:
    ledger = deliveries_on(store, clock)
    ledger.due(DeliveryStatus.PENDING, 7, ["inbox"], ["other"])
    ledger.attention(5, "delivery-3")
    assert store.asked == [
        (DeliveryStatus.PENDING, 7, ["inbox"], START, ["other"]),
        {"attention": True, "limit": 5, "after": "delivery-3"},
    ]
    assert ledger.now() == START


def test_without_a_clock_of_its_own_it_is_the_stores(store: Asked) -> None:
    ledger = DeliveryLedger(store, contract_codec(), FreshIds(), owner="sender", ttl=60)
    ledger.due(DeliveryStatus.PENDING, 7)
    assert store.asked == [(DeliveryStatus.PENDING, 7, None, None, ())]
    assert ledger.now() > START


def test_what_is_written_names_its_place_and_its_command(store: Asked, clock: SteppedClock) -> None:
    invocation_id = requested(store, clock)
    ledger = deliveries_on(store, clock)
    before = ledger.get(invocation_id)
    first = ledger.attempt(invocation_id)
    assert first is not None
    ledger.doubted(first.record, "no answer", definite=False, next_attempt_at=START)
    second = ledger.attempt(invocation_id)
    assert second is not None
    ledger.succeeded(second.record)
    heads = [before.head, *(change.record.head for change in store.changes[:-1])]
    assert [(c.stream, c.expected_version, c.expected_head) for c in store.changes] == [
        (f"delivery/{invocation_id}", version, head) for version, head in enumerate(heads, 1)
    ]
    ids = [event.command_id for event in history(store, invocation_id)[1:]]
    assert None not in ids
    assert len(set(ids)) == 4


def test_what_is_sent(store: Asked, clock: SteppedClock) -> None:
    """The names of its fields are what receivers read: they stay as they are."""
    claimed = deliveries_on(store, clock).attempt(requested(store, clock))
    assert claimed is not None
    assert claimed.request.as_json() == {
        "schema": "runjournal.delivery.v1",
        "invocationId": claimed.record.invocation_id,
        "runId": "run",
        "deliveryRef": "inbox",
        "kind": "default",
        "status": "completed",
        "outcome": {"code": "ok", "message": "well done"},
        "result": {"n": 1},
        "endedAt": START.isoformat(),
    }
    assert isinstance(claimed.request, DeliveryRequest)


def test_what_a_gateway_says_of_a_failure() -> None:
    failed = DeliveryFailed("503 from the receiver", retry_after=30)
    assert (str(failed), failed.retry_after) == ("503 from the receiver", 30)
    assert DeliveryFailed("x").retry_after is None


# Replies that are lost, and others who are first.


@pytest.mark.parametrize("lost", ["replies", "requests"])
def test_attempt_with_lost_replies_is_claimed_once(
    store: Asked, clock: SteppedClock, lost: str
) -> None:
    invocation_id = requested(store, clock)
    losing = LosesReplies(store)
    setattr(losing, lost, SETTLE_TRIES if lost == "requests" else 1)
    claimed = deliveries_on(losing, clock).attempt(invocation_id)
    assert claimed is not None
    assert claimed.record.attempts == 1
    topics = [event.topic for event in history(store, invocation_id)]
    assert topics == ["delivery.requested", "delivery.attempted"]


def test_whether_an_attempt_was_claimed_is_not_known(store: Asked, clock: SteppedClock) -> None:
    invocation_id = requested(store, clock)
    losing = LosesReplies(store)
    ledger = deliveries_on(losing, clock)
    losing.requests = SETTLE_TRIES + 1
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
        ledger.attempt(invocation_id)
    assert losing.requests == 0
    # Cut off after a reply was lost, it is not known either; before anything was sent, it is.
    losing.requests, losing.stays_down = 1, True
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost") as caught:
        ledger.attempt(invocation_id)
    assert f"delivery {invocation_id}: whether it was written" in caught.value.message
    losing.cut_off = False
    claimed = ledger.attempt(invocation_id)
    assert claimed is not None
    losing.cut_off = True
    with refused(RUN_STORE_UNAVAILABLE, "failed"):
        ledger.succeeded(claimed.record)
    with refused(RUN_STORE_UNAVAILABLE, "failed"):
        ledger.doubted(claimed.record, "x", definite=True, next_attempt_at=None)


class Refuses(Between):
    """Answers each write of a delivery with this; None: somebody else was first."""

    error: RunStoreError | None = None
    writes = 0

    def advance_delivery(self, change: Change) -> bool:
        self.writes += 1
        if self.error is not None:
            raise self.error
        return False


def test_write_that_is_refused_is_not_tried_again(clock: SteppedClock) -> None:
    store = Refuses(MemoryStore())
    store.error = RunStoreError(RUN_STORE_UNAVAILABLE, "failed", "the disk is full")
    with pytest.raises(RunStoreError) as caught:
        deliveries_on(store, clock).attempt(requested(store, clock))
    assert caught.value is store.error
    assert store.writes == 1


def test_others_are_first_again_and_again(clock: SteppedClock) -> None:
    store = Refuses(MemoryStore())
    invocation_id = requested(store, clock)
    with refused(RUN_CONFLICT, "contended") as caught:
        deliveries_on(store, clock).attempt(invocation_id)
    assert store.writes == DECIDE_TRIES == 32
    assert f"delivery {invocation_id}: other writers were first 32 times" in caught.value.message


def test_what_somebody_else_has_delivered_meanwhile_is_not_sent(clock: SteppedClock) -> None:
    """Between the reading that finds it due, and the one that the attempt is decided on."""

    class Meanwhile(Between):
        readings = 0

        def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
            self.readings += 1
            if self.readings == 2:
                other = deliveries_on(self.store, clock, "other")
                claimed = other.attempt(invocation_id)
                assert claimed is not None
                other.succeeded(claimed.record)
            return super().get_delivery(invocation_id, now)

    store = Meanwhile(MemoryStore())
    assert deliveries_on(store, clock).attempt(requested(store, clock)) is None
    assert store.readings == 2
