"""Prune while work goes on: what was told goes, and nobody else notices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from runjournal import Event, Journal, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused

from ..projecting.projectors import Seen
from .conftest import deliver, end, later


def test_under_load(database_url: str, wait_until: Callable[[Callable[[], Any]], None]) -> None:
    with open_journal(database_url) as journal:
        old = [f"old-{n}" for n in range(60)]
        end(journal, *old, delivery_ref="inbox")
        deliver(journal)
        end(journal, "undelivered", delivery_ref="inbox")
        time.sleep(0.002)
        cut = datetime.now(UTC)
        wait_until(lambda: datetime.now(UTC) > cut)
        told = journal.prune_all(cut, dry_run=True)
        start_at = journal.position()
        stop, written, errors = threading.Event(), list[str](), list[Exception]()

        def work(number: int) -> None:
            ledger = journal.ledger(owner=f"worker-{number}")
            try:
                while not stop.is_set():
                    name = f"new-{number}-{len(written)}"
                    ledger.start(name, delivery_ref="inbox")
                    lease = ledger.claim(heartbeat=False)
                    if lease is not None:
                        lease.save_checkpoint({"n": 1})
                        lease.complete()
                        written.append(lease.run_id)
            except Exception as e:
                errors.append(e)

        tail = list[tuple[int, str, int]]()

        def read() -> None:
            for position, e in journal.subscribe(start_at, poll=0.01, timeout=3):
                tail.append((position, e.originator_id, e.originator_version))
                if stop.is_set() and position >= last:
                    return

        last = 2**62
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        reader = threading.Thread(target=read)
        for thread in (*threads, reader):
            thread.start()
        wait_until(lambda: len(written) > 5)
        done = journal.prune_all(cut, limit=7)
        before = len(written)
        wait_until(lambda: len(written) > before + 5)
        stop.set()
        for thread in threads:
            thread.join()
        journal.ledger().start("the-last-one")
        last = journal.position()
        reader.join()

        assert errors == []
        assert sorted(done.run_ids) == sorted(told.run_ids) == sorted(old)
        assert (done.events, done.held) == (told.events, told.held) == (60 * 7, {"undelivered": 1})
        # Whoever tails the journal has got everything that was written meanwhile, once, in order.
        whole = [
            (position, e.originator_id, e.originator_version)
            for position, e in journal.subscribe(start_at, follow=False)
        ]
        assert tail == whole
        assert {f"run/{name}" for name in written} <= {stream for _, stream, _ in whole}
        # Whoever reads from the beginning passes the holes.
        assert len(list(journal.subscribe(follow=False))) == len(whole) + 5
        assert journal.verify().findings == []


def test_projection_holds_what_it_has_not_passed(journal: Journal) -> None:
    end(journal, "a")
    runner = journal.projection(Seen())
    runner.catch_up()
    end(journal, "b")
    told = journal.prune(later(), dry_run=True)
    assert (told.run_ids, told.held) == (["a"], {"projection": 1})
    assert "'seen'" in told.held_runs[0].detail
    done = journal.prune(later())
    assert (done.run_ids, done.held) == (told.run_ids, told.held)
    # It comes up, and passes the holes.
    runner.catch_up()
    assert sorted(key for key, _ in runner.rows(limit=10)) == ["a", "b"]
    assert journal.prune(later()).run_ids == ["b"]


def test_parked_projection_holds_unless_it_is_named(journal: Journal) -> None:
    def spoil(event: Event) -> None:
        if event.originator_id == "run/b":
            raise ValueError("it cannot be")

    end(journal, "a", "b", "c")
    with pytest.raises(RunStoreError):
        journal.projection(Seen(before=spoil)).catch_up()
    done = journal.prune_all(later())
    assert (done.run_ids, done.held) == (["a"], {"projection": 2})
    with refused("RUN_VALIDATION_ERROR", "argument"):
        journal.prune(later(), ignore_projections=["sean"])
    assert journal.prune(later(), ignore_projections=["seen"], actor="ada").runs == 2
    events = [e for _, e in journal.subscribe(topics=["audit.runs_pruned"], follow=False)]
    assert [(e.ignored_projections, e.actor) for e in events] == [((), None), (("seen",), "ada")]  # type: ignore[attr-defined]


def test_what_is_held_does_not_starve_the_rest(journal: Journal) -> None:
    names = [f"held-{n}" for n in range(5)]
    end(journal, *names, delivery_ref="inbox")
    end(journal, "free")
    done = journal.prune(later(), limit=1)
    assert (done.run_ids, done.held) == (["free"], {"undelivered": 5})


def test_parent_goes_after_its_children(journal: Journal) -> None:
    end(journal, "parent")
    end(journal, "done-child", parent_run_id="parent")
    ledger = journal.ledger()
    ledger.start("child", parent_run_id="parent")
    done = journal.prune_all(later())
    assert (done.run_ids, done.held) == (["done-child"], {"live_child": 1})
    assert "'child'" in done.held_runs[0].detail
    ledger.cancel("child")
    assert journal.prune_all(later()).run_ids == ["parent", "child"]


def test_prune_stops_when_told_to(journal: Journal) -> None:
    end(journal, *"abcde")
    stop = threading.Event()
    batches: list[int] = []

    def told(batch: Any) -> None:
        batches.append(batch.runs)
        stop.set()

    done = journal.prune_all(later(), limit=2, progress=told, interrupt=stop)
    assert (done.runs, done.done, batches) == (2, False, [2])
    assert journal.prune_all(later(), limit=2).runs == 3


def test_damaged_runs_stay_as_evidence(database_url: str, tmp_path: Any) -> None:
    from ..verifying.conftest import behind_its_back

    with open_journal(database_url) as journal:
        end(journal, "a", "b", "c")
        ours = behind_its_back(database_url)
        ours("UPDATE runs SET body = ? WHERE run_id = 'a'", b"\xff")
        ours("UPDATE events SET state = ? WHERE stream = 'run/b' AND version = 2", b"\xff")
        done = journal.prune_all(later(), archive=tmp_path / "archive")
        assert (done.run_ids, done.held) == (["c"], {"damaged": 2})


def test_two_prunes_at_once(database_url: str) -> None:
    with open_journal(database_url) as journal, open_journal(database_url) as other:
        names = [f"run-{n}" for n in range(40)]
        end(journal, *names)
        gone: list[str] = []

        def prune(one: Journal) -> None:
            gone.extend(one.prune_all(later(), limit=3).run_ids)

        threads = [threading.Thread(target=prune, args=(one,)) for one in (journal, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # What was locked by the other at the moment was passed over; nothing went twice.
        assert len(gone) == len(set(gone))
        journal.prune_all(later())
        assert journal.runs() == []
        assert journal.verify().findings == []
