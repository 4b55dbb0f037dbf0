"""What a worker does with async handlers, with handlers that raise, and with authorities."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from runjournal import (
    Journal,
    RetryPolicy,
    RunInterrupted,
    RunRecord,
    RunStoreError,
    Worker,
    WorkerContext,
    open_journal,
)

LONG = 20.0
WaitUntil = Callable[[Callable[[], Any]], None]


@pytest.fixture(params=["memory:", "sqlite"])
def journal(request: pytest.FixtureRequest, sqlite_url: str) -> Iterator[Journal]:
    with open_journal("memory:" if request.param == "memory:" else sqlite_url) as journal:
        yield journal


def releases(journal: Journal, run_id: str = "r") -> list[Any]:
    return [e for e in journal.events(run_id) if e.topic == "run.lease_released"]


def work(worker: Worker, wait_until: WaitUntil) -> RunRecord:
    """Run the worker once something is due."""
    found: list[RunRecord] = []
    wait_until(lambda: found.extend(r for r in [worker.run_once()] if r) or found)
    return found[0]


# Async handlers.


async def double(ctx: WorkerContext, by: int = 2) -> int:
    await asyncio.sleep(0)
    return int(ctx.input * by)


class Tripled:
    async def __call__(self, ctx: WorkerContext) -> int:
        return await double(ctx, 3)


@pytest.mark.parametrize(
    ("handler", "result"),
    [(double, 42), (functools.partial(double, by=4), 84), (Tripled(), 63)],
    ids=["function", "partial", "object"],
)
def test_a_handler_may_be_async(journal: Journal, handler: Any, result: int) -> None:
    journal.ledger().start("r", input=21)
    Worker(journal, handler).run_once()
    assert list(journal.events("r"))[-1].result == result  # type: ignore[attr-defined]


def test_an_async_handler_that_raises_fails_the_run(journal: Journal) -> None:
    async def handler(ctx: WorkerContext) -> None:
        await asyncio.sleep(0)
        raise ValueError("no such table")

    journal.ledger().start("r")
    record = Worker(journal, handler).run_once()
    assert record is not None
    assert record.outcome is not None
    assert record.outcome.message == "ValueError: no such table"


class Stopped:
    """An async handler that is stopped by `cause` while it waits, and what it does then."""

    def __init__(self, cause: Callable[[Journal, threading.Event], Any], then: Any) -> None:
        self.cause, self.then = cause, then
        self.cancelled = False

    def run(self, journal: Journal) -> RunRecord:
        interrupt = threading.Event()

        async def handler(ctx: WorkerContext) -> Any:
            self.cause(journal, interrupt)
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                self.cancelled = True
                return await self.then(ctx)

        journal.ledger().start("r")
        record = Worker(journal, handler, lease_ttl=0.6).run_once(interrupt=interrupt)
        assert record is not None
        assert self.cancelled
        return record


def interrupted(_: Journal, interrupt: threading.Event) -> None:
    interrupt.set()


async def pass_on(ctx: WorkerContext) -> None:
    raise asyncio.CancelledError


async def return_something(ctx: WorkerContext) -> str:
    await asyncio.sleep(0.01)  # cleaning up may take its time
    return "half done"


async def complete(ctx: WorkerContext) -> None:
    ctx.lease.complete("done all the same")


@pytest.mark.parametrize(
    ("then", "status"), [(pass_on, "queued"), (return_something, "queued"), (complete, "completed")]
)
def test_an_interrupt_cancels_an_async_handler(journal: Journal, then: Any, status: str) -> None:
    record = Stopped(interrupted, then).run(journal)
    assert (record.status, record.failures) == (status, 0)
    assert [e.reason for e in releases(journal)] == ["shutdown"] * (status == "queued")


def test_a_cancelled_run_cancels_its_async_handler(journal: Journal) -> None:
    stopped = Stopped(lambda journal, _: journal.ledger().cancel("r"), pass_on)
    assert stopped.run(journal).status == "cancelled"


def test_a_finished_async_handler_is_not_taken_for_a_stopped_one(journal: Journal) -> None:
    """The stop comes while it blocks its loop, and it returns before it could be cancelled."""
    interrupt = threading.Event()

    async def handler(ctx: WorkerContext) -> str:
        interrupt.set()
        while ctx.stop.reason is None:
            time.sleep(0.001)
        return "finished"

    journal.ledger().start("r")
    record = Worker(journal, handler).run_once(interrupt=interrupt)
    assert record is not None
    assert record.status == "completed"


# Retries.


class Exploding:
    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    def __call__(self, ctx: WorkerContext) -> str:
        if self.errors:
            raise self.errors.pop(0)
        return "at last"


def test_a_handler_that_raises_is_tried_again(journal: Journal, wait_until: WaitUntil) -> None:
    journal.ledger().start("r")
    handler = Exploding(ValueError("one"), KeyError("two"))
    worker = Worker(journal, handler, retry=RetryPolicy(3, backoff=0.01))
    first = work(worker, wait_until)
    assert (first.status, first.failures, first.last_error) == ("queued", 1, "ValueError: one")
    assert work(worker, wait_until).failures == 2
    assert work(worker, wait_until).status == "completed"
    assert [(e.reason, e.error) for e in releases(journal)] == [
        ("handler error", "ValueError: one"),
        ("handler error", "KeyError: 'two'"),
    ]


def test_the_last_attempt_fails_the_run_and_says_how_many_there_were(
    journal: Journal, wait_until: WaitUntil
) -> None:
    journal.ledger().start("r")
    handler = Exploding(*(ValueError(str(n)) for n in range(9)))
    worker = Worker(journal, handler, retry=RetryPolicy(3, backoff=0.01))
    while not (record := work(worker, wait_until)).is_terminal:
        pass
    assert record.outcome is not None
    assert (record.status, record.outcome.code) == ("failed", "handler_error")
    assert record.outcome.message == "gave up after 3 failed attempts: ValueError: 2"
    assert len(handler.errors) == 6


def test_what_is_given_up_on_fails_at_once(journal: Journal) -> None:
    journal.ledger().start("r")
    retry = RetryPolicy(9, give_up_on=(LookupError,))
    record = Worker(journal, Exploding(KeyError("x")), retry=retry).run_once()
    assert record is not None
    assert record.outcome is not None
    assert record.outcome.message == "KeyError: 'x'"


@pytest.mark.parametrize("stop", [RunInterrupted(), asyncio.CancelledError()])
def test_an_interruption_is_no_failure_and_is_not_put_off(
    journal: Journal, stop: BaseException
) -> None:
    journal.ledger().start("r")
    record = Worker(journal, Exploding(stop), retry=RetryPolicy(1)).run_once()
    assert record is not None
    assert (record.status, record.failures, record.available_at) == ("queued", 0, None)


def test_the_pause_is_measured_on_the_stores_clock(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host whose clock is wrong neither delays a retry nor makes a hot loop of it."""
    store_time = datetime.now(UTC) + timedelta(seconds=30)  # within the lease
    monkeypatch.setattr(journal.store, "now", lambda: store_time)
    journal.ledger().start("r")
    record = Worker(journal, Exploding(ValueError()), retry=RetryPolicy(2)).run_once()
    assert record is not None
    assert record.available_at is not None
    assert store_time <= record.available_at <= store_time + timedelta(seconds=1)


