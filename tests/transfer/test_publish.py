"""publish: a whole stream at once, or nothing, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from eventsourcing.persistence import StoredEvent as LibraryEvent
from runjournal import DeliveryStatus, Journal, open_journal
from runjournal.adapters.transfer.source import Source
from runjournal.domain.history_store import Publication
from runjournal.domain.ports import StoredEvent

from .conftest import content, fill_all


@pytest.fixture
def ready() -> dict[str, Publication]:
    """Publications of streams that are new, by name."""
    with open_journal("memory:") as source:
        fill_all(source)
        store: Any = source.store
        units = Source(store, source._codec, lambda _n: None).units(None)
        strands = [strand for unit in units for strand in unit]
    return {
        s.stream.name: Publication(s.stream.name, 0, lambda s=s: s.events(0), s.stream.record)
        for s in strands
    }


def publish(journal: Journal, *publications: Publication) -> bool:
    store: Any = journal.store
    return bool(store.publish(publications))


def test_all_at_once(journal: Journal, ready: dict[str, Publication]) -> None:
    assert publish(journal, *ready.values())
    assert journal.verify().findings == []
    # Once is enough: every guard is lost now.
    before = content(journal)
    for publication in ready.values():
        assert not publish(journal, publication)
    assert content(journal) == before


def test_one_that_is_there_keeps_the_others_out(
    journal: Journal, ready: dict[str, Publication]
) -> None:
    for name in ("run/held-0", "journal/audit"):
        assert publish(journal, ready[name])
    position = journal.position()
    for name in ("run/held-0", "journal/audit"):
        assert not publish(journal, ready["run/plain-0"], ready[name])
        assert not publish(journal, ready[name], ready["run/plain-0"])
    assert journal.get("plain-0") is None
    assert (journal.position(), journal.verify().findings) == (position, [])


@pytest.mark.parametrize("stored", [1, 2, 4])
def test_going_on_from_another_version(
    journal: Journal, ready: dict[str, Publication], stored: int
) -> None:
    """There are 3 events of held-0, and they are gone on with as if there were more or less."""
    whole = ready["run/held-0"]
    assert publish(journal, whole)
    before = content(journal)
    assert not publish(journal, whole._replace(stored=stored))
    assert content(journal) == before


@pytest.mark.parametrize("name", ["run/held-0", "journal/audit"])
def test_going_on_with_what_is_not_there(
    journal: Journal, ready: dict[str, Publication], name: str
) -> None:
    assert not publish(journal, ready[name]._replace(stored=1))
    assert journal.position() == 0


def test_events_that_cannot_be_read_to_the_end(
    journal: Journal, ready: dict[str, Publication]
) -> None:
    whole = ready["run/done-0"]

    def breaking() -> Iterator[StoredEvent]:
        yield next(whole.events())
        raise ValueError("gone")

    with pytest.raises(ValueError, match="gone"):
        publish(journal, ready["run/held-0"], whole._replace(events=breaking))
    assert journal.position() == 0
    assert journal.runs() == []
    assert publish(journal, whole)  # nothing is locked or left open


def test_a_mark_keeps_a_delivery_from_being_due(
    journal: Journal, ready: dict[str, Publication]
) -> None:
    (pending,) = [
        p
        for p in ready.values()
        if p.stream.startswith("delivery/") and getattr(p.record, "status", "") == "pending"
    ]
    assert publish(journal, ready["run/pending-0"], pending._replace(held="wait"))
    store: Any = journal.store
    assert store.due_deliveries(DeliveryStatus.PENDING, 10) == []
    assert journal.attention() == [("pending-0", "wait")]
    assert journal.verify().findings == []


@pytest.mark.parametrize("name", ["run/held-0", "journal/audit"])
def test_events_that_are_there_without_their_row(
    journal: Journal, ready: dict[str, Publication], name: str
) -> None:
    """Somebody began the stream in the very moment, or its row is gone."""
    whole = ready[name]
    first = next(whole.events())
    store: Any = journal.store
    store.insert_events([LibraryEvent(*first)])
    assert not publish(journal, ready["run/plain-0"], whole)
    assert journal.get("plain-0") is None
    assert (journal.position(), len(store.read(name))) == (1, 1)


def test_a_run_that_is_gone_on_with_is_due_as_its_events_say(journal: Journal) -> None:
    with open_journal("memory:") as source:
        lease = source.ledger(owner="w", lease_ttl=3600).acquire("run", heartbeat=False)
        source.copy_to(journal)
        assert journal.ledger().claim(heartbeat=False) is None
        lease.release()
        source.copy_to(journal)
    granted = journal.ledger().claim(heartbeat=False)
    assert granted is not None
    assert granted.fencing_token == 2
