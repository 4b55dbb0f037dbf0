"""Histories: everything in order, images of rows, and rows put right."""

from __future__ import annotations

from typing import Any

import pytest

from ...domain.delivery import DeliveryRecord
from ...domain.events import run_stream
from ...domain.history_store import TABLES, Head, Publication, Repair, Table
from ...domain.ports import Change, Guard, JournalStore, LeaseRef, StoredEvent
from .claims import granting, names
from .deliveries import due, kept, put_delivery
from .scribe import START, TTL, Scribe, after, record_of
from .tools import StoreHooks, deadline_of, put, put_held, stored, trace

LIVE = Guard(1, "live")
BEGINNING = ("", 0)
#: Streams whose order is not that of their lengths, of their letters, or of UTF-16.
STREAMS = ("B", "a", "a b", "aa", "a\u0301", "\u00e1", "\uffee", "\U00010400", "b/c", "b")

each_table = pytest.mark.parametrize("table", TABLES)


def stored_events(*changes: Change) -> list[StoredEvent]:
    """The events of changes, as they are read."""
    return [StoredEvent(*event[:4]) for change in changes for event in change.events]


def publication(*changes: Change, stored: int = 0, **fields: Any) -> Publication:
    """What brings the stream of these changes, which follow one another, from elsewhere."""
    fields.setdefault("record", changes[-1].record)
    return Publication(changes[0].stream, stored, lambda: iter(stored_events(*changes)), **fields)


def held_elsewhere(scribe: Scribe, run_id: str = "run", **fields: Any) -> list[Change]:
    """The changes of a run that is held, which no store has seen."""
    start = scribe.start(run_id, **fields)
    return [start, scribe.grant(record_of(start))]


def walked(
    store: JournalStore, limit: int, begin: tuple[str, int] = BEGINNING
) -> list[StoredEvent]:
    """All events after a place, page by page."""
    found: list[StoredEvent] = []
    while page := store.walk(begin, limit):
        assert len(page) <= limit
        found += page
        begin = page[-1].stream, page[-1].version
    return found


def keys(store: JournalStore, table: Table, begin: str, upto: str | None, limit: int) -> list[str]:
    return [key for key, _ in store.images(table, begin, upto, limit)]


