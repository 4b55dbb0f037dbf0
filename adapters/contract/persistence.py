"""Persistence: what a second store sees of the first, and what happens to damaged records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...domain.errors import RUN_INTEGRITY_ERROR
from ...domain.ports import Change, Guard, LeaseRef, Reply, RunStore
from .claims import granting, names
from .deliveries import attempt, due, kept, put_delivery
from .scribe import START, TTL, Scribe, after, record_of
from .tools import (
    StoreHooks,
    deadline_of,
    put,
    put_held,
    race,
    refused,
    stored,
    trace,
    won,
)

LIVE = Guard(1, "live")


class PersistenceContract(StoreHooks):
    """For a store whose data outlive it: a must where it claims cross-process atomicity."""

    def reopen(self, store: RunStore) -> RunStore:
        """A second store over the same data, while the first one is still open."""
        raise NotImplementedError("enrol the backend: reopen returns a second store")

    def spoil(self, store: RunStore, run_id: str) -> None:
        """Make the stored record of this run unreadable, as a damaged disk would."""
        raise NotImplementedError("enrol the backend: spoil damages a stored record")

    def spoil_delivery(self, store: RunStore, invocation_id: str) -> None:
        """Make this delivery's row in the outbox unreadable."""
        raise NotImplementedError("enrol the backend: spoil_delivery damages a stored delivery")

    @pytest.fixture
    def second(self, store: RunStore) -> Iterator[RunStore]:
        """Another store over the same data."""
        second = self.reopen(store)
        yield second
        second.close()

    def test_everything_survives_reopening(
        self, store: RunStore, scribe: Scribe, second: RunStore
    ) -> None:
        record = put_held(store, scribe, delivery_ref="inbox")
        record = put(store, scribe.checkpoint(record, {"offset": 7}), START, LIVE)
        store.renew([LeaseRef("run", 1, TTL)], after(10))
        put(store, scribe.start("aside"))
        store.set_aside("aside", "damaged")
        ended = put_held(store, scribe, "ended", delivery_ref="inbox")
        changes = scribe.complete(ended)
        assert store.append(changes, LIVE, START) is not None
        expected = [trace(store, name) for name in ("run", "aside", "ended")]
        listed = store.runs()
        store.close()
        assert [trace(second, name) for name in ("run", "aside", "ended")] == expected
        assert second.runs() == listed
        # The deadline that the renewal moved is kept too, though no event tells of it.
        assert deadline_of(second) == after(10 + TTL)
        assert [mark.run_id for mark in second.attention()] == ["aside"]
        assert len(second.read(changes[1].stream)) == 1
        put(second, scribe.checkpoint(record, "on"), after(TTL), LIVE)

    def test_two_open_stores_see_each_other(
        self, store: RunStore, second: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)
        assert stored(second) == record
        record = put(second, scribe.checkpoint(record, 1), START, LIVE)
        assert stored(store) == record
        assert second.renew([LeaseRef("run", 1, TTL)], after(5))
        assert deadline_of(store) == after(5 + TTL)
        assert store.append([scribe.grant(record, after(TTL), "other")], None, after(1)) is not None
        assert second.append([scribe.checkpoint(record, 2)], LIVE, after(1)) is None

    def test_swaps_through_two_stores_have_one_winner(
        self, store: RunStore, second: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)
        for _ in range(5):
            changes = [scribe.checkpoint(record, n) for n in range(6)]

            def swap(number: int, changes: list[Change] = changes) -> Reply | None:
                return (second if number % 2 else store).append([changes[number]], LIVE, START)

            winners = won(race(len(changes), swap))
            assert len(winners) == 1
            record = record_of(changes[winners[0]])
        assert trace(store) == trace(second)

    def test_damaged_record_is_named_and_set_aside(self, store: RunStore, scribe: Scribe) -> None:
        put(store, scribe.start("damaged"))
        put(store, scribe.start("sound", available_at=after(1)))
        self.spoil(store, "damaged")
        with refused(RUN_INTEGRITY_ERROR, "unreadable_record") as caught:
            store.get("damaged", START)
        assert "damaged" in caught.value.message
        assert names(store.claim(None, 10, granting(scribe), after(2))) == ["sound"]
        assert [mark.run_id for mark in store.attention()] == ["damaged"]

    def test_delivery_survives_reopening(
        self, store: RunStore, scribe: Scribe, second: RunStore
    ) -> None:
        tried = put_delivery(store, scribe)
        change = scribe.delivery(tried, attempt(scribe), START)
        assert store.advance_delivery(change)
        aside = put_delivery(store, scribe, "aside")
        store.set_aside_delivery(aside.invocation_id, "damaged")
        put_delivery(store, scribe, "fresh")
        listed, events = store.deliveries(), list(store.read(change.stream))
        assert len(listed) == 3
        store.close()
        assert kept(second, tried.invocation_id) == change.record
        assert (second.deliveries(), list(second.read(change.stream))) == (listed, events)
        assert due(second, after(TTL)) == ["fresh", "run"]
        assert [tuple(mark) for mark in second.attention()] == [("aside", "damaged")]

    def test_attempts_through_two_stores_have_one_winner(
        self, store: RunStore, second: RunStore, scribe: Scribe
    ) -> None:
        for number in range(5):
            record = put_delivery(store, scribe, f"run-{number}")
            changes = [
                scribe.delivery(record, attempt(scribe, owner=f"sender-{n}"), START)
                for n in range(6)
            ]

            def claim(number: int, changes: list[Change] = changes) -> bool:
                return (second if number % 2 else store).advance_delivery(changes[number])

            answers = race(len(changes), claim)
            winner = answers.index(True)
            assert answers.count(False) == len(changes) - 1
            for opened in (store, second):
                assert kept(opened, record.invocation_id) == changes[winner].record
                assert len(opened.read(changes[winner].stream)) == 2

    def test_damaged_delivery_is_named_and_set_aside(self, store: RunStore, scribe: Scribe) -> None:
        damaged = put_delivery(store, scribe, "damaged").invocation_id
        sound = [put_delivery(store, scribe, f"sound-{n}") for n in range(3)]
        self.spoil_delivery(store, damaged)
        with refused(RUN_INTEGRITY_ERROR, "unreadable_record") as caught:
            store.get_delivery(damaged, START)
        assert damaged in caught.value.message
        # A list leaves it out, and its pages are as long as they should be.
        ids = sorted(r.invocation_id for r in sound)
        assert [r.invocation_id for r in store.deliveries(limit=2)] == ids[:2]
        assert [r.invocation_id for r in store.deliveries()] == ids
        assert [mark.run_id for mark in store.attention()] == ["damaged"]
        assert len(due(store, START)) == 3
