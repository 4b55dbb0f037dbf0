"""What is built without validation equals what validation would have built."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from runjournal import Journal
from runjournal.domain import CheckpointRef, CheckpointSaved, RunRecord


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
