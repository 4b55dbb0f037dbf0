"""Worker.run: how many at once, when it asks the store, and how it ends."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from runjournal import Journal, RunLedger, RunStoreError, Worker, WorkerContext, open_journal
from runjournal.adapters import slots

LONG = 20.0
WaitUntil = Callable[[Callable[[], Any]], None]
everywhere = pytest.mark.parametrize("journal_url", ["memory", "sqlite", "postgres"], indirect=True)
BUSY = RunStoreError("RUN_STORE_UNAVAILABLE", "busy", "the store is away")


@pytest.fixture(params=["memory", "sqlite"])
def journal_url(request: pytest.FixtureRequest) -> str:
    """Without Postgres where nothing depends on the backend."""
    if request.param == "memory":
        return "memory:"
    return str(request.getfixturevalue(f"{request.param}_url"))


@contextmanager
def running(worker: Worker, **options: Any) -> Iterator[list[Any]]:
    """`worker.run` in a thread, stopped at the end of the block; then the list has its result."""
    interrupt, results = threading.Event(), list[Any]()

    def run() -> None:
        try:
            results.append(worker.run(interrupt=interrupt, **options))
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield results
    finally:
        interrupt.set()
        thread.join(LONG)
    assert not thread.is_alive()


def reasons(journal: Journal, run_id: str) -> list[str | None]:
    return [e.reason for e in journal.events(run_id) if e.topic == "run.lease_released"]  # type: ignore[attr-defined]


class Counted:
    """Counts the calls of a store's method, and may have it raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.error: Exception | None = None
        real = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((args, kwargs))
            if self.error is not None:
                raise self.error
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)