def test_pauses_double_up_to_the_bound_and_differ() -> None:
    retry = RetryPolicy(99, backoff=timedelta(seconds=2), max_backoff=60)
    assert [retry.longest_pause(n) for n in (1, 2, 3, 6, 7, 9**9)] == [2, 4, 8, 60, 60, 60]
    drawn = [retry.pause(3).total_seconds() for _ in range(200)]
    assert min(drawn) < 2 < 6 < max(drawn) <= 8


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attempts": 2, "backoff": 0},
        {"max_attempts": 2, "max_backoff": float("nan")},
        {"max_attempts": 2, "give_up_on": [ValueError]},
        {"max_attempts": 2, "give_up_on": ("ValueError",)},
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(RunStoreError) as caught:
        RetryPolicy(**wrong)
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_without_words_is_an_error_like_any_other(journal: Journal) -> None:
    journal.ledger().start("r")
    record = Worker(journal, Exploding(WordlessError())).run_once()
    assert record is not None
    assert record.outcome is not None
    assert record.outcome.message == "WordlessError"


# Authorities.


class Sessions:
    """An authority resolver that knows some names."""

    def __init__(self, **known: object) -> None:
        self.known = known
        self.error: Exception | None = None

    def resolve(self, record: RunRecord) -> object | None:
        if self.error is not None:
            raise self.error
        return self.known.get(record.authority_ref or "")


