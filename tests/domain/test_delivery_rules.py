"""The rules of a delivery against a model that fits in a dict: any commands, in any order."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runjournal import RunStoreError
from runjournal.adapters.contract.scribe import START, Scribe, record_of
from runjournal.domain.delivering import Attempt, Doubt, Succeed, decide_delivery
from runjournal.domain.delivery import (
    DELIVERY_EVENTS,
    DeliveryAttempted,
    DeliveryRecord,
    DeliveryRequested,
    DeliverySucceeded,
    DeliveryUnknown,
    delivery_invocation_id,
    evolve_delivery,
    request_delivery,
)
from runjournal.domain.events import Event, Outcome, RunCancelled
from runjournal.domain.run import evolve

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


def fields(event: Event) -> dict[str, Any]:
    return {"topic": event.topic} | {k: v for k, v in dict(event).items() if v not in (None, "")}


def test_what_is_written_and_what_the_row_says_then() -> None:
    """Every event and every row in full: a field that comes from the wrong place shows."""
    who = {"command_id": "c", "actor": "boss"}
    again = START + timedelta(seconds=99)

    def event(topic: str, version: int, seconds: float, **others: Any) -> dict[str, Any]:
        place = {"topic": f"delivery.{topic}", "originator_id": "delivery/delivery-1"}
        stamp = {"originator_version": version, "timestamp": START + timedelta(seconds=seconds)}
        return who | place | stamp | others

    def step(record: DeliveryRecord, command: Any, seconds: float) -> tuple[Any, DeliveryRecord]:
        (made,) = decide_delivery(record, command, START + timedelta(seconds=seconds))
        return fields(made), evolve_delivery(record, made, f"h{made.originator_version}")

    def moved(before: DeliveryRecord, now: DeliveryRecord) -> dict[str, Any]:
        return {k: v for k, v in dict(now).items() if v != dict(before)[k]}

    first = evolve_delivery(None, requested(), "h1")
    assert dict(first) == {
        "invocation_id": "delivery-1",
        "run_id": "run",
        "kind": "etl",
        "delivery_ref": "inbox",
        "terminal_version": 3,
        "terminal_hash": "hash",
        "status": "pending",
        "version": 1,
        "attempts": 0,
        "sending": None,
        "trying_since": None,
        "next_attempt_at": START,
        "error": None,
        "definite": None,
        "created_at": START,
        "updated_at": START,
        "head": "h1",
    }
    written, sent = step(first, Attempt(**who, owner="s", ttl=TTL), 1)
    end = START + timedelta(seconds=11)
    assert written == event("attempted", 2, 1, attempt=1, owner="s", expires_at=end)
    assert moved(first, sent) == {
        "version": 2,
        "head": "h2",
        "updated_at": START + timedelta(seconds=1),
        "attempts": 1,
        "sending": sent.sending,
        "trying_since": START + timedelta(seconds=1),
        "next_attempt_at": end,
    }
    assert sent.sending is not None
    started = START + timedelta(seconds=1)
    assert dict(sent.sending) == {"owner": "s", "started_at": started, "expires_at": end}
    # A clock that was put back: the stamp and the end of the attempt are from the last stamp on.
    (late,) = decide_delivery(first, Attempt(**who, owner="s", ttl=TTL), START - timedelta(9))
    assert (late.timestamp, late.expires_at) == (START, START + timedelta(seconds=TTL))  # type: ignore[attr-defined]

    doubt = Doubt(**who, attempt=1, error="no", definite=True, next_attempt_at=again)
    written, doubted = step(sent, doubt, 2)
    assert written == event(
        "unknown", 3, 2, attempt=1, error="no", definite=True, next_attempt_at=again
    )
    assert moved(sent, doubted) == {
        "version": 3,
        "head": "h3",
        "updated_at": START + timedelta(seconds=2),
        "status": "unknown",
        "sending": None,
        "next_attempt_at": again,
        "error": "no",
        "definite": True,
    }
    # Tried again by itself, it has been tried since the first time.
    _, second = step(doubted, Attempt(**who, owner="s", ttl=TTL), 3)
    assert (second.attempts, second.trying_since) == (2, started)
    # Tried again since somebody asked for it, it begins anew.
    asked = Doubt(**who, attempt=2, error="no", definite=False, next_attempt_at=None)
    _, waiting = step(second, asked, 4)
    assert (waiting.definite, waiting.next_attempt_at, waiting.needs_attention) == (
        False,
        None,
        True,
    )
    _, third = step(waiting, Attempt(**who, owner="s", ttl=TTL), 5)
    assert (third.attempts, third.trying_since) == (3, START + timedelta(seconds=5))

    written, delivered = step(third, Succeed(**who, attempt=3), 6)
    assert written == event("succeeded", 7, 6, attempt=3)
    assert moved(third, delivered) == {
        "version": 7,
        "head": "h7",
        "updated_at": START + timedelta(seconds=6),
        "status": "delivered",
        "sending": None,
        "next_attempt_at": None,
        "error": None,
        "definite": None,
    }


def test_what_a_runs_end_asks_for() -> None:
    started = record_of(Scribe().start("run", delivery_ref="inbox", kind="etl"))
    end = RunCancelled(
        originator_id="run/run",
        originator_version=2,
        timestamp=START + timedelta(seconds=5),
        actor="boss",
        command_id="c",
        outcome=Outcome(code="cancelled"),
        fencing_token=1,
    )
    ended = evolve(started, end, "head")
    event = request_delivery(ended, end)
    assert event is not None
    invocation_id = delivery_invocation_id("run", "inbox")
    assert fields(event) == {
        "topic": "delivery.requested",
        "originator_id": f"delivery/{invocation_id}",
        "originator_version": 1,
        "timestamp": START + timedelta(seconds=5),
        "actor": "boss",
        "command_id": "c",
        "causation_id": "c",
        "run_id": "run",
        "kind": "etl",
        "delivery_ref": "inbox",
        "terminal_version": 2,
        "terminal_hash": "head",
    }
    assert request_delivery(started, end) is None, "it has not ended"
    assert request_delivery(ended.changed({"delivery_ref": None}), end) is None, "nobody waits"