@everywhere
def test_as_many_at_once_as_asked_for_and_no_more(
    journal: Journal, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, now, most, hold = threading.Lock(), 0, 0, threading.Event()

    def handler(ctx: WorkerContext) -> str:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if most < 3:
            hold.wait(LONG)
        hold.set()
        time.sleep(0.02)  # long enough for one too many to be claimed meanwhile
        with lock:
            now -= 1
        return ctx.run_id

    for number in range(12):
        journal.ledger().start(f"run-{number}")
    claims = Counted(monkeypatch, journal.store, "claim")
    with running(Worker(journal, handler), concurrency=3, poll=0.05) as results:
        wait_until(lambda: all(r.is_terminal for r in journal.runs()))
    assert most == 3
    assert (results[0].runs, results[0].abandoned) == (12, ())
    assert list(journal.events("run-7"))[-1].result == "run-7"  # type: ignore[attr-defined]
    # Each trip asks for as many as there are free slots.
    limits = [args[1] for args, _ in claims.calls]
    assert (limits[0], set(limits) <= {1, 2, 3}) == (3, True)


def test_records_are_told_in_the_callers_thread(journal: Journal, wait_until: WaitUntil) -> None:
    told: list[tuple[str, str]] = []
    for run_id in ("a", "b"):
        journal.ledger().start(run_id, kind=run_id)
    worker = Worker(journal, lambda ctx: threading.current_thread().name)
    with running(
        worker,
        kinds=["b"],
        on_record=lambda r: told.append((r.run_id, threading.current_thread().name)),
    ):
        wait_until(lambda: told)
    ((run_id, thread),) = told
    assert run_id == "b"
    assert not thread.startswith("runjournal-")
    record = journal.get("a")
    assert record is not None
    assert record.status == "queued"


def test_what_the_callback_raises_ends_it_with_the_runs_handed_back(
    journal: Journal, wait_until: WaitUntil
) -> None:
    def broken(record: Any) -> None:
        raise BrokenPipeError

    def handler(ctx: WorkerContext) -> None:
        if ctx.run_id == "slow":
            ctx.stop.wait(LONG)
        else:
            wait_until(lambda: journal.get("slow").lease)  # type: ignore[union-attr]

    journal.ledger().start("slow")
    journal.ledger().start("quick")
    with running(Worker(journal, handler), concurrency=2, on_record=broken) as results:
        wait_until(lambda: results)
    assert isinstance(results[0], BrokenPipeError)
    assert reasons(journal, "slow") == ["shutdown"]


def test_idle_it_asks_ever_more_rarely(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    monkeypatch.setattr(journal.store, "wait_for_work", lambda t: time.sleep(t), raising=False)
    claims = Counted(monkeypatch, journal.store, "claim")
    with running(Worker(journal, lambda ctx: None), poll=0.4):
        # Pauses of at most 0.05, 0.1, 0.2, 0.4, 0.4 seconds, each shortened by up to a half.
        began = time.monotonic()
        wait_until(lambda: len(claims.calls) >= 5)
        taken = time.monotonic() - began
        assert taken > 0.3
        journal.ledger().start("r")
        wait_until(lambda: journal.get("r").is_terminal)  # type: ignore[union-attr]


def test_a_notify_wakes_it(
    postgres_url: str, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "FIRST_PAUSE", 1000.0)
    with (
        open_journal(postgres_url, notify=True) as host,
        open_journal(postgres_url) as journal,
        running(Worker(journal, lambda ctx: None), poll=1000),
    ):
        wait_until(lambda: journal.store.listener.connects)  # type: ignore[attr-defined]
        numbers = itertools.count()

        def taken() -> bool:
            # More than one: the worker may be just about to wait when it is told.
            host.ledger().start(f"run-{next(numbers)}")
            return any(r.is_terminal for r in host.runs())

        wait_until(taken)


def test_a_store_that_is_away_is_asked_rarely_and_never_ends_it(
    journal: Journal,
    wait_until: WaitUntil,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    claims = Counted(monkeypatch, journal.store, "claim")
    claims.error = BUSY
    with (
        caplog.at_level(logging.WARNING, logger="runjournal.worker"),
        running(Worker(journal, lambda ctx: None), poll=0.01) as results,
    ):
        began = time.monotonic()
        wait_until(lambda: len(claims.calls) >= 4)
        assert time.monotonic() - began > 0.35  # 0.1 + 0.2 + 0.4 seconds, less a half at most
        assert not results
        claims.error = None
        journal.ledger().start("r")
        wait_until(lambda: journal.get("r").is_terminal)  # type: ignore[union-attr]
    lines = [r.getMessage() for r in caplog.records if "trying again" in r.getMessage()]
    assert len(lines) == 4
    assert "RUN_STORE_UNAVAILABLE/busy: the store is away" in lines[0]


def test_a_claim_that_goes_well_is_no_way_into_a_hot_loop(
    journal: Journal, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims succeed and what comes after them fails: the pauses grow all the same."""
    journal.ledger().start("r")
    reads = Counted(monkeypatch, journal.store, "read")
    reads.error = BUSY
    with running(Worker(journal, lambda ctx: None), poll=0.01):
        began = time.monotonic()
        wait_until(lambda: len(reads.calls) >= 4)
        assert time.monotonic() - began > 0.35
        reads.error = None
        wait_until(lambda: journal.get("r").is_terminal)  # type: ignore[union-attr]


def test_a_failure_that_does_not_pass_ends_it(
    journal: Journal, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = threading.Event()

    def handler(ctx: WorkerContext) -> None:
        started.set()
        ctx.stop.wait(LONG)

    journal.ledger().start("r")
    claims = Counted(monkeypatch, journal.store, "claim")
    with running(Worker(journal, handler), concurrency=2, poll=0.01) as results:
        assert started.wait(LONG)
        claims.error = RunStoreError("RUN_INTEGRITY_ERROR", "damaged_database", "broken")
        wait_until(lambda: results)
    assert results[0] is claims.error
    assert reasons(journal, "r") == ["shutdown"]


def test_an_end_is_written_once_the_store_is_back(
    journal: Journal, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A moment's outage at the very end does not cost the work."""
    journal.ledger().start("r")
    appends = Counted(monkeypatch, journal.store, "append")

    def handler(ctx: WorkerContext) -> str:
        appends.calls.clear()
        appends.error = BUSY
        return "hours of work"

    with running(Worker(journal, handler)):
        wait_until(lambda: len(appends.calls) >= 3)
        appends.error = None
        wait_until(lambda: journal.get("r").is_terminal)  # type: ignore[union-attr]
    assert [e.topic for e in journal.events("r")] == [
        "run.queued",
        "run.lease_granted",
        "run.completed",
    ]


def test_a_run_whose_end_cannot_be_written_is_not_renewed_for_ever(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be nobody's work, and nobody could take it over, while the process lives."""
    journal.ledger().start("r")
    worker = Worker(journal, lambda ctx: "done")
    claimed = journal.store.claim
    failure = RunStoreError("RUN_INTEGRITY_ERROR", "damaged_database", "broken")

    def claim(*args: Any, **kwargs: Any) -> Any:
        granted = claimed(*args, **kwargs)
        Counted(monkeypatch, journal.store, "append").error = failure
        return granted

    monkeypatch.setattr(journal.store, "claim", claim)
    with pytest.raises(RunStoreError) as caught:
        worker.run_once()
    assert caught.value is failure
    assert worker.ledger.handles == []


@everywhere
def test_stop_hands_back_what_stops_and_leaves_what_does_not_to_its_lease(
    journal: Journal, wait_until: WaitUntil
) -> None:
    stop_reasons: list[str | None] = []
    let_go, refused = threading.Event(), list[str]()

    def handler(ctx: WorkerContext) -> str:
        if ctx.run_id == "stubborn":
            let_go.wait(LONG)
            with pytest.raises(RunStoreError) as caught:
                ctx.save_checkpoint("late")
            refused.append(caught.value.reason)
            return "late"
        ctx.stop.wait(LONG)
        stop_reasons.append(ctx.stop.reason)
        if ctx.run_id == "finisher":
            ctx.lease.complete("just in time")
        ctx.ensure_held()
        return "never"

    for run_id in ("stubborn", "cooperative", "finisher"):
        journal.ledger().start(run_id)
    worker = Worker(journal, handler, owner="first", lease_ttl=1, grace=0.2)
    with running(worker, concurrency=5) as results:
        wait_until(lambda: all(r.lease for r in journal.runs()))
    assert (results[0].runs, results[0].abandoned) == (3, ("stubborn",))
    assert stop_reasons == ["interrupted"] * 2
    assert reasons(journal, "cooperative") == ["shutdown"]
    assert {r.run_id: r.status for r in journal.runs()} == {
        "stubborn": "running",
        "cooperative": "queued",
        "finisher": "completed",
    }
    # Nobody renews it, so another worker takes it over; only then, and with a higher token.
    second = Worker(journal, lambda ctx: ctx.lease.fencing_token, owner="second")
    with running(second, kinds=["default"], poll=0.05):
        wait_until(lambda: journal.get("stubborn").is_terminal)  # type: ignore[union-attr]
        let_go.set()
        wait_until(lambda: refused)
    assert refused == ["abandoned"]
    granted = [e for e in journal.events("stubborn") if e.topic == "run.lease_granted"]
    assert [(e.owner, e.fencing_token, e.attempt) for e in granted] == [  # type: ignore[attr-defined]
        ("first", 1, 1),
        ("second", 2, 2),
    ]
    assert [e.topic for e in journal.events("stubborn")][-1] == "run.completed"


def test_closing_the_journal_leaves_an_abandoned_run_alone(
    sqlite_url: str, wait_until: WaitUntil
) -> None:
    with open_journal(sqlite_url) as journal:
        journal.ledger().start("r")
        interrupt = threading.Event()

        def handler(ctx: WorkerContext) -> None:
            interrupt.set()
            time.sleep(0.5)

        assert Worker(journal, handler, grace=0).run(interrupt=interrupt).abandoned == ("r",)
    with open_journal(sqlite_url) as journal:
        record = journal.get("r")
        assert record is not None
        assert record.status == "running"


def test_a_handler_left_behind_frees_its_slot(journal: Journal, wait_until: WaitUntil) -> None:
    """A cancelled run whose handler does not stop must not keep the others waiting."""
    let_go = threading.Event()

    def handler(ctx: WorkerContext) -> None:
        if ctx.run_id == "cancelled":
            let_go.wait(LONG)

    journal.ledger().start("cancelled")
    with running(Worker(journal, handler, lease_ttl=0.6, grace=0.05), poll=0.05) as results:
        wait_until(lambda: journal.get("cancelled").lease)  # type: ignore[union-attr]
        journal.ledger().start("next")
        journal.ledger().cancel("cancelled")
        wait_until(lambda: journal.get("next").is_terminal)  # type: ignore[union-attr]
    let_go.set()
    assert results[0].abandoned == ()


class Delivery:
    """A result delivery that notes what it was told, and may fail or take its time."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self.hold = threading.Event()
        self.hold.set()

    def deliver_run(self, record: Any) -> None:
        self.told.append((record.run_id, record.status))
        assert self.hold.wait(LONG)
        if self.error is not None:
            raise self.error


def test_what_ended_is_delivered(journal: Journal) -> None:
    def handler(ctx: WorkerContext) -> None:
        if ctx.run_id == "fails":
            raise ValueError("no")
        if ctx.run_id == "waits":
            ctx.lease.suspend(["a"])
        if ctx.run_id == "cancelled":
            journal.ledger().cancel("cancelled")

    for run_id in ("ok", "fails", "waits", "cancelled"):
        journal.ledger().start(run_id, delivery_ref="somewhere")
    journal.ledger().start("nowhere")
    delivery = Delivery()
    worker = Worker(journal, handler, delivery=delivery)
    while worker.run_once() is not None:
        pass
    assert sorted(delivery.told) == [
        ("cancelled", "cancelled"),
        ("fails", "failed"),
        ("ok", "completed"),
    ]


def test_a_delivery_that_fails_changes_nothing_in_the_run(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    delivery = Delivery()
    delivery.error = ConnectionError("gone")
    journal.ledger().start("r", delivery_ref="somewhere")
    with caplog.at_level(logging.WARNING, logger="runjournal.worker"):
        record = Worker(journal, lambda ctx: None, delivery=delivery).run_once()
    assert record is not None
    assert (record.status, record.failures) == ("completed", 0)
    assert "run r: its result was not delivered: ConnectionError: gone" in caplog.text


def test_a_slow_delivery_holds_up_neither_claims_nor_heartbeats(
    journal: Journal, wait_until: WaitUntil
) -> None:
    delivery, let_go = Delivery(), threading.Event()
    delivery.hold.clear()
    ledger = journal.ledger()
    ledger.start("delivered", delivery_ref="somewhere")

    def handler(ctx: WorkerContext) -> None:
        if ctx.run_id == "long":
            let_go.wait(LONG)

    worker = Worker(journal, handler, lease_ttl=0.6, delivery=delivery)
    with running(worker, concurrency=2, poll=0.05):
        wait_until(lambda: delivery.told)
        ledger.start("long")
        wait_until(lambda: journal.get("long").lease)  # type: ignore[union-attr]
        first = journal.get("long").lease.expires_at  # type: ignore[union-attr]
        wait_until(lambda: journal.get("long").lease.expires_at > first)  # type: ignore[union-attr]
        let_go.set()
        wait_until(lambda: journal.get("long").is_terminal)  # type: ignore[union-attr]
        delivery.hold.set()


def test_a_defect_in_one_slot_ends_neither_the_worker_nor_other_runs(
    journal: Journal, wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Worker._begin

    def begin(self: Worker, lease: Any, stop: Any) -> Any:
        if lease.run_id == "odd":
            raise RuntimeError("a defect")
        return real(self, lease, stop)

    monkeypatch.setattr(Worker, "_begin", begin)
    for run_id in ("odd", "even"):
        journal.ledger().start(run_id)
    worker = Worker(journal, lambda ctx: None)
    with running(worker, poll=0.05) as results:
        wait_until(lambda: journal.get("even").is_terminal)  # type: ignore[union-attr]
        assert not results
    assert worker.ledger.handles == []


def test_signals_need_the_main_thread(journal: Journal) -> None:
    with running(Worker(journal, lambda ctx: None), signals=True) as results:
        pass
    assert isinstance(results[0], RunStoreError)
    assert "main thread" in results[0].message


def test_an_interrupt_that_is_set_already_claims_nothing(journal: Journal) -> None:
    interrupt = threading.Event()
    interrupt.set()
    journal.ledger().start("r")
    result = Worker(journal, lambda ctx: None).run(interrupt=interrupt)
    assert (result.runs, RunLedger.claim(journal.ledger()) is not None) == (0, True)


class InterruptedHost:
    """Ctrl-C in the very thread that works: each look at this raises it, once `at` has come."""

    def __init__(self) -> None:
        self.at = threading.Event()

    def is_set(self) -> bool:
        if self.at.is_set():
            raise KeyboardInterrupt
        return False


@pytest.mark.parametrize("way", ["run", "run_once"])
@pytest.mark.parametrize(
    ("stops", "status"), [(True, "queued"), (False, "running")], ids=["stops", "stubborn"]
)
def test_a_keyboard_interrupt_goes_through_and_leaves_no_run_renewed(
    journal: Journal, way: str, stops: bool, status: str
) -> None:
    host, let_go = InterruptedHost(), threading.Event()

    def handler(ctx: WorkerContext) -> None:
        host.at.set()
        (ctx.stop if stops else let_go).wait(LONG)

    journal.ledger().start("r")
    worker = Worker(journal, handler, grace=5 if stops else 0.05)
    with pytest.raises(KeyboardInterrupt):
        getattr(worker, way)(interrupt=host)
    let_go.set()
    record = journal.get("r")
    assert record is not None
    assert record.status == status
    assert worker.ledger.handles == []