def test_a_handler_gets_the_authority_of_its_run(journal: Journal) -> None:
    seen: list[Any] = []
    journal.ledger().start("r", authority_ref="alice")
    worker = Worker(
        journal, lambda ctx: seen.append(ctx.authority), authority=Sessions(alice="her session")
    )
    worker.run_once()
    assert seen == ["her session"]


def test_without_a_resolver_there_is_no_authority(journal: Journal) -> None:
    journal.ledger().start("r", authority_ref="alice")
    Worker(journal, lambda ctx: ctx.authority is None).run_once()
    assert list(journal.events("r"))[-1].result is True  # type: ignore[attr-defined]


@pytest.mark.parametrize("authority_ref", ["bob", None])
def test_a_run_without_an_authority_is_put_off(journal: Journal, authority_ref: str | None) -> None:
    called: list[Any] = []
    journal.ledger().start("r", authority_ref=authority_ref)
    worker = Worker(journal, called.append, authority=Sessions(), retry=RetryPolicy(1))
    record = worker.run_once()
    assert record is not None
    assert (record.status, record.failures, called) == ("queued", 0, [])
    assert [e.reason for e in releases(journal)] == ["authority unavailable"]
    assert record.available_at is not None
    assert record.available_at > record.updated_at
    assert worker.run_once() is None


def test_the_text_of_a_resolver_that_raises_is_kept(journal: Journal) -> None:
    journal.ledger().start("r", authority_ref="alice")
    sessions = Sessions()
    sessions.error = LookupError("the session store is away \ud800")
    Worker(journal, lambda ctx: None, authority=sessions).run_once()
    text = "authority unavailable: LookupError: the session store is away \\ud800"
    assert [e.reason for e in releases(journal)] == [text]


def test_it_is_put_off_for_longer_each_time_until_the_authority_is_back(journal: Journal) -> None:
    """Each pause is between a half and the whole of 2, 4, 8 ... seconds; other work resets it."""
    ledger, sessions = journal.ledger(), Sessions()
    ledger.start("r", authority_ref="alice")
    worker = Worker(journal, lambda ctx: ctx.lease.release(), authority=sessions)
    worker.ledger.claim = lambda **_: ledger.acquire("r")  # type: ignore[method-assign,assignment,misc]
    pauses = []
    for turn in range(5):
        sessions.known = {"alice": "back"} if turn == 3 else {}
        record = worker.run_once()
        assert record is not None
        if record.available_at is not None:
            pauses.append((record.available_at - record.updated_at).total_seconds())
    bounds = [2, 4, 8, 2]
    assert all(most / 2.1 <= p <= most for p, most in zip(pauses, bounds, strict=True)), pauses


def test_a_resolver_that_hangs_is_stopped_like_a_handler(journal: Journal) -> None:
    interrupt, let_go = threading.Event(), threading.Event()

    class Hanging:
        def resolve(self, record: RunRecord) -> None:
            interrupt.set()
            let_go.wait(LONG)

    journal.ledger().start("r")
    worker = Worker(journal, lambda ctx: None, authority=Hanging(), grace=0.05)
    record = worker.run_once(interrupt=interrupt)
    let_go.set()
    assert record is not None
    assert record.status == "running"


def test_the_log_says_where_a_handler_raised(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    def parse(text: str) -> int:
        return int(text)

    def handler(_ctx: WorkerContext) -> int:
        return parse("no number")

    journal.ledger().start("r")
    with caplog.at_level(logging.WARNING, logger="runjournal.worker"):
        record = Worker(journal, handler).run_once()
    (line,) = caplog.messages
    assert line.startswith("run r: its handler raised ValueError: invalid literal")
    name = Path(__file__).name
    assert re.search(rf"\({name}:\d+ in handler, {name}:\d+ in parse\)$", line)
    assert record is not None
    assert record.outcome is not None
    assert name not in str(record.outcome)
