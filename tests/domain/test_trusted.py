"""What is built without validation equals what validation would have built."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

import orjson
import pytest
from pydantic import ValidationError
from runjournal import Journal
from runjournal.domain import (
    DELIVERY_EVENTS,
    RUN_EVENTS,
    CheckpointRef,
    CheckpointSaved,
    Event,
    EventRegistry,
    RunRecord,
)

from ..verifying.conftest import fill


def test_checkpoint_is_what_validation_would_make_of_it(journal: Journal, clock: Any) -> None:
    lease = journal.ledger(clock=clock).acquire("r", heartbeat=False)
    record = lease.save_checkpoint({"n": 1})
    assert record.checkpoint_ref is not None
    assert type(record.checkpoint_ref) is CheckpointRef
    assert CheckpointRef.model_validate(record.checkpoint_ref.__dict__) == record.checkpoint_ref
    assert RunRecord.model_validate_json(record.model_dump_json(by_alias=True)) == record
    assert journal.get("r") == record


def test_every_field_of_the_event_is_there(journal: Journal, monkeypatch: Any) -> None:
    from runjournal.domain import engine

    made: list[Any] = []
    evolve = engine.evolve
    monkeypatch.setattr(engine, "evolve", lambda r, e, h: (made.append(e), evolve(r, e, h))[1])
    journal.ledger().acquire("r", heartbeat=False).save_checkpoint({"n": 1})
    event = made[-1]
    assert type(event) is CheckpointSaved
    assert set(event.__dict__) == set(CheckpointSaved.model_fields)
    assert CheckpointSaved.model_validate(event.__dict__) == event


def test_frozen_all_the_same(journal: Journal) -> None:
    record = journal.ledger().acquire("r", heartbeat=False).save_checkpoint({"n": 1})
    for model in (record, record.checkpoint_ref, record.lease):
        field = next(iter(type(model).model_fields))
        with pytest.raises(ValidationError, match="frozen"):
            setattr(model, field, None)


def test_every_record_of_a_life_is_what_validation_would_make_of_it(journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.start("r", kind="etl", labels={"b": "1", "a": "2"}, delivery_ref="inbox", actor="ada")
    lease = ledger.acquire("r", heartbeat=False)
    lease.save_checkpoint(1)
    lease.suspend(["boss"], resume_when_decided=True)
    ledger.record_decision("r", "boss", "yes")
    ledger.restore("r", heartbeat=False).complete({"n": 1})
    for version in range(1, 8):
        record = journal.get("r", version=version)
        assert record is not None
        again = RunRecord.model_validate_json(record.model_dump_json(by_alias=True))
        assert again == record
        assert set(record.__dict__) == set(RunRecord.model_fields)


def test_revived_events_are_what_validation_would_make_of_them(journal: Journal) -> None:
    """Of every kind that the journal writes; what it cannot revive, it builds."""
    fill(journal)
    registry = EventRegistry([*RUN_EVENTS, *DELIVERY_EVENTS])
    seen = set()
    for position, event in journal.subscribe(follow=False):
        stored = journal.store.read(event.originator_id, event.originator_version - 1, 1)[0]
        fields = orjson.loads(stored.data) | {"hash": event.hash}
        revived = registry.revive(*stored[:3], fields)
        assert revived is not None, position
        assert type(revived) is type(event)
        assert revived == event
        assert revived.__dict__.keys() == event.__dict__.keys()
        seen.add(event.topic)
    assert seen >= {event.topic for event in RUN_EVENTS}


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 2},
        {"unknown": 1},
        {"originator_id": "run/other"},
        {"timestamp": "yesterday"},
        {"timestamp": None},
        {"timestamp": "2026-01-01T00:00:00"},
        {"outcome": {"code": "ok", "more": 1}},
        {"outcome": {"code": 1, "message": None}},
        {"outcome": "ok"},
        {"fencing_token": "1"},
        {"fencing_token": 1.5},
        {"fencing_token": None},
        {"actor": 5},
        {"command_digest": ["5"]},
    ],
    ids=str,
)
def test_what_does_not_fit_is_not_revived(change: dict[str, Any]) -> None:
    registry = EventRegistry(RUN_EVENTS)
    fields = {
        "schema_version": 1,
        "timestamp": "2026-01-01T00:00:00+00:00",
        "outcome": {"code": "ok", "message": None},
        "fencing_token": 1,
    }
    assert registry.revive("run/r", 1, "run.failed", dict(fields)) is not None
    assert registry.revive("run/r", 1, "run.failed", fields | change) is None
    del fields["fencing_token"]
    assert registry.revive("run/r", 1, "run.failed", fields) is None


@pytest.mark.parametrize("labels", [{"team": 1}, [], {"team": None}], ids=str)
def test_texts_within_a_field_are_looked_at(labels: Any) -> None:
    registry = EventRegistry(RUN_EVENTS)
    fields = {
        "schema_version": 1,
        "timestamp": "2026-01-01T00:00:00+00:00",
        "kind": "etl",
        "start_digest": "",
    }
    assert registry.revive("run/r", 1, "run.queued", fields | {"labels": {"team": "a"}}) is not None
    assert registry.revive("run/r", 1, "run.queued", fields | {"labels": labels}) is None
    asked = {"pending_approval_ids": ["boss"], "resume_when_decided": True}
    fields = {"schema_version": 1, "timestamp": "2026-01-01T00:00:00+00:00"} | asked
    assert registry.revive("run/r", 3, "run.suspended", dict(fields)) is not None
    assert (
        registry.revive("run/r", 3, "run.suspended", fields | {"pending_approval_ids": [1]}) is None
    )


class Odd(Event):
    topic: ClassVar[str] = "host.odd"

    amount: Decimal


def test_an_event_of_a_hosts_own_types_is_built() -> None:
    registry = EventRegistry([Odd])
    fields = {"schema_version": 1, "timestamp": "2026-01-01T00:00:00+00:00", "amount": "1.5"}
    assert registry.revive("host/r", 1, "host.odd", dict(fields)) is None
    built = registry.build("host/r", 1, "host.odd", dict(fields))
    assert isinstance(built, Odd)
    assert built.amount == Decimal("1.5")
