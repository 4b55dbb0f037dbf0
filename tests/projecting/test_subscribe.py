"""journal.subscribe: every event once, in order, below the gap-free head."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from runjournal import EventRegistry, Journal, open_journal
from runjournal.adapters import event_log
from runjournal.adapters.contract.tools import refused
from runjournal.domain.delivery import DELIVERY_EVENTS
from runjournal.domain.events import RUN_EVENTS

Fill = Callable[..., None]


def test_everything_in_order_and_then_the_end(journal: Journal, fill: Fill) -> None:
    fill(journal, "a", "b")
    found = list(journal.subscribe(follow=False))
    assert [n for n, _ in found] == sorted({n for n, _ in found})
    assert [(e.originator_id, e.originator_version) for _, e in found] == [
        (f"run/{run}", version) for run in ("a", "b") for version in range(1, 6)
    ]
    assert found[-1][0] == journal.position()
    wanted = ["run.completed", "run.queued"]
    few = list(journal.subscribe(topics=wanted, follow=False))
    assert few == [(n, e) for n, e in found if e.topic in wanted]
    assert list(journal.subscribe(after=found[3][0], follow=False)) == found[4:]
    assert list(journal.subscribe(after=found[-1][0], follow=False)) == []


def test_end_is_the_head_of_the_beginning(journal: Journal, fill: Fill) -> None:
    """A writer that never rests does not make it endless."""
    fill(journal, "a")
    subscription = journal.subscribe(follow=False)
    seen = 0
    for _ in subscription:
        journal.ledger().start(f"more-{seen}")
        seen += 1
    assert seen == 5
    # And where it ended, another one goes on.
    assert len(list(journal.subscribe(subscription.position, follow=False))) == 5


def test_more_than_one_page(sqlite_url: str, fill: Fill) -> None:
    with open_journal(sqlite_url) as journal:
        fill(journal, "a", checkpoints=2 * event_log.PAGE + 50)
        for topics in (None, ["run.checkpoint_saved"], ["run.completed"]):
            found = list(journal.subscribe(topics=topics, follow=False))
            expected = [e for e in journal.events("a") if topics is None or e.topic in topics]
            assert [e for _, e in found] == expected


def test_waits_for_what_comes_and_can_be_stopped(journal: Journal, fill: Fill) -> None:
    got: list[int] = []
    arrived = threading.Semaphore(0)
    subscription = journal.subscribe(topics=["run.completed"], poll=0.01)

    def follow() -> None:
        for position, _event in subscription:
            got.append(position)
            arrived.release()

    thread = threading.Thread(target=follow)
    thread.start()
    for run_id in ("a", "b", "c"):
        fill(journal, run_id)
        assert arrived.acquire(timeout=30)
    subscription.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert got == [n for n, _ in journal.subscribe(topics=["run.completed"], follow=False)]
    assert list(subscription) == []


def test_timeout_ends_it_and_it_can_go_on(fill: Fill) -> None:
    with open_journal("memory:") as journal:
        fill(journal, "a")
        with journal.subscribe(timeout=0.05, poll=0.01) as subscription:
            begun = time.monotonic()
            assert len(list(subscription)) == 5
            assert time.monotonic() - begun < 10
            fill(journal, "b")
            assert len(list(itertools.islice(subscription, 5))) == 5
        assert next(subscription, None) is None


def test_event_that_cannot_be_read_is_named(journal_url: str, journal: Journal, fill: Fill) -> None:
    """Whoever wants to can go on behind it."""
    from eventsourcing.persistence import StoredEvent

    fill(journal, "a")
    journal.application.recorder.insert_events([StoredEvent("mine", 1, "mine.made", b"{}")])
    fill(journal, "b")
    bad = [n for n, e in journal.subscribe(follow=False, topics=["run.queued"])][1] - 1
    subscription = journal.subscribe(follow=False)
    assert len(list(itertools.islice(subscription, 5))) == 5
    with refused("RUN_INTEGRITY_ERROR", "unreadable_event") as caught:
        next(subscription)
    assert f"position {bad}" in caught.value.message
    assert subscription.position == bad
    assert len(list(subscription)) == 5


def test_topic_has_the_events_of_its_old_names() -> None:
    """What was stored before a topic was renamed is among the new topic's events."""

    class Renamed(RUN_EVENTS[0]):  # type: ignore[name-defined, misc]
        topic = "run.enqueued"

    events = [Renamed, *RUN_EVENTS[1:], *DELIVERY_EVENTS]
    registry = EventRegistry(events, aliases={"run.queued": "run.enqueued"})
    with open_journal("memory:", registry=registry) as journal:
        journal.ledger().start("a")  # stored as run.queued
        found = list(journal.subscribe(topics=["run.enqueued"], follow=False))
        assert [type(e) for _, e in found] == [Renamed]


@pytest.mark.parametrize(
    "options",
    [
        {"after": -1},
        {"after": "1"},
        {"poll": 0},
        {"timeout": -1},
        {"topics": "run.queued"},
        {"topics": [1]},
    ],
    ids=str,
)
def test_odd_arguments_are_refused(options: dict[str, Any]) -> None:
    from runjournal import RunStoreError

    with open_journal("memory:") as journal, pytest.raises(RunStoreError) as caught:
        journal.subscribe(**options)
    assert caught.value.code == "RUN_VALIDATION_ERROR"
