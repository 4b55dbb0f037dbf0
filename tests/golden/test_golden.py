"""Every event that was ever stored can be read: one example per topic and schema version.

A file has an event as it was stored by the release that introduced it, and what the present code
makes of it. Files are never changed or taken away. A new topic or schema version needs a new
file; a new optional field needs none.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runjournal import EventRegistry, open_journal
from runjournal.adapters.codec import OrjsonCodec
from runjournal.domain import DELIVERY_EVENTS, RUN_EVENTS, Event, evolve, evolve_delivery
from runjournal.domain.audit import AUDIT_EVENTS
from runjournal.domain.ports import StoredEvent

FILES = sorted(Path(__file__).parent.glob("*.json"))
EVENTS = [*RUN_EVENTS, *DELIVERY_EVENTS, *AUDIT_EVENTS]
CODEC = OrjsonCodec(EventRegistry(EVENTS))
OPENING = {"run": "run.queued", "delivery": "delivery.requested"}
EVOLVE: dict[str, Any] = {"run": evolve, "delivery": evolve_delivery}


def example(file: Path) -> tuple[StoredEvent, dict[str, Any]]:
    document = json.loads(file.read_text(encoding="utf-8"))
    stored = document["stored"]
    data = stored["data"].encode()
    return StoredEvent(stored["stream"], stored["version"], stored["topic"], data), document[
        "event"
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_it_is_read_to_the_expected_event(file: Path) -> None:
    stored, expected = example(file)
    event = CODEC.open(stored)
    assert file.stem == f"{stored.topic}.{json.loads(stored.data)['schema_version']}"
    read = event.model_dump(mode="json")
    assert {name: read.get(name) for name in expected} == expected
    # What is new since then has its default: the old event says nothing of it.
    fields = type(event).model_fields
    added = {name: getattr(event, name) for name in read.keys() - expected.keys()}
    assert added == {n: fields[n].get_default(call_default_factory=True) for n in added}


def test_the_events_of_a_journal_are_these() -> None:
    with open_journal("memory:") as journal:
        assert journal.application.mapper._codec.registry.topics == CODEC.registry.topics  # type: ignore[attr-defined]


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.topic)
def test_every_schema_version_has_its_example(event: type[Event]) -> None:
    names = {file.stem for file in FILES}
    assert {f"{event.topic}.{n}" for n in range(1, event.schema_version + 1)} <= names


@pytest.mark.parametrize("file", [f for f in FILES if f.stem[:5] != "audit"], ids=lambda f: f.stem)
def test_it_has_a_meaning(file: Path) -> None:
    event = CODEC.open(example(file)[0])
    kind = event.topic.partition(".")[0]
    opening = CODEC.open(example(file.with_name(f"{OPENING[kind]}.1.json"))[0])
    events = [opening] if type(event) is type(opening) else [opening, event]
    record: Any = None
    for number, one in enumerate(events):
        record = EVOLVE[kind](record, one, f"head {number}")
    assert record.head == f"head {len(events) - 1}"
