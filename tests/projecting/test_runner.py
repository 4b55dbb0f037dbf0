"""A projection's rows and position, on every backend: whole, never twice, parked at what fails."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from runjournal import Event, Journal, ProjectionRunner, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.projecting import runner as runner_module

from .projectors import Seen

Fill = Callable[..., None]
Whole = Callable[[Journal], dict[str, Any]]
Until = Callable[[Callable[[], object]], None]


def rows_of(runner: ProjectionRunner) -> dict[str, Any]:
    return dict(runner.rows(limit=1000))


def position_of(runner: ProjectionRunner) -> int:
    state = runner.state()
    assert state is not None
    return state.position


@contextmanager
def running(runner: ProjectionRunner) -> Iterator[list[BaseException]]:
    """Let it run in a thread; what it ended with."""
    stop, ended = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            runner.run(stop, poll=0.01)
        except BaseException as e:
            ended.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join(30)
    assert not thread.is_alive()


def test_rows_come_up_with_the_journal(
    journal: Journal, fill: Fill, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_module, "PAGE", 3)
    runner = journal.projection(Seen())
    assert (runner.state(), runner.get("a"), runner.rows()) == (None, None, [])
    assert runner.lag() == (0, None)
    assert runner.catch_up() == 0
    fill(journal, "a", "b")
    lag = runner.lag()
    assert lag.events == 10
    assert lag.seconds is not None
    assert 0 <= lag.seconds < 60
    assert runner.catch_up(limit=4) == 4
    assert position_of(runner) == 4
    assert runner.get("a") == {"versions": [1, 2, 3, 4]}
    assert runner.catch_up() == 6
    assert rows_of(runner) == whole(journal)
    assert runner.lag() == (0, None)
    # Exactly at the head: then one more, by another runner.
    assert runner.catch_up() == 0
    journal.ledger().start("c")
    again = journal.projection(Seen())
    assert again.catch_up() == 1
    assert rows_of(runner) == whole(journal)
    assert [s.name for s in journal.projection_states()] == ["seen"]
    assert journal.projection_states() == [runner.state()]


def test_rows_are_listed_in_pages(journal: Journal, fill: Fill) -> None:
    names = ["b", "a", "é", "B", "\U0001f600", "\uffee", "a b", "%s"]
    for name in names:
        journal.ledger().start(name)
    runner = journal.projection(Seen())
    runner.catch_up()
    paged: list[str] = []
    while page := runner.rows(limit=3, after=paged[-1] if paged else None):
        paged += [key for key, _ in page]
    assert paged == sorted(names, key=str.encode)


def test_row_is_deleted_and_comes_back(journal: Journal) -> None:
    class Open(Seen):
        """The runs that somebody holds."""

        topics = ("run.lease_granted", "run.lease_released", "run.completed")

        def __init__(self) -> None:
            super().__init__("open", topics=self.topics)

        def project(self, row: Any, event: Event) -> Any:
            if event.topic == "run.lease_granted":
                assert row is None
                return {"since": event.originator_version}
            return None

    runner = journal.projection(Open())
    ledger = journal.ledger()
    one, two = ledger.acquire("one"), ledger.acquire("two")
    assert runner.catch_up() == 2
    assert [key for key, _ in runner.rows()] == ["one", "two"]
    one.release()
    one = ledger.acquire("one")
    two.complete()
    assert runner.catch_up() == 3
    assert runner.rows() == [("one", {"since": 4})]
    one.complete()
    runner.catch_up()
    assert runner.rows() == []


def test_ignored_events_move_the_position_on(journal: Journal, fill: Fill) -> None:
    """Case 36: most topics are ignored; stop at the head, append one, start."""
    looked: list[str] = []
    projector = Seen(topics=("run.completed",), before=lambda e: looked.append(e.topic))
    runner = journal.projection(projector)
    fill(journal, "a", checkpoints=17)
    journal.ledger().start("b")
    assert runner.catch_up() == 1
    assert position_of(runner) == journal.position()
    journal.ledger().acquire("b").complete()
    assert runner.catch_up() == 1
    assert rows_of(runner) == {"a": {"versions": [20]}, "b": {"versions": [3]}}
    assert set(looked) == {"run.completed"}


def test_runs_beside_writers_and_is_waited_for(journal: Journal, whole: Whole, fill: Fill) -> None:
    runner = journal.projection(Seen())
    assert runner.wait_for(0, timeout=0.01)
    assert not runner.wait_for(1, timeout=0.01)
    with running(runner) as ended:
        for run_id in ("a", "b", "c"):
            fill(journal, run_id)
            assert runner.wait_for(timeout=30)
            assert runner.get(run_id) == {"versions": [1, 2, 3, 4, 5]}
        with refused("RUN_CONFLICT", "already_running"):
            journal.projection(Seen()).catch_up()
        with refused("RUN_CONFLICT", "already_running"):
            journal.projection(Seen()).run(threading.Event())
        with refused("RUN_CONFLICT", "already_running"):
            journal.rebuild(Seen())
        # Another projection is no obstacle.
        assert journal.projection(Seen("other")).catch_up() == 15
    assert not ended
    assert rows_of(runner) == whole(journal)


def test_poison_parks_it(journal: Journal, fill: Fill, whole: Whole) -> None:
    tries: list[int] = []

    def fail(event: Event) -> None:
        if event.originator_id == "run/b" and event.originator_version == 2:
            tries.append(event.originator_version)
            raise ZeroDivisionError("by nothing")

    fill(journal, "a", "b", "c")
    runner = journal.projection(Seen(before=fail))
    for attempt in (runner.catch_up, lambda: runner.run(threading.Event()), runner.wait_for):
        with refused("RUN_CONFLICT", "not_projected") as caught:
            attempt()
        assert "position 7: ZeroDivisionError: by nothing" in caught.value.message
    # It is tried once and no more, until somebody says so.
    assert tries == [2]
    state = runner.state()
    assert state is not None
    assert (state.position, state.parked_at) == (6, 7)
    assert state.parked_error == "ZeroDivisionError: by nothing"
    assert rows_of(runner) == {"a": {"versions": [1, 2, 3, 4, 5]}, "b": {"versions": [1]}}
    assert runner.lag().events == 9
    assert runner.wait_for(6, timeout=0.01)
    assert runner.resume()
    assert not runner.resume()
    with refused("RUN_CONFLICT", "not_projected"):
        runner.catch_up()
    assert tries == [2, 2]
    mended = journal.projection(Seen())
    with refused("RUN_CONFLICT", "not_projected"):
        mended.catch_up()
    mended.resume()
    assert mended.catch_up() == 9
    assert rows_of(mended) == whole(journal)
    state = mended.state()
    assert state is not None
    assert (state.parked_at, state.parked_error) == (None, None)


def test_unreadable_event_parks_it_too(journal: Journal, fill: Fill, wait_until: Until) -> None:
    from eventsourcing.persistence import StoredEvent

    fill(journal, "a")
    journal.application.recorder.insert_events([StoredEvent("run/b", 1, "run.queued", b"{")])
    runner = journal.projection(Seen())
    with running(runner) as ended:
        wait_until(lambda: ended)
    (error,) = ended
    assert isinstance(error, RunStoreError)
    assert (error.code, error.reason) == ("RUN_CONFLICT", "not_projected")
    assert "RUN_INTEGRITY_ERROR/unreadable_event" in error.message
    assert position_of(runner) == 5
    # Its age cannot be told, but that it is there can.
    assert runner.lag() == (1, None)
    # A projector that does not ask for this topic goes past it.
    assert journal.projection(Seen("other", topics=("run.completed",))).catch_up() == 1


def test_another_version_is_refused_until_it_is_rebuilt(
    journal: Journal, fill: Fill, whole: Whole
) -> None:
    fill(journal, "a")
    old, new = journal.projection(Seen()), journal.projection(Seen(version=2))
    old.catch_up()
    fill(journal, "b")
    refusals: list[Callable[[], object]] = [
        new.catch_up,
        lambda: new.run(threading.Event()),
        lambda: new.get("a"),
        new.rows,
        lambda: new.wait_for(1, timeout=0.01),
    ]
    for refusal in refusals:
        with refused("RUN_CONFLICT", "projection_version") as caught:
            refusal()
        assert "version 1" in caught.value.message
    assert new.lag().events == 5
    assert new.state() == old.state()
    journal.rebuild(Seen(version=2))
    assert rows_of(new) == whole(journal)
    with refused("RUN_CONFLICT", "projection_version"):
        old.get("a")


def test_many_threads_read_while_it_runs(journal: Journal, fill: Fill, whole: Whole) -> None:
    runner = journal.projection(Seen())
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for _key, row in runner.rows():
                    assert row["versions"] == list(range(1, len(row["versions"]) + 1))
                runner.lag()
        except BaseException as e:
            failures.append(e)

    readers = [threading.Thread(target=read) for _ in range(3)]
    with running(runner):
        for reader in readers:
            reader.start()
        fill(journal, *(f"run-{n}" for n in range(10)))
        assert runner.wait_for(timeout=30)
        done.set()
        for reader in readers:
            reader.join(30)
    assert not failures
    assert rows_of(runner) == whole(journal)


def test_a_damaged_row_is_named(sqlite_url: str, fill: Fill) -> None:
    with open_journal(sqlite_url) as journal:
        fill(journal, "a", "b")
        runner = journal.projection(Seen())
        runner.catch_up()
        with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as file, file:
            file.execute("UPDATE projection_seen_1 SET body = x'7b' WHERE key = 'a'")
        for reading in (lambda: runner.get("a"), runner.rows):
            with refused("RUN_INTEGRITY_ERROR", "unreadable_record") as caught:
                reading()
            assert "row 'a' of projection seen" in caught.value.message
        assert runner.get("b") is not None


def test_runner_of_a_closed_journal_ends(fill: Fill, wait_until: Until) -> None:
    journal = open_journal("memory:")
    runner = journal.projection(Seen())
    with running(runner) as ended:
        fill(journal, "a")
        assert runner.wait_for(timeout=30)
        journal.close()
        wait_until(lambda: ended)
    assert isinstance(ended[0], RunStoreError)
    assert ended[0].reason == "closed"


def test_store_that_keeps_no_projections_says_so(fill: Fill) -> None:
    from runjournal.adapters.contract import Between

    with open_journal("memory:") as journal:
        journal._store = Between(journal.store)
        with refused("RUN_VALIDATION_ERROR", "argument"):
            journal.projection(Seen())