class HistoryContract(StoreHooks):
    """The HistoryStore part of the port, all but `publish`."""

    # Reading everything in order.

    def test_everything_is_walked_in_the_order_of_bytes(
        self, store: JournalStore, scribe: Scribe
    ) -> None:
        for name in STREAMS:
            put_held(store, scribe, name)
        put_delivery(store, scribe, "delivered")
        ordered = sorted((run_stream(n) for n in (*STREAMS, "delivered")), key=str.encode)
        events = walked(store, 3)
        runs = [e for e in events if e.stream.startswith("run/")]
        assert list(dict.fromkeys(e.stream for e in runs)) == ordered
        assert [(e.stream.encode(), e.version) for e in events] == sorted(
            (e.stream.encode(), e.version) for e in events
        )
        assert len(events) - len(runs) == 1  # the delivery's
        for name in STREAMS:
            mine = [e for e in events if e.stream == run_stream(name)]
            assert mine == list(store.read(run_stream(name)))

    def test_walk_goes_on_from_any_place(self, store: JournalStore, scribe: Scribe) -> None:
        for name in ("a", "b", "c"):
            put_held(store, scribe, name)
        everything = walked(store, 100)
        assert len(everything) == 6
        for limit in (1, 2, 5):
            assert walked(store, limit) == everything
        for place, event in enumerate(everything):
            assert walked(store, 4, (event.stream, event.version)) == everything[place + 1 :]
        # Also from where nothing is.
        assert walked(store, 4, (run_stream("a"), 2**63 - 1)) == everything[2:]
        assert walked(store, 4, (run_stream("aa"), 1)) == everything[2:]
        assert list(store.walk((run_stream("d"), 1), 4)) == []

    def test_streams_divide_a_journal(self, store: JournalStore, scribe: Scribe) -> None:
        assert store.divide(1) == []
        order = [f"run-{n}" for n in range(9)]
        for n, name in enumerate(order):
            record = put_held(store, scribe, name)
            for _ in range(n % 4):
                record = put(store, scribe.checkpoint(record), START, LIVE)
        streams = [e.stream for e in walked(store, 100)]
        assert store.divide(1) == list(dict.fromkeys(streams))
        for count in (2, 3, 7):
            ends = store.divide(count)
            assert len(ends) >= len(streams) // (count + 10)
            assert ends == sorted(set(ends), key=str.encode)
            assert set(ends) <= set(streams)
            for begin, end in zip(["", *ends], ends, strict=False):
                between = sum(begin < s <= end for s in streams)
                # As many as were asked for, and up to the end of the stream there: 5 at most.
                assert count - 5 <= between <= count + 10
        assert store.divide(len(streams) + 1) == []

    # Images.

    def test_image_of_a_sound_row_is_that_of_its_record(
        self, store: JournalStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe, labels={"team": "b"}, delivery_ref="inbox")
        record = put(store, scribe.checkpoint(record, 1), after(1), LIVE)
        delivery = put_delivery(store, scribe, "ended")
        assert dict(store.images("run_records", "", None, 9))["run"] == store.image(record)
        image = store.images_of("run_records", ["run", "none"])
        assert image == {"run": store.image(record)}
        assert image["run"][:3] == (record.version, record.head, "running")
        assert store.images("delivery_outbox", "", None, 9) == [
            (delivery.invocation_id, store.image(delivery))
        ]
        head = Head(delivery.version, delivery.head, "pending")
        asked = [delivery.invocation_id, "none"]
        assert store.heads_of("delivery_outbox", asked) == {delivery.invocation_id: head}
        assert store.heads_of("run_records", []) == {}
        assert store.images_of("run_records", []) == {}

    def test_image_leaves_out_what_no_event_tells(
        self, store: JournalStore, scribe: Scribe
    ) -> None:
        held = put_held(store, scribe)
        put(store, scribe.start("aside"))
        delivery = put_delivery(store, scribe, "ended")
        before = [store.images(table, "", None, 9) for table in TABLES]
        store.renew([LeaseRef("run", 1, TTL)], after(30))
        store.set_aside("aside", "an operator looks at it")
        store.set_aside_delivery(delivery.invocation_id, "an operator looks at it")
        assert [store.images(table, "", None, 9) for table in TABLES] == before
        assert store.image(held) == dict(before[0])["run"]

    @pytest.mark.parametrize(
        "change",
        [
            {"kind": "other"},
            {"labels": {"team": "c"}},
            {"fencing_token": 7},
            {"attempt": 2},
            {"checkpoint_ref": None},
            {"last_error": "x"},
            {"updated_at": after(99)},
            {"head": "f" * 64},
            {"version": 9},
        ],
        ids=lambda change: "-".join(change),
    )
    def test_image_differs_where_the_record_does(
        self, store: JournalStore, scribe: Scribe, change: dict[str, Any]
    ) -> None:
        record = put_held(store, scribe, labels={"team": "b"})
        record = put(store, scribe.checkpoint(record, 1), after(1), LIVE)
        image = store.images_of("run_records", ["run"])["run"]
        assert store.image(record.model_copy(update=change)) != image

    @each_table
    def test_images_come_in_pages(self, store: JournalStore, scribe: Scribe, table: Table) -> None:
        for name in STREAMS:
            put_delivery(store, scribe, name)
        ordered = keys(store, table, "", None, 100)
        assert len(ordered) == len(STREAMS)
        assert ordered == sorted(ordered, key=str.encode)
        assert keys(store, table, "", None, 3) == ordered[:3]
        assert keys(store, table, ordered[2], None, 3) == ordered[3:6]
        assert keys(store, table, ordered[2], ordered[4], 9) == ordered[3:5]
        assert keys(store, table, ordered[2], ordered[2] + "!", 9) == []
        assert keys(store, table, ordered[-1], None, 9) == []

    # Rows put right.

    def test_wrong_row_is_put_right(self, store: JournalStore, scribe: Scribe) -> None:
        changes = held_elsewhere(scribe, labels={"team": "b"})
        right = record_of(changes[-1])
        wrong = right.model_copy(update={"labels": {}, "attempt": 5})
        assert store.publish([publication(*changes, record=wrong)])
        assert stored(store) == wrong
        assert store.repair([Repair(right, right.version)]) == [True]
        assert stored(store) == right
        assert store.images_of("run_records", ["run"])["run"] == store.image(right)

    def test_row_that_moved_on_is_left_alone(self, store: JournalStore, scribe: Scribe) -> None:
        old = put_held(store, scribe)
        put(store, scribe.checkpoint(old), START, LIVE)
        other = put_held(store, scribe, "other")
        before = trace(store)
        repairs = [
            Repair(old, old.version),
            Repair(old, None),
            Repair(other, other.version),
            Repair(record_of(scribe.start("none")), 1),
        ]
        assert store.repair(repairs) == [False, False, True, False]
        assert trace(store) == before
        assert store.get("none", START).record is None
        assert store.repair([]) == []

    def test_missing_row_is_made_and_due(self, store: JournalStore, scribe: Scribe) -> None:
        start = scribe.start("run", available_at=after(5))
        assert store.publish([publication(start, record=None)])
        assert store.get("run", START).record is None
        assert store.repair([Repair(record_of(start), None)]) == [True]
        assert stored(store) == record_of(start)
        assert names(store.claim(None, 9, granting(scribe), after(4))) == []
        assert names(store.claim(None, 9, granting(scribe), after(5))) == ["run"]

    def test_repair_leaves_a_deadline_and_a_due_time(
        self, store: JournalStore, scribe: Scribe
    ) -> None:
        held = put_held(store, scribe)
        store.renew([LeaseRef("run", 1, TTL)], after(30))
        queued = put(store, scribe.start("queued"), after(7))
        assert store.repair([Repair(held, 2), Repair(queued, 1)]) == [True, True]
        assert deadline_of(store) == after(30 + TTL)
        assert names(store.claim(None, 9, granting(scribe), after(6))) == []
        assert names(store.claim(None, 9, granting(scribe), after(7))) == ["queued"]

    def test_delivery_is_put_right(self, store: JournalStore, scribe: Scribe) -> None:
        right = put_delivery(store, scribe)
        ended = scribe.complete(put_held(store, scribe, "other", delivery_ref="inbox"))
        put(store, ended[0], START, LIVE)
        request = ended[1].record
        assert isinstance(request, DeliveryRecord)
        assert store.publish([publication(ended[1], record=None)])
        wrong = right.model_copy(update={"attempts": 3})
        repairs = [Repair(wrong, 1), Repair(right, 9), Repair(right, 1), Repair(request, None)]
        assert store.repair(repairs) == [True, False, True, True]
        assert kept(store, right.invocation_id) == right
        assert kept(store, request.invocation_id) == request
        assert sorted(due(store, START)) == ["other", "run"]

    @each_table
    def test_what_is_there_is_not_made_anew(
        self, store: JournalStore, scribe: Scribe, table: Table
    ) -> None:
        put_delivery(store, scribe)
        before = store.images(table, "", None, 9)
        store.recreate(table)
        assert store.images(table, "", None, 9) == before != []
