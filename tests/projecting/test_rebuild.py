"""A rebuild makes the rows anew beside the old ones, which serve until it is done."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from runjournal import Event, Journal, ProjectionRunner, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.projecting import rebuilding
from runjournal.domain.errors import RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE, RunStoreError

from .projectors import Seen, tables_of

Fill = Callable[..., None]
Whole = Callable[[Journal], dict[str, Any]]


def rows_of(runner: ProjectionRunner) -> dict[str, Any]:
    return dict(runner.rows(limit=1000))


def test_rebuilt_again_and_again(
    journal: Journal, fill: Fill, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 34: rebuild; append; rebuild again; each time as projected from nothing."""
    monkeypatch.setattr(rebuilding, "PAGE", 3)
    runner = journal.projection(Seen())
    told: list[Any] = []
    fill(journal, "a", "b")
    for number in range(2, 5):
        done = journal.rebuild(Seen(), progress=told.append)
        events = journal.position()
        assert done == ("seen", True, events, events)
        assert rows_of(runner) == whole(journal)
        assert tables_of(journal) == {f"projection_seen_{number}"}
        fill(journal, f"more-{number}")
    assert [p.position for p in told][:4] == [3, 6, 9, 10]
    assert (told[3].head, told[3].events) == (10, 10)
    # The runner goes on where the rebuild ended.
    assert runner.catch_up() == 5
    assert rows_of(runner) == whole(journal)


def test_readers_see_old_or_new_and_writers_go_on(
    journal: Journal, fill: Fill, whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "PAGE", 5)
    fill(journal, "a", "b", "c")
    old = journal.projection(Seen())
    old.catch_up()
    new = journal.projection(Seen(version=2))
    before = rows_of(old)
    reads: list[bool] = []

    def during(progress: Any) -> None:
        if progress.position <= 15:
            fill(journal, f"more-{progress.position}")
        reads.append(rows_of(old) == before and old.get("a") == before["a"])
        with refused("RUN_CONFLICT", "already_running"):
            journal.rebuild(Seen())
        with refused("RUN_CONFLICT", "already_running"):
            old.catch_up()

    done = journal.rebuild(Seen(version=2), during)
    assert len(reads) > 5
    assert all(reads)
    assert done.position == journal.position() == 30
    assert rows_of(new) == whole(journal)


@pytest.mark.parametrize("how", ["interrupt", "raises", "poison"])
def test_broken_off_it_leaves_the_old_rows(
    journal: Journal, fill: Fill, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebuilding, "PAGE", 4)
    fill(journal, "a", "b")
    runner = journal.projection(Seen())
    runner.catch_up()
    before, state, tables = rows_of(runner), runner.state(), tables_of(journal)
    stop = threading.Event()

    def during(_progress: Any) -> None:
        if how == "raises":
            raise KeyboardInterrupt
        stop.set()

    def fail(event: Event) -> None:
        if how == "poison" and event.originator_id == "run/b":
            raise ValueError("no")

    projector = Seen(version=2, before=fail)
    if how == "interrupt":
        assert journal.rebuild(projector, during, stop) == ("seen", False, 4, 4)
    elif how == "raises":
        with pytest.raises(KeyboardInterrupt):
            journal.rebuild(projector, during)
    else:
        with refused("RUN_CONFLICT", "not_projected") as caught:
            journal.rebuild(projector)
        assert "position 6: ValueError: no" in caught.value.message
    assert rows_of(runner) == before
    after = runner.state()
    assert state is not None
    assert after == state._replace(tables_made=2)
    assert tables_of(journal) == tables
    assert runner.catch_up() == 0


def test_rebuild_lets_a_parked_projection_go_on(journal: Journal, fill: Fill, whole: Whole) -> None:
    def fail(_event: Event) -> None:
        raise ValueError("no")

    fill(journal, "a")
    with refused("RUN_CONFLICT", "not_projected"):
        journal.projection(Seen(before=fail)).catch_up()
    assert journal.rebuild(Seen()).finished
    runner = journal.projection(Seen())
    assert runner.catch_up() == 0
    assert rows_of(runner) == whole(journal)


def test_of_two_at_once_one_is_refused(journal: Journal, fill: Fill, whole: Whole) -> None:
    fill(journal, "a", "b")
    gate = threading.Barrier(2)
    answers: list[Any] = []

    def rebuild() -> None:
        gate.wait(30)
        try:
            answers.append(journal.rebuild(Seen(before=lambda _e: both.wait(0.05))).finished)
        except RunStoreError as e:
            answers.append(e.reason)

    both = threading.Event()
    threads = [threading.Thread(target=rebuild) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(answers, key=str) == [True, "already_running"]
    assert rows_of(journal.projection(Seen())) == whole(journal)


def test_large_tables_are_dropped_bit_by_bit(sqlite_url: str, fill: Fill) -> None:
    """Writers get their turn between the bits."""
    from runjournal.adapters.sqlite import projections

    with open_journal(sqlite_url) as journal:
        journal.projection(Seen()).catch_up()
        path = sqlite_url.removeprefix("sqlite:///")
        rows = 2 * projections.AT_ONCE + 10
        with closing(sqlite3.connect(path)) as conn, conn:
            conn.execute(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
                " INSERT INTO projection_seen_1 SELECT 'k' || i, x'7b7d', 1 FROM n",
                (rows,),
            )
        store: Any = journal.store
        begins: list[int] = []
        begin = store.database.begin
        store.database.begin = lambda patience=None: (begins.append(1), begin(patience))[1]
        fill(journal, "a")
        begins.clear()
        assert journal.rebuild(Seen()).finished
        # The number of the shadow, its rows, the swap; and three bits of the old table.
        assert len(begins) == 6
        assert tables_of(journal) == {"projection_seen_2"}


@pytest.mark.parametrize("lost", ["before", "after"])
def test_swap_whose_reply_is_lost(journal: Journal, fill: Fill, whole: Whole, lost: str) -> None:
    store: Any = journal.store
    promote, tries = store.promote_shadow, []

    def losing(*args: Any) -> Any:
        tries.append(1)
        if len(tries) > 2:
            return promote(*args)
        if lost == "after" and len(tries) == 1:
            promote(*args)
        if lost == "before":
            raise RunStoreError(RUN_STORE_UNAVAILABLE, "busy", "somebody holds the row")
        raise RunStoreError(RUN_OUTCOME_UNKNOWN, "reply_lost", "the connection was lost")

    fill(journal, "a")
    store.promote_shadow = losing
    assert journal.rebuild(Seen()).finished
    store.promote_shadow = promote
    assert len(tries) == 3
    assert rows_of(journal.projection(Seen())) == whole(journal)
    assert tables_of(journal) == {"projection_seen_2"}


def test_newer_rebuild_wins(journal: Journal, fill: Fill, whole: Whole) -> None:
    """One that has lost its hold without noticing promotes nothing."""
    fill(journal, "a")
    store: Any = journal.store
    old = store.create_projection("seen", 1)
    stale = store.create_shadow("seen")
    assert journal.rebuild(Seen()).finished
    assert store.promote_shadow(old, stale, 9, 1) is None
    newer = store.projection_state("seen")
    assert store.promote_shadow(newer, stale, 9, 1) is None
    assert store.save_projection(old, [], 7) is None
    assert rows_of(journal.projection(Seen())) == whole(journal)
