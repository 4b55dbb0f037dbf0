"""Cases 31 and 37: events of other releases, under other topics and in other schema versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from runjournal import Event, EventRegistry, Journal, RunStoreError, open_journal
from runjournal.adapters.codec import OrjsonCodec
from runjournal.adapters.contract.scribe import START
from runjournal.adapters.contract.tools import refused
from runjournal.domain import DELIVERY_EVENTS, RUN_EVENTS
from runjournal.domain.events import CheckpointSaved
from runjournal.domain.ports import StoredEvent

EVENTS = [*RUN_EVENTS, *DELIVERY_EVENTS]


def with_registry(journal: Journal, registry: EventRegistry) -> Journal:
    """The same store, read by code with other events."""
    return Journal(journal.store, OrjsonCodec(registry), journal.limits)


def write_a_checkpoint(journal: Journal, run_id: str) -> None:
    lease = journal.ledger(owner="w").acquire(run_id, heartbeat=False)
    lease.save_checkpoint({"n": 1})
    lease.release()


def refusal(call: Callable[[], object]) -> RunStoreError:
    with pytest.raises(RunStoreError) as caught:
        call()
    assert caught.value.code == "RUN_INTEGRITY_ERROR"
    return caught.value


def test_case_31_a_topic_that_the_code_does_not_know(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names topic, run and version; other runs are read; an alias brings it back."""
    with monkeypatch.context() as older:
        older.setattr(CheckpointSaved, "topic", "run.checkpointed")
        write_a_checkpoint(journal, "old")
    write_a_checkpoint(journal, "new")
    for call in (
        lambda: list(journal.events("old")),
        lambda: journal.get("old", version=3),
        lambda: journal.timeline("old"),
        lambda: journal.ledger(owner="w").acquire("old", heartbeat=False).checkpoint,
    ):
        error = refusal(call)
        assert error.reason == "unknown_topic"
        assert "'run.checkpointed'" in error.message
        assert "event 3 of stream 'run/old'" in error.message
    assert len(list(journal.events("new"))) == 4
    assert journal.get("new", version=3) is not None
    aliased = EventRegistry(EVENTS, aliases={"run.checkpointed": "run.checkpoint_saved"})
    reading = with_registry(journal, aliased)
    assert isinstance(list(reading.events("old"))[2], CheckpointSaved)
    assert reading.ledger(owner="w").acquire("old", heartbeat=False).checkpoint == {"n": 1}


def test_case_31_a_moved_class_changes_nothing(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No module path is stored, so none is looked up."""
    with monkeypatch.context() as older:
        older.setattr(CheckpointSaved, "__module__", "somewhere.else")
        write_a_checkpoint(journal, "r")
    stored = journal.store.read("run/r")
    assert not [e for e in stored if b"somewhere" in e.data]
    assert isinstance(list(journal.events("r"))[2], CheckpointSaved)


class Hired(Event):
    topic: ClassVar[str] = "test.hired"
    owner: str


class HiredIntoPool(Event):
    topic: ClassVar[str] = "test.hired"
    schema_version: ClassVar[int] = 2
    owner: str
    pool: str


class HiredIntoQueue(Event):
    topic: ClassVar[str] = "test.hired"
    schema_version: ClassVar[int] = 3
    owner: str
    queue: str


def pooled(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "pool": "default"}


def renamed(fields: dict[str, Any]) -> dict[str, Any]:
    return {**{k: v for k, v in fields.items() if k != "pool"}, "queue": fields["pool"]}


UPCASTERS = {("test.hired", 1): pooled, ("test.hired", 2): renamed}


def stored(event: type[Event], **fields: Any) -> StoredEvent:
    """An event as the release that had this class stored it."""
    made = event(originator_id="test/s", originator_version=1, timestamp=START, **fields)
    return StoredEvent(*OrjsonCodec(EventRegistry([event], UPCASTERS)).seal(made, "0" * 64)[:4])


OLD = [
    (stored(Hired, owner="w"), "default"),
    (stored(HiredIntoPool, owner="w", pool="gpu"), "gpu"),
    (stored(HiredIntoQueue, owner="w", queue="gpu"), "gpu"),
]


@pytest.mark.parametrize(("event", "queue"), OLD, ids=["1", "2", "3"])
def test_case_37_every_older_version_is_brought_up(event: StoredEvent, queue: str) -> None:
    codec = OrjsonCodec(EventRegistry([HiredIntoQueue], UPCASTERS))
    opened = codec.open(event)
    assert isinstance(opened, HiredIntoQueue)
    assert (opened.owner, opened.queue) == ("w", queue)


@pytest.mark.parametrize("missing", UPCASTERS)
def test_case_37_a_gap_in_the_upcasters_stops_the_start(
    missing: tuple[str, int], sqlite_url: str
) -> None:
    """Before anything is opened; and the message names the link."""
    rest = {key: upcaster for key, upcaster in UPCASTERS.items() if key != missing}
    error = refusal(
        lambda: open_journal(sqlite_url, registry=EventRegistry([*EVENTS, HiredIntoQueue], rest))
    )
    assert error.reason == "missing_upcaster"
    assert f"test.hired version {missing[1]} to {missing[1] + 1}" in error.message


def test_case_37_an_upcaster_that_fails_is_an_unreadable_event() -> None:
    def broken(fields: dict[str, Any]) -> dict[str, Any]:
        return {"queue": fields["no such field"]}

    codec = OrjsonCodec(EventRegistry([HiredIntoQueue], {**UPCASTERS, ("test.hired", 2): broken}))
    error = refusal(lambda: codec.open(OLD[1][0]))
    assert error.reason == "unreadable_event"
    assert "test.hired" in error.message


def test_case_37_a_newer_event_is_refused_whole(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not read with the fields left out that this code does not know: an upgrade is needed."""
    with monkeypatch.context() as newer:
        newer.setattr(CheckpointSaved, "schema_version", 2)
        write_a_checkpoint(journal, "r")
    error = refusal(lambda: list(journal.events("r")))
    assert error.reason == "newer_event"
    assert "run.checkpoint_saved version 2; this code reads up to 1" in error.message
    assert "upgrade" in error.hint
    assert refusal(lambda: journal.timeline("r")).reason == "newer_event"
    # The audit page is for exactly such runs, too.
    assert "this code reads up to 1" in journal.report(["r"])


def test_case_37_an_unknown_field_is_never_dropped() -> None:
    codec = OrjsonCodec(EventRegistry([Hired]))
    event = OLD[0][0]
    for data in (
        event.data.replace(b'"owner"', b'"salary":1,"owner"'),
        event.data.replace(b'"schema_version":1,', b""),
        event.data.replace(b'"schema_version":1', b'"schema_version":0'),
        event.data.replace(b'"schema_version":1', b'"schema_version":true'),
    ):
        assert data != event.data
        with refused("RUN_INTEGRITY_ERROR", "unreadable_event"):
            codec.open(event._replace(data=data))
