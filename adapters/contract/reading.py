"""Reading: events in pages, lists of runs, and what a store says of itself."""

from __future__ import annotations

from ...domain.events import run_stream
from ...domain.ports import Guard, RunStore, StoredEvent
from ...domain.record import RunRecord
from .scribe import START, Scribe, after
from .tools import (
    SteppedClock,
    StoreHooks,
    ledger_on,
    put,
    put_held,
    stored,
)

LIVE = Guard(1, "live")


class ReadingContract(StoreHooks):
    """`read` and `runs` of the RunStore port, and the declared atomicity."""

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

    # Claims about itself.

    def test_run_that_is_not_there_was_not_pruned(self, store: RunStore, scribe: Scribe) -> None:
        assert store.buried("run") is None
        put(store, scribe.start("run"))
        assert store.buried("run") is None

    def test_declared_atomicity_is_one_of_the_two(self, store: RunStore) -> None:
        assert store.atomicity in ("process", "cross-process")

    def test_cross_process_claim_is_enrolled_as_such(self, store: RunStore) -> None:
        # One process cannot prove the claim, but a store that no second one can be opened on
        # cannot be right to make it.
        if store.atomicity == "cross-process":
            assert hasattr(self, "reopen"), "enrol PersistenceContract: reaching further is claimed"

    def test_closing_twice_is_closing_once(self, store: RunStore, clock: SteppedClock) -> None:
        ledger_on(store, clock).start("run")
        store.close()
        store.close()


def names(records: list[RunRecord]) -> list[str]:
    return [record.run_id for record in records]
