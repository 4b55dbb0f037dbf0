"""Reading: events in pages, lists of runs, and what a second store sees of the first."""

from __future__ import annotations

from ...domain.events import run_stream
from ...domain.ports import Change, Guard, LeaseRef, Reply, RunStore, StoredEvent
from ...domain.record import RunRecord
from .scribe import START, TTL, Scribe, after, record_of
from .tools import (
    SteppedClock,
    StoreHooks,
    deadline_of,
    ledger_on,
    put,
    put_held,
    race,
    stored,
    trace,
    won,
)

LIVE = Guard(1, "live")


class ReadingContract(StoreHooks):
    """`read` and `runs` of the RunStore port, reopening, and the declared atomicity."""

    # Events.

    def test_events_are_read_in_pages(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe)
        for n in range(23):
            record = put(store, scribe.checkpoint(record, n), START, LIVE)
        put_held(store, scribe, "neighbour")
        stream = run_stream("run")
        everything = list(store.read(stream))
        assert [event.version for event in everything] == [*range(1, 26)]
        paged: list[StoredEvent] = []
        last = 0
        while page := store.read(stream, last, 7):
            assert len(page) <= 7
            paged += page
            last = page[-1].version
        assert paged == everything
        assert list(store.read(stream, 20)) == everything[20:]
        assert list(store.read(stream, 4, 1)) == everything[4:5]
        assert list(store.read(stream, 25)) == []
        assert list(store.read(stream, 1000, 5)) == []
        assert {event.stream for event in everything} == {stream}

    # Lists of runs.

    def test_runs_are_listed_in_the_order_of_creation(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        assert store.runs() == []
        created = ["c", "a", "d", "b", "B", "aa"]
        for n, name in enumerate(created):
            put(store, scribe.start(name, after(n)), after(n))
        put(store, scribe.grant(stored(store, "a")), after(9))
        listed = store.runs()
        assert names(listed) == created
        assert listed == [stored(store, name) for name in created]

    def test_pages_of_runs_neither_skip_nor_repeat(self, store: RunStore, scribe: Scribe) -> None:
        # Five at each instant: among those the store's order is its own, but it must have one.
        created = [f"run-{n * 7 % 25:02}" for n in range(25)]
        for n, name in enumerate(created):
            put(store, scribe.start(name, after(n // 5)), after(n // 5))
        listed = names(store.runs())
        assert [{*listed[n : n + 5]} for n in range(0, 25, 5)] == [
            {*created[n : n + 5]} for n in range(0, 25, 5)
        ]
        paged: list[str] = []
        while page := names(store.runs(limit=4, after=paged[-1] if paged else None)):
            assert len(page) <= 4
            paged += page
        assert paged == listed

    def test_runs_are_filtered_by_status_and_kind(self, store: RunStore, scribe: Scribe) -> None:
        for n in range(6):
            kind = "odd" if n % 2 else "even"
            put(store, scribe.start(f"queued-{n}", after(n), kind=kind), after(n))
            held = put(store, scribe.start(f"running-{n}", after(n + 0.5), kind=kind), after(n))
            put(store, scribe.grant(held), after(9))
        put(store, scribe.suspend(stored(store, "running-0")), after(9), LIVE)
        put(store, scribe.complete(stored(store, "running-1"))[0], after(9), LIVE)
        running = [f"running-{n}" for n in range(2, 6)]
        assert names(store.runs(status="running")) == running
        assert names(store.runs(status="suspended")) == ["running-0"]
        assert names(store.runs(status="completed")) == ["running-1"]
        assert names(store.runs(status="cancelled")) == []
        assert names(store.runs(kind="unknown")) == []
        assert len(store.runs(kind="odd")) == 6
        assert names(store.runs(status="running", kind="odd")) == ["running-3", "running-5"]
        # A filtered list is paged like any other, from whichever run it is asked.
        assert names(store.runs(status="running", limit=2)) == running[:2]
        assert names(store.runs(status="running", limit=2, after="running-3")) == running[2:]
        assert names(store.runs(status="running", kind="odd", after="queued-4")) == ["running-5"]
        assert names(store.runs(limit=1, after="running-5")) == []

    # Another store over the same data.

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

    # Claims about itself.

    def test_declared_atomicity_is_one_of_the_two(self, store: RunStore) -> None:
        assert store.atomicity in ("process", "cross-process")

    def test_cross_process_store_can_be_opened_twice(self, store: RunStore) -> None:
        # One process cannot prove the claim, but a store that no second one can be opened on
        # cannot be right to make it.
        if store.atomicity == "cross-process":
            assert type(self).reopen is not StoreHooks.reopen, "enrol `reopen`: it is claimed"
            self.reopen(store).close()

    def test_closing_twice_is_closing_once(self, store: RunStore, clock: SteppedClock) -> None:
        ledger_on(store, clock).start("run")
        store.close()
        store.close()


def names(records: list[RunRecord]) -> list[str]:
    return [record.run_id for record in records]
