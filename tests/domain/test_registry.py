"""Which events a registry knows, and what it refuses to read."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from runjournal import RunStoreError
from runjournal.adapters.contract.scribe import Scribe, record_of
from runjournal.adapters.contract.tools import refused
from runjournal.domain import DELIVERY_EVENTS, RUN_EVENTS, EventRegistry
from runjournal.domain.errors import RUN_CONFLICT, RUN_INTEGRITY_ERROR
from runjournal.domain.events import RunFailed, RunQueued
from runjournal.domain.frozen import FrozenDict

QUEUED = {"schema_version": 1, "timestamp": "2026-01-01T00:00:00+00:00", "kind": "etl"}


def test_older_events_are_asked_for_under_the_names_they_have() -> None:
    registry = EventRegistry(
        RUN_EVENTS, aliases={"run.began": "run.queued", "run.done": "run.completed"}
    )
    assert registry.stored_topics(["run.queued", "run.failed"]) == (
        "run.queued",
        "run.failed",
        "run.began",
    )


@pytest.mark.parametrize(
    ("topic", "change", "reason", "message"),
    [
        ("run.unheard_of", {}, "unknown_topic", "has the unknown topic 'run.unheard_of'"),
        ("run.queued", {"schema_version": 9}, "newer_event", "this code reads up to 1"),
        ("run.queued", {"schema_version": 0}, "unreadable_event", "has no schema version"),
        ("run.queued", {"surprise": 1}, "unreadable_event", "(run.queued) cannot be read"),
    ],
)
def test_what_is_not_read(topic: str, change: dict[str, Any], reason: str, message: str) -> None:
    registry = EventRegistry([*RUN_EVENTS, *DELIVERY_EVENTS])
    with refused(RUN_INTEGRITY_ERROR, reason) as caught:
        registry.build("run/r", 3, topic, QUEUED | change)
    assert "event 3 of stream 'run/r'" in caught.value.message
    assert message in caught.value.message


def test_fields_that_older_code_did_not_write_have_their_defaults() -> None:
    registry = EventRegistry(RUN_EVENTS)
    stored = QUEUED | {"start_digest": ""}
    revived = registry.revive("run/r", 1, "run.queued", dict(stored))
    assert isinstance(revived, RunQueued)
    assert revived.labels == {}
    assert type(revived.labels) is FrozenDict
    assert revived == registry.build("run/r", 1, "run.queued", dict(stored))


def test_event_with_every_field_that_there_is() -> None:
    registry = EventRegistry(RUN_EVENTS)
    columns = {"originator_id", "originator_version"}
    texts = dict.fromkeys(RunFailed.model_fields.keys() - columns, "x")
    stored = texts | QUEUED | {"outcome": {"code": "bad", "message": "x"}, "fencing_token": 1}
    del stored["kind"]
    revived = registry.revive("run/r", 3, "run.failed", dict(stored))
    assert revived is not None
    assert revived == registry.build("run/r", 3, "run.failed", dict(stored))


def test_errors_and_records_travel_between_processes() -> None:
    """As multiprocessing sends them; and a copy is what it was."""
    record = record_of(Scribe().start("run", labels={"team": "a"}))
    error = RunStoreError(RUN_CONFLICT, "contended", "run 'run': others were first", record=record)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(again, RunStoreError)
        assert (again.code, again.reason, again.message) == (
            RUN_CONFLICT,
            "contended",
            "run 'run': others were first",
        )
        assert again.record == record
        assert (again.hint, again.retryable) == (error.hint, error.retryable)
    labels = pickle.loads(pickle.dumps(record)).labels
    assert (labels, type(labels)) == ({"team": "a"}, FrozenDict)
