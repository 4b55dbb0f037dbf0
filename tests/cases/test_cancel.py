"""Cases of cancel against completion, and of outcomes told wrongly."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from runjournal import Journal, RunRecord, RunStoreError, Worker, WorkerContext, open_journal
from runjournal.adapters.contract.tools import race, refused
from runjournal.domain.delivery import DELIVERY_STREAM, delivery_invocation_id

PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
Verify = Callable[[Journal, str], None]
OutboxRows = Callable[[Journal, str], list[tuple[str, str]]]


def topics(journal: Journal, run_id: str = "r") -> list[str]:
    return [e.topic.removeprefix("run.") for e in journal.events(run_id)]


def test_case_23_cancel_races_with_completion(
    journal_url: str, verify_run: Verify, outbox_rows: OutboxRows
) -> None:
    """One of them ends the run, the other is told who did, and the outbox says the same."""
    faster = "?synchronous=normal" if journal_url.startswith("sqlite") else ""
    with open_journal(journal_url + faster) as journal:
        for number in range(500 if PROVE else 150):
            name = f"run-{number}"
            ledger = journal.ledger(owner="worker")
            operator = journal.ledger(owner="operator")
            ledger.start(name, delivery_ref="hook")
            lease = ledger.acquire(name, heartbeat=False)
            calls: list[Callable[[], RunRecord]] = [
                lease.complete,
                lambda name=name, operator=operator: operator.cancel(name, actor="ada"),
            ]
            turn = number % 2  # each of them is the first to be let go half of the time
            answers = race(2, lambda i, calls=calls, turn=turn: calls[(i + turn) % 2]())
            completed, cancelled = answers[turn], answers[1 - turn]
            record = journal.get(name)
            assert record is not None
            if isinstance(completed, RunRecord):
                assert record.status == "completed"
                assert isinstance(cancelled, RunStoreError)
                cause = (cancelled.code, cancelled.reason)
                assert cause == ("RUN_ALREADY_TERMINAL", "completed")
            else:
                assert record.status == "cancelled"
                assert isinstance(cancelled, RunRecord)
                assert (completed.code, completed.reason) == ("RUN_LEASE_LOST", "cancelled")
            assert len(topics(journal, name)) == 3
            verify_run(journal, name)
            assert_delivery(journal, record, outbox_rows)


@pytest.mark.parametrize("first", ["complete", "cancel"])
def test_case_23_either_order(
    journal: Journal, verify_run: Verify, outbox_rows: OutboxRows, first: str
) -> None:
    ledger = journal.ledger(owner="worker")
    ledger.start("r", delivery_ref="hook")
    lease = ledger.acquire("r", heartbeat=False)
    if first == "complete":
        record = lease.complete("kept")
        with refused("RUN_ALREADY_TERMINAL", "completed") as caught:
            ledger.cancel("r")
    else:
        record = ledger.cancel("r", "no longer wanted", actor="ada")
        with refused("RUN_LEASE_LOST", "cancelled") as caught:
            lease.complete("dropped")
    assert caught.value.record == record == journal.get("r")
    assert_delivery(journal, record, outbox_rows)
    verify_run(journal, "r")


def assert_delivery(journal: Journal, record: RunRecord, outbox_rows: OutboxRows) -> None:
    """One request to deliver, in stream and outbox, and it names the event that ended the run."""
    assert record.delivery_ref is not None
    invocation_id = delivery_invocation_id(record.run_id, record.delivery_ref)
    assert outbox_rows(journal, record.run_id) == [(invocation_id, "pending")]
    (stored,) = journal.application.recorder.select_events(DELIVERY_STREAM + invocation_id)
    request: Any = journal.application.mapper.to_domain_event(stored)
    assert request.originator_version == 1
    assert (request.run_id, request.terminal_version) == (record.run_id, record.version)


class Handler:
    """Works until it is told how to end; without `told` it waits for the stop signal."""

    def __init__(self, error: BaseException, told: threading.Event | None = None) -> None:
        self.error = error
        self.told = told
        self.started = threading.Event()

    def __call__(self, ctx: WorkerContext) -> None:
        self.started.set()
        if self.told is None:
            assert ctx.stop.wait(30)
            assert ctx.stop.reason == "cancelled"
        else:
            assert self.told.wait(30)
        raise self.error


@pytest.mark.parametrize("notices", [True, False], ids=["noticed", "unnoticed"])
@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), ValueError("disk is full")], ids=repr
)
def test_case_27_a_cancelled_run_is_not_a_failed_one(
    journal: Journal,
    verify_run: Verify,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    notices: bool,
) -> None:
    """Whatever the handler does after a cancel: the run stays cancelled, with who and why.

    An error of the handler's own does not change that, and is kept in the log.
    """
    journal.ledger().start("r")
    told = None if notices else threading.Event()
    handler = Handler(error, told)
    worker = Worker(journal, handler, lease_ttl=0.6 if notices else 60.0)
    with ThreadPoolExecutor(1) as pool, caplog.at_level(logging.WARNING, "runjournal.worker"):
        work = pool.submit(worker.run_once)
        assert handler.started.wait(30)
        journal.ledger().cancel("r", "superseded", actor="ada")
        if told is not None:
            told.set()
        record = work.result(30)
    assert record is not None
    assert record.status == "cancelled"
    assert record.outcome is not None
    assert (record.outcome.code, record.outcome.message) == ("cancelled", "superseded")
    assert (record.failures, record.last_error) == (0, None)
    assert topics(journal) == ["queued", "lease_granted", "cancelled"]
    assert [e.actor for e in journal.events("r")][-1] == "ada"
    kept = [r.getMessage() for r in caplog.records if "ValueError: disk is full" in r.getMessage()]
    assert len(kept) == isinstance(error, ValueError)
    verify_run(journal, "r")


@pytest.mark.parametrize(
    ("error", "status"),
    [(asyncio.CancelledError(), "queued"), (KeyboardInterrupt(), "queued"), (OSError(), "failed")],
    ids=repr,
)
def test_case_27_without_a_cancel(journal: Journal, error: BaseException, status: str) -> None:
    """An interruption that nobody asked for hands the run back; an error fails it."""
    journal.ledger().start("r")
    told = threading.Event()
    told.set()
    record = Worker(journal, Handler(error, told)).run_once()
    assert record is not None
    assert record.status == status
