"""NOTIFY wakes a waiting worker; polling finds the work all the same when it does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from runjournal import open_journal

LONG = 30.0


def listening(journal: Any) -> bool:
    return bool(journal.store.listener.connects)


def waiting(journal: Any, timeout: float, results: list[bool]) -> threading.Thread:
    thread = threading.Thread(target=lambda: results.append(journal.wait_for_work(timeout)))
    thread.start()
    return thread


def test_start_wakes_a_waiting_worker(
    postgres_url: str, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    with open_journal(postgres_url, notify=True) as journal, open_journal(postgres_url) as worker:
        worker.wait_for_work(0.01)
        wait_until(lambda: listening(worker))
        woken: list[bool] = []
        thread = waiting(worker, LONG, woken)
        while thread.is_alive():  # the waiting may have begun after a first NOTIFY
            journal.ledger().start(f"run-{time.monotonic_ns()}")
            thread.join(0.05)
        assert woken == [True]
        assert worker.ledger().claim() is not None


def test_release_and_resume_wake_and_checkpoints_do_not(postgres_url: str) -> None:
    with (
        open_journal(postgres_url, notify=True) as journal,
        psycopg.connect(postgres_url, autocommit=True) as conn,
    ):
        ledger = journal.ledger()
        ledger.start("run")
        conn.execute(f'LISTEN "{journal.store.database.channel}"'.encode())

        def told() -> int:
            conn.execute("SELECT 1")
            return len(list(conn.notifies(timeout=0.2)))

        lease = ledger.acquire("run")
        lease.save_checkpoint({"n": 1})
        lease.renew()
        assert told() == 0
        lease.release()
        assert told() == 1
        ledger.acquire("run").suspend()
        assert told() == 0
        ledger.request_resume("run")
        assert told() == 1


def test_last_decision_wakes_a_waiting_worker(
    postgres_url: str, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    """The last one and no other."""
    with (
        open_journal(postgres_url, notify=True) as deciders,
        open_journal(postgres_url) as worker,
    ):
        ledger = deciders.ledger()
        ledger.acquire("run").suspend(["a", "b"], resume_when_decided=True)
        wait_until(lambda: worker.wait_for_work(0.05))  # it is told once, when it begins to listen
        ledger.record_decision("run", "a", "yes")
        assert not worker.wait_for_work(0.3)
        with ThreadPoolExecutor(1) as pool:
            begin = time.monotonic()
            last = pool.submit(ledger.record_decision, "run", "b", "yes")
            assert worker.wait_for_work(LONG)
            assert time.monotonic() - begin < LONG / 2
            assert last.result(LONG).status == "queued"
        lease = worker.ledger().claim()
        assert lease is not None
        assert lease.record.approvals == {"a": "yes", "b": "yes"}


def test_what_is_told_between_look_and_wait_is_not_slept_through(
    postgres_url: str, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    with open_journal(postgres_url, notify=True) as journal:
        wait_until(lambda: journal.wait_for_work(0.05))
        assert journal.ledger().claim() is None
        other = waiting(journal, LONG, [])
        while other.is_alive():  # once the other thread was told, the journal has heard of it
            journal.ledger().start(f"run-{time.monotonic_ns()}")
            other.join(0.05)
        begin = time.monotonic()
        assert journal.wait_for_work(LONG)
        assert time.monotonic() - begin < LONG / 2


def test_journal_that_does_not_notify_says_nothing(postgres_url: str) -> None:
    with (
        open_journal(postgres_url) as journal,
        psycopg.connect(postgres_url, autocommit=True) as conn,
    ):
        conn.execute(f'LISTEN "{journal.store.database.channel}"'.encode())
        journal.ledger().start("run")
        assert list(conn.notifies(timeout=0.2)) == []
        assert journal.wait_for_work(0.01) in (False, True)
        assert journal.ledger().claim() is not None


def test_case_59_a_killed_listener_comes_back(
    postgres_url: str, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    with open_journal(postgres_url, notify=True) as journal:
        journal.wait_for_work(0.01)
        listener = journal.store.listener
        wait_until(lambda: listener.connects == 1)
        with psycopg.connect(postgres_url, autocommit=True) as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            )
            # Polling does not depend on it.
            journal.ledger().start("run")
            assert journal.ledger().claim() is not None
            wait_until(lambda: listener.connects == 2)
        woken: list[bool] = []
        thread = waiting(journal, LONG, woken)
        while thread.is_alive():
            journal.ledger().start(f"run-{time.monotonic_ns()}")
            thread.join(0.05)
        assert woken == [True]


def test_other_backends_only_wait(sqlite_url: str) -> None:
    with open_journal(sqlite_url) as journal:
        assert journal.wait_for_work(0.01) is False
