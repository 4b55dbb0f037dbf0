"""Each metric, from real runs on every backend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint
from runjournal import (
    CallableGateway,
    DeliveryAmbiguous,
    DeliveryFailed,
    DeliveryService,
    Journal,
    RetryPolicy,
    RunStoreError,
    Worker,
    WorkerContext,
    open_journal,
)
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.adapters.telemetry.names import METRICS

from ..projecting.projectors import Seen
from .conftest import Heard


def test_appends_are_counted_by_topic_and_outcome(journal: Journal, heard: Heard) -> None:
    ledger = journal.ledger()
    lease = ledger.acquire("run")
    for n in range(3):
        lease.save_checkpoint({"step": n})
    ledger.cancel("run")
    with pytest.raises(RunStoreError):
        lease.save_checkpoint(None)
    assert heard.counts("append.duration") == {
        ("run.lease_granted", "written"): 1,
        ("run.checkpoint_saved", "written"): 3,
        ("run.cancelled", "written"): 1,
        ("run.checkpoint_saved", "refused"): 1,
    }
    assert heard.counts("append.conflicts") == {("run.checkpoint_saved",): 1}
    assert all(took > 0 for took in heard.sums("append.duration").values())


def test_a_store_that_is_away_is_a_failed_append(
    journal: Journal, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_args: Any) -> None:
        raise RunStoreError("RUN_STORE_UNAVAILABLE", "busy", "away")

    store: Any = journal.store
    monkeypatch.setattr(store._store, "append", away)
    monkeypatch.setattr(store._store, "claim", away)
    with pytest.raises(RunStoreError):
        journal.ledger().start("run")
    with pytest.raises(RunStoreError):
        journal.ledger().claim()
    failed = ("failed", "RUN_STORE_UNAVAILABLE/busy")
    assert heard.counts("append.duration") == {("run.queued", *failed): 1}
    assert heard.counts("claim.duration") == {failed: 1}
    assert heard.counts("append.conflicts") == {}


def test_the_size_of_checkpoints_is_that_of_the_state(journal: Journal, heard: Heard) -> None:
    lease = journal.ledger().acquire("run")
    lease.save_checkpoint("x" * 98)
    lease.save_checkpoint("x" * 198)
    lease.complete("not a checkpoint")
    assert heard.counts("checkpoint.size") == {("default",): 2}
    assert heard.sums("checkpoint.size") == {("default",): 300}


def test_takeovers_and_losses(journal: Journal, heard: Heard, clock: SteppedClock) -> None:
    def holder(owner: str) -> Any:
        return journal.ledger(owner=owner, lease_ttl=60, clock=clock)

    first = holder("a").acquire("one", heartbeat=False)
    holder("a").start("two", kind="other")
    second = holder("a").claim(kinds=["other"], heartbeat=False)
    assert heard.counts("takeovers") == {}
    clock.advance(61)
    holder("b").acquire("one", heartbeat=False)
    third = holder("b").claim(kinds=["other"], heartbeat=False)
    assert heard.counts("takeovers") == {("default",): 1, ("other",): 1}
    for lease in (first, second):
        for _ in range(2):  # a loss latches, and counts once
            with pytest.raises(RunStoreError):
                lease.renew()
    journal.ledger(clock=clock).cancel("two")
    with pytest.raises(RunStoreError):
        third.renew()
    assert heard.counts("lease.losses") == {("taken_over",): 2, ("cancelled",): 1}


def test_a_released_run_is_no_takeover(journal: Journal, heard: Heard) -> None:
    ledger = journal.ledger()
    ledger.acquire("run").release()
    ledger.acquire("run").release()
    lease = ledger.claim()
    assert lease is not None
    assert heard.counts("takeovers") == {}
    assert heard.counts("lease.losses") == {}


def test_claims_tell_how_long_runs_had_been_due(
    journal: Journal, heard: Heard, clock: SteppedClock
) -> None:
    ledger = journal.ledger(lease_ttl=60, clock=clock)
    assert ledger.claim() is None
    ledger.start("one")
    clock.advance(5)
    assert ledger.claim(heartbeat=False) is not None
    assert heard.sums("claim.latency") == {("default",): 5}
    clock.advance(70)  # its lease has been expired for 10 seconds
    assert ledger.claim(heartbeat=False) is not None
    assert heard.sums("claim.latency") == {("default",): 15}
    assert heard.counts("claim.duration") == {("nothing",): 1, ("granted",): 2}


def test_a_run_for_later_is_not_late_before(
    journal: Journal, heard: Heard, clock: SteppedClock
) -> None:
    ledger = journal.ledger(clock=clock)
    ledger.start("one", available_at=clock.now + timedelta(hours=1))
    clock.advance(3603)
    assert ledger.claim(heartbeat=False) is not None
    assert heard.sums("claim.latency") == {("default",): 3}


def test_handlings_are_counted_by_how_they_ended(journal: Journal, heard: Heard) -> None:
    def handler(ctx: WorkerContext) -> None:
        if ctx.run_id == "cancelled":
            journal.ledger().cancel(ctx.run_id)
            raise ValueError("after the cancel")
        if ctx.run_id == "released":
            raise KeyboardInterrupt
        if ctx.run_id == "suspended":
            ctx.lease.suspend()
        if ctx.run_id in ("failed", "retried"):
            raise ValueError
        if ctx.run_id == "lost":
            other = journal.ledger(owner=ctx.lease.owner).acquire(ctx.run_id, heartbeat=False)
            other.suspend()

    names = ["cancelled", "completed", "failed", "lost", "released", "retried", "suspended"]
    for name in names:
        journal.ledger().start(name, kind=name)
        retry = RetryPolicy(2, backoff=300) if name == "retried" else None
        Worker(journal, handler, "worker", retry=retry).run_once(kinds=[name])
    assert heard.counts("handling.duration") == {(name, name): 1 for name in names}
    # A cancel from outside is a loss for the holder, and not a failure of the run.
    errors = {
        dict(span.attributes or {})["runjournal.kind"]: dict(span.attributes or {})["error.type"]
        for span in heard.spans("runjournal.handle")
        if "error.type" in (span.attributes or {})
    }
    assert errors["failed"] == errors["retried"] == "handler_error"
    assert errors.keys() == {"failed", "retried", "lost"}


def test_deliveries_by_outcome_and_age(journal: Journal, heard: Heard, clock: SteppedClock) -> None:
    answers = {"good": None, "bad": DeliveryFailed("no"), "odd": DeliveryAmbiguous("who knows")}
    answers["worse"] = answers["bad"]
    ledger = journal.ledger(clock=clock)
    for ref in answers:
        ledger.start(ref, delivery_ref=ref)
        ledger.acquire(ref, heartbeat=False).complete()

    def answer(request: Any) -> None:
        if (error := answers[request.delivery_ref]) is not None:
            raise error

    clock.advance(20)
    service = DeliveryService(journal, {"*": CallableGateway(answer)}, clock=clock)
    assert service.deliver_due().delivered == 1
    outcomes = {("delivered",): 1, ("failed",): 2, ("ambiguous",): 1}
    assert heard.counts("delivery.attempts") == heard.counts("delivery.age") == outcomes
    assert heard.sums("delivery.age") == {name: 20 * n for name, n in outcomes.items()}


def test_the_lag_of_projections_is_observed(
    journal: Journal, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    runner = journal.projection(Seen())
    journal.ledger().start("one")
    runner.catch_up()
    assert heard.counts("projection.lag") == {("seen",): 0}
    journal.ledger().start("two")
    journal.ledger().start("three")
    assert heard.counts("projection.lag") == {("seen",): 2}
    journal.close()
    assert heard.counts("projection.lag") == {}
    assert caplog.messages == []  # the SDK would tell of a callback that raised


def test_all_metrics_have_their_names_units_and_attributes_only(
    journal: Journal, heard: Heard, clock: SteppedClock
) -> None:
    """No run's id is an attribute of a metric: each would be a time series of its own."""
    ledger = journal.ledger(lease_ttl=60, clock=clock)
    ledger.start("sent", kind="sent", delivery_ref="inbox", available_at=clock.now)
    lease = ledger.acquire("lost", heartbeat=False)
    lease.save_checkpoint(1)
    clock.advance(61)
    lease = ledger.acquire("lost", heartbeat=False)
    ledger.cancel("lost")
    with pytest.raises(RunStoreError):
        lease.save_checkpoint(2)
    journal.projection(Seen()).catch_up()
    Worker(journal, lambda ctx: None).run_once(kinds=["sent"])
    DeliveryService(journal, {"*": CallableGateway(lambda request: None)}).deliver_due()
    found = heard.points()
    for metric in METRICS:
        assert metric.name in found, metric.name
        for point in found[metric.name]:
            assert set(point.attributes) <= set(metric.attributes)
            if isinstance(point, HistogramDataPoint):
                assert tuple(point.explicit_bounds) == metric.buckets
    assert set(found) == {metric.name for metric in METRICS}


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_what_a_host_writes_in_its_transaction_is_measured(
    journal: Journal, heard: Heard, journal_url: str
) -> None:
    with psycopg.connect(journal_url) as conn:
        journal.in_transaction(conn).start("run")
    assert heard.counts("append.duration") == {("run.queued", "written"): 1}


def test_two_journals_tell_one_sdk(heard: Heard) -> None:
    with (
        open_journal("memory:", telemetry=heard.telemetry) as one,
        open_journal("memory:", telemetry=heard.telemetry) as two,
    ):
        for journal in (one, two):
            journal.ledger().start("run")
    assert heard.counts("append.duration") == {("run.queued", "written"): 2}
