"""Worker.run_once: every way a handler can end, and every reason to stop it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from runjournal import (
    Journal,
    RunInterrupted,
    RunStoreError,
    Worker,
    WorkerContext,
    open_journal,
)

LONG = 20.0


@pytest.fixture(params=["memory:", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Journal]:
    url = "memory:" if request.param == "memory:" else f"sqlite:///{tmp_path}/runs.db"
    with open_journal(url) as journal:
        yield journal


def topics(journal: Journal, run_id: str = "r") -> list[str]:
    return [event.topic for event in journal.events(run_id)]


def test_nothing_due_is_none(journal: Journal) -> None:
    assert Worker(journal, lambda ctx: None).run_once() is None


def test_returned_result_completes_the_run(journal: Journal) -> None:
    seen: list[Any] = []

    def handler(ctx: WorkerContext) -> dict[str, int]:
        seen.append((ctx.run_id, ctx.input, ctx.checkpoint, ctx.lease.held, ctx.stop.reason))
        ctx.ensure_held()
        ctx.save_checkpoint({"n": 1})
        return {"rows": 3}

    journal.ledger().start("r", kind="etl", input={"x": 1})
    worker = Worker(journal, handler)
    assert worker.run_once(kinds=["other"]) is None
    record = worker.run_once(kinds=["etl"])
    assert record is not None
    assert (record.status, record.outcome and record.outcome.code) == ("completed", "ok")
    assert seen == [("r", {"x": 1}, None, True, None)]
    assert list(journal.events("r"))[-1].result == {"rows": 3}


def test_next_worker_goes_on_from_the_checkpoint(journal: Journal) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    first = journal.ledger(owner="first", lease_ttl=10, clock=lambda: now)
    first.acquire("r", heartbeat=False).save_checkpoint({"offset": 7})
    found: list[Any] = []
    # The first lease lies in the past of the store's own clock: it has expired.
    Worker(journal, lambda ctx: found.append((ctx.checkpoint, ctx.lease.attempt))).run_once()
    assert found == [({"offset": 7}, 2)]


def test_raised_error_fails_the_run_without_a_traceback(journal: Journal) -> None:
    def handler(ctx: WorkerContext) -> None:
        raise ValueError("no such table")

    journal.ledger().start("r")
    record = Worker(journal, handler).run_once()
    assert record is not None
    assert record.outcome is not None
    assert record.status == "failed"
    assert (record.outcome.code, record.outcome.message) == (
        "handler_error",
        "ValueError: no such table",
    )


@pytest.mark.parametrize("text", ["a \ud800 surrogate", "a \x00 nul", "x" * 100_000])
def test_no_error_text_stops_the_failure_from_landing(journal: Journal, text: str) -> None:
    def handler(ctx: WorkerContext) -> None:
        raise ValueError(text)

    journal.ledger().start("r")
    record = Worker(journal, handler).run_once()
    assert record is not None
    assert record.status == "failed"


def test_result_that_is_no_json_fails_the_run(journal: Journal) -> None:
    journal.ledger().start("r")
    record = Worker(journal, lambda ctx: {1, 2}).run_once()
    assert record is not None
    assert record.outcome is not None
    assert (record.status, record.outcome.code) == ("failed", "invalid_result")
    assert "result is a set" in (record.outcome.message or "")


def test_handler_may_end_the_lease_itself(journal: Journal) -> None:
    journal.ledger().start("r")
    record = Worker(journal, lambda ctx: ctx.lease.suspend(["a1"])).run_once()
    assert record is not None
    assert record.status == "suspended"
    assert topics(journal) == ["run.queued", "run.lease_granted", "run.suspended"]


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_interruption_inside_the_handler_releases(
    journal: Journal, error: type[BaseException]
) -> None:
    def handler(ctx: WorkerContext) -> None:
        raise error

    journal.ledger().start("r")
    record = Worker(journal, handler).run_once()
    assert record is not None
    assert (record.status, record.failures) == ("queued", 0)
    assert topics(journal)[-1] == "run.lease_released"


def stopped_by(journal: Journal, handler: Any, cause: Any, **options: Any) -> Any:
    """Run the handler, do `cause(interrupt)` once it works, and return the record."""
    started, interrupt = threading.Event(), threading.Event()

    def working(ctx: WorkerContext) -> Any:
        started.set()
        return handler(ctx)

    def cause_it() -> None:
        assert started.wait(LONG)
        cause(interrupt)

    thread = threading.Thread(target=cause_it)
    thread.start()
    try:
        return Worker(journal, working, **options).run_once(interrupt=interrupt)
    finally:
        thread.join(LONG)


def test_interrupt_releases_a_handler_that_lets_it_pass(journal: Journal) -> None:
    reasons: list[Any] = []

    def handler(ctx: WorkerContext) -> None:
        ctx.stop.wait(LONG)
        reasons.append(ctx.stop.reason)
        with pytest.raises(RunInterrupted):
            ctx.ensure_held()
        ctx.ensure_held()

    journal.ledger().start("r")
    record = stopped_by(journal, handler, lambda interrupt: interrupt.set())
    assert record.status == "queued"
    assert reasons == ["interrupted"]
    assert topics(journal)[-1] == "run.lease_released"


def test_handler_that_saw_the_stop_and_returns_has_not_finished(journal: Journal) -> None:
    journal.ledger().start("r")
    record = stopped_by(journal, lambda ctx: ctx.stop.wait(LONG), lambda interrupt: interrupt.set())
    assert record.status == "queued"


def test_handler_that_saw_the_stop_may_still_complete(journal: Journal) -> None:
    def handler(ctx: WorkerContext) -> None:
        ctx.stop.wait(LONG)
        ctx.lease.complete({"done": True})

    journal.ledger().start("r")
    record = stopped_by(journal, handler, lambda interrupt: interrupt.set())
    assert record.status == "completed"


def test_stubborn_handler_is_given_up_and_fenced(journal: Journal) -> None:
    let_go, late = threading.Event(), []

    def handler(ctx: WorkerContext) -> str:
        let_go.wait(LONG)
        for write in (lambda: ctx.save_checkpoint(1), lambda: ctx.lease.complete("late")):
            with pytest.raises(RunStoreError) as caught:
                write()
            late.append((caught.value.code, caught.value.reason))
        let_go.clear()
        return "late"

    journal.ledger().start("r")
    record = stopped_by(journal, handler, lambda interrupt: interrupt.set(), grace=0.05)
    assert (record.status, record.lease.ttl) == ("running", 60)
    before = topics(journal)
    let_go.set()
    deadline = threading.Event()
    while len(late) < 2 and not deadline.wait(0.01):
        pass
    assert late == [("RUN_LEASE_LOST", "abandoned")] * 2
    assert topics(journal) == before
    expired = record.lease.expires_at + timedelta(seconds=1)
    with journal.ledger(clock=lambda: expired).acquire("r", heartbeat=False) as second:
        assert (second.attempt, second.fencing_token) == (2, 2)
        second.complete("the second's")
    assert topics(journal) == [*before, "run.lease_granted", "run.completed"]


def test_cancel_reaches_the_handler_within_a_beat(journal: Journal) -> None:
    reasons: list[Any] = []

    def handler(ctx: WorkerContext) -> None:
        ctx.stop.wait(LONG)
        reasons.append(ctx.stop.reason)
        with pytest.raises(RunStoreError) as caught:
            ctx.ensure_held()
        assert caught.value.reason == "cancelled"

    journal.ledger().start("r")
    record = stopped_by(
        journal,
        handler,
        lambda _: journal.ledger().cancel("r", actor="ops"),
        lease_ttl=timedelta(seconds=1.5),
    )
    assert record.status == "cancelled"
    assert reasons == ["cancelled"]


def test_error_after_a_cancel_is_kept_in_the_log(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(ctx: WorkerContext) -> None:
        ctx.stop.wait(LONG)
        raise ValueError("its own trouble")

    journal.ledger().start("r")
    with caplog.at_level(logging.WARNING, logger="runjournal.worker"):
        record = stopped_by(journal, handler, lambda _: journal.ledger().cancel("r"), lease_ttl=1.5)
    assert record.status == "cancelled"
    assert "ValueError: its own trouble" in caplog.text


def test_stopped_heartbeat_stops_the_handler_when_trust_ends(journal: Journal) -> None:
    def handler(ctx: WorkerContext) -> str:
        ctx.lease.stop_heartbeat()
        assert ctx.stop.wait(LONG)
        assert ctx.stop.reason == "lease lost"
        return "never written"

    journal.ledger().start("r")
    worker = Worker(journal, handler, lease_ttl=0.5)
    record = worker.run_once()
    assert record is not None
    assert "run.completed" not in topics(journal)


def test_run_whose_events_cannot_be_read_is_set_aside(journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.start("r")
    ledger.start("good")
    store = journal.store
    if hasattr(store, "database"):
        with store.database.writing() as conn:
            conn.execute("UPDATE events SET topic = 'run.unheard_of' WHERE stream = 'run/r'")
    else:
        event = store.tables.streams["run/r"][1]
        object.__setattr__(event, "topic", "run.unheard_of")
    worker = Worker(journal, lambda ctx: "done")
    records = [worker.run_once(), worker.run_once(), worker.run_once()]
    assert [r and (r.run_id, r.status) for r in records] == [
        ("r", "queued"),
        ("good", "completed"),
        None,
    ]
    assert [mark.run_id for mark in journal.attention()] == ["r"]


def test_handler_must_be_callable(journal: Journal) -> None:
    with pytest.raises(RunStoreError, match="must be callable"):
        Worker(journal, "no handler")  # type: ignore[arg-type]


def test_loss_of_another_runs_lease_is_an_error_like_any_other(journal: Journal) -> None:
    def handler(ctx: WorkerContext) -> None:
        other = journal.ledger(owner="nested").acquire("other")
        journal.ledger().cancel("other")
        other.save_checkpoint(1)

    journal.ledger().start("r")
    record = Worker(journal, handler).run_once(kinds=["default"])
    assert record is not None
    assert record.outcome is not None
    assert (record.status, record.outcome.code) == ("failed", "handler_error")
