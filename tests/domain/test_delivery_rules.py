"""The rules of a delivery against a model that fits in a dict: any commands, in any order."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runjournal import RunStoreError
from runjournal.adapters.contract.scribe import START
from runjournal.domain.delivering import Attempt, Doubt, Succeed, decide_delivery
from runjournal.domain.delivery import (
    DELIVERY_EVENTS,
    DeliveryAttempted,
    DeliveryRecord,
    DeliveryRequested,
    DeliverySucceeded,
    DeliveryUnknown,
    evolve_delivery,
)
from runjournal.domain.events import Event

TTL = 10.0
#: Seconds by which the clock moves before a command: also backwards, as clocks do.
steps = st.lists(
    st.tuples(
        st.sampled_from(["attempt", "succeed", "doubt"]),
        st.sampled_from([-15.0, 0.0, 1.0, TTL - 1e-6, TTL]),
        st.integers(-1, 1),  # which attempt is meant: the one before, the last one, or no such one
        st.sampled_from([None, 3.0]),  # when it is tried again
    ),
    max_size=40,
)


def requested(at: datetime = START) -> DeliveryRequested:
    return DeliveryRequested(
        originator_id="delivery/delivery-1",
        originator_version=1,
        timestamp=at,
        command_id="end",
        kind="etl",
        run_id="run",
        delivery_ref="inbox",
        terminal_version=3,
        terminal_hash="hash",
    )


def command_of(name: str, attempt: int, again: datetime | None) -> Any:
    if name == "attempt":
        return Attempt(command_id="c", owner="sender", ttl=TTL)
    if name == "succeed":
        return Succeed(command_id="c", attempt=attempt)
    return Doubt(command_id="c", attempt=attempt, error="no", definite=True, next_attempt_at=again)


@settings(max_examples=300, deadline=None)
@given(steps)
def test_any_commands_in_any_order(commands: list[tuple[str, float, int, float | None]]) -> None:
    record = evolve_delivery(None, requested(), "h1")
    model: dict[str, Any] = {"delivered": False, "attempts": 0, "until": None, "stamp": START}
    now = START
    for name, seconds, which, again in commands:
        now += timedelta(seconds=seconds)
        due = None if again is None else now + timedelta(seconds=again)
        meant = max(0, model["attempts"] + which)
        allowed = expected(model, name, meant, now)
        before = record
        with suppress(RunStoreError):
            events = decide_delivery(record, command_of(name, meant, due), now)
            assert [e.topic.removeprefix("delivery.") for e in events] == allowed
            for event in events:
                assert event.originator_version == record.version + 1
                assert event.timestamp >= record.updated_at, "stamps never run backwards"
                record = evolve_delivery(record, event, f"h{event.originator_version}")
                note(model, event)
            check(model, before, record)
            continue
        # Refused: only an attempt is, while one is under way or nobody has reported on it.
        assert name == "attempt"
        assert allowed is None
        assert record is before


def expected(model: dict[str, Any], name: str, meant: int, now: datetime) -> list[str] | None:
    """The events that the model allows; None for a refusal."""
    if model["delivered"]:
        return []
    if name == "succeed":
        return ["succeeded"]
    if name == "attempt":
        return ["attempted"] if model["until"] is None else None
    return ["unknown"] if model["until"] is not None and meant == model["attempts"] else []


def note(model: dict[str, Any], event: Event) -> None:
    model["stamp"] = event.timestamp
    model["delivered"] = model["delivered"] or isinstance(event, DeliverySucceeded)
    model["until"] = event.expires_at if isinstance(event, DeliveryAttempted) else None
    if isinstance(event, DeliveryAttempted):
        assert event.attempt == model["attempts"] + 1, "attempts grow by one"
        model["attempts"] += 1


def check(model: dict[str, Any], before: DeliveryRecord, record: DeliveryRecord) -> None:
    assert record.attempts == model["attempts"]
    assert record.updated_at == model["stamp"]
    assert (record.status == "delivered") == model["delivered"]
    assert (record.sending.expires_at if record.sending else None) == model["until"]
    assert before.status != "delivered" or record == before, "delivered is never left"
    assert record.needs_attention == (record.status == "unknown" and not record.next_attempt_at)
    if model["delivered"]:
        assert record.next_attempt_at is record.error is record.definite is record.sending is None


@pytest.mark.parametrize("now", [TTL - 1e-6, TTL])
def test_boundary_of_an_attempt(now: float) -> None:
    """Up to its end it is held; from there on nobody may try before it is on record as unknown."""
    record = evolve_delivery(None, requested(), "h1")
    (event,) = decide_delivery(record, command_of("attempt", 0, None), START)
    record = evolve_delivery(record, event, "h2")
    with pytest.raises(RunStoreError) as caught:
        decide_delivery(record, command_of("attempt", 0, None), START + timedelta(seconds=now))
    cause = (caught.value.code, caught.value.reason)
    held, unreported = ("RUN_LEASE_HELD", "held"), ("RUN_INVALID_TRANSITION", "unreported")
    assert cause == (held if now < TTL else unreported)


common = {"originator_id": "delivery/delivery-1", "originator_version": 2, "timestamp": START}
ANY_EVENT: list[Event] = [
    requested(),
    DeliveryAttempted(**common, attempt=1, owner="a", expires_at=START),
    DeliverySucceeded(**common, attempt=1),
    DeliveryUnknown(**common, attempt=1, error="no", definite=False),
]


@given(st.lists(st.sampled_from(ANY_EVENT), max_size=8))
def test_evolve_is_total_after_the_request(events: list[Event]) -> None:
    """A stored event is a fact: whatever the order, there is a row, at the event's version."""
    record = evolve_delivery(None, requested(), "h")
    for event in events:
        record = evolve_delivery(record, event, "h")
        assert record.version == event.originator_version


def test_nothing_comes_before_the_request() -> None:
    assert {type(e) for e in ANY_EVENT} == set(DELIVERY_EVENTS)
    for event in ANY_EVENT[1:]:
        with pytest.raises(ValueError, match="no meaning"):
            evolve_delivery(None, event, "h")
