"""The spans of a run's life: what they name, what they belong to, and that they end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode
from runjournal import (
    CallableGateway,
    DeliveryFailed,
    DeliveryService,
    Journal,
    Worker,
    WorkerContext,
)
from runjournal.adapters.contract.scribe import START, Scribe
from runjournal.adapters.telemetry.names import ERROR_TYPE, SPANS
from runjournal.domain.commands import Start
from runjournal.domain.decide import decide

from .conftest import Heard

#: Made above the store, or around its port: one backend is as good as another.
pytestmark = pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("runjournal."): v for name, v in (span.attributes or {}).items()}


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def identity(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def test_the_handling_of_a_run_has_all_of_it(journal: Journal, heard: Heard) -> None:
    def handler(ctx: WorkerContext) -> int:
        with heard.tracer.start_as_current_span("the host's own"):
            ctx.save_checkpoint({"step": 1})
        return 1

    journal.ledger().start("run", kind="report", delivery_ref="inbox")
    service = DeliveryService(journal, {"*": CallableGateway(lambda request: None)})
    record = Worker(journal, handler, "me", delivery=service).run_once()
    assert record is not None
    (handling,) = heard.spans("runjournal.handle")
    assert attributes(handling) == {
        "run_id": "run",
        "kind": "report",
        "owner": "me",
        "fencing_token": 1,
        "attempt": 1,
        "outcome": "completed",
        "version": record.version,
    }
    assert handling.status.status_code is StatusCode.UNSET
    (own,) = heard.spans("the host's own")
    appends = {attributes(s)["topic"]: s for s in heard.spans("runjournal.append")}
    (delivering,) = heard.spans("runjournal.deliver")
    assert parent(own) == identity(handling)
    assert parent(appends["run.checkpoint_saved"]) == identity(own)
    assert parent(appends["run.completed"]) == identity(handling)
    assert parent(delivering) == identity(handling)
    assert parent(appends["run.queued"]) is None
    assert attributes(appends["run.completed"]) == {
        "run_id": "run",
        "kind": "report",
        "topic": "run.completed",
        "version": 4,
        "fencing_token": 1,
        "outcome": "written",
    }
    (claim,) = heard.spans("runjournal.claim")
    assert attributes(claim) == {"granted": 1}


def test_an_async_handler_is_inside_of_it_too(journal: Journal, heard: Heard) -> None:
    async def handler(ctx: WorkerContext) -> None:
        await asyncio.to_thread(ctx.save_checkpoint, 1)

    journal.ledger().start("run")
    Worker(journal, handler).run_once()
    (handling,) = heard.spans("runjournal.handle")
    (saved,) = (
        s for s in heard.spans("runjournal.append") if attributes(s)["topic"].endswith("saved")
    )
    assert parent(saved) == identity(handling)


def test_a_failure_is_named_and_not_told(journal: Journal, heard: Heard) -> None:
    def handler(ctx: WorkerContext) -> None:
        raise ValueError("the canary sings")

    def refuse(request: Any) -> None:
        raise DeliveryFailed("the canary sings")

    journal.ledger().start("run", delivery_ref="inbox")
    service = DeliveryService(journal, {"*": CallableGateway(refuse)})
    Worker(journal, handler, delivery=service).run_once()
    (handling,) = heard.spans("runjournal.handle")
    (delivering,) = heard.spans("runjournal.deliver")
    for span, error in ((handling, "handler_error"), (delivering, "DeliveryFailed")):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)[ERROR_TYPE] == error
        assert "canary" not in span.to_json()


def test_idle_looks_leave_no_spans(journal: Journal, heard: Heard) -> None:
    for _ in range(5):
        assert journal.ledger().claim() is None
    assert heard.spans() == []


def test_the_correlation_id_of_the_run_is_an_attribute(journal: Journal, heard: Heard) -> None:
    scribe = Scribe()
    payload = scribe.codec.encode(None, "input")
    command = Start(run_id="run", command_id="one", input=payload)
    (queued,) = decide(None, command, START)
    change = scribe._seal(None, [queued.model_copy(update={"correlation_id": "order-7"})])
    assert journal.store.append([change]) is not None
    Worker(journal, lambda ctx: None).run_once()
    (handling,) = heard.spans("runjournal.handle")
    assert attributes(handling)["correlation_id"] == "order-7"


def test_all_spans_have_their_names_and_attributes_only(journal: Journal, heard: Heard) -> None:
    test_the_handling_of_a_run_has_all_of_it(journal, heard)
    ours = [span for span in heard.spans() if span.name.startswith("runjournal.")]
    assert {span.name for span in ours} == set(SPANS)
    for span in ours:
        assert set(span.attributes or {}) <= {*SPANS[span.name], ERROR_TYPE}
        assert span.end_time is not None
        assert span.start_time is not None
        assert 0 <= span.end_time - span.start_time < 60e9


def test_what_a_worker_could_not_do_is_an_error(
    journal: Journal, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.ledger().start("run")
    worker = Worker(journal, lambda ctx: None)
    monkeypatch.setattr(worker, "_begin", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        worker.run_once()
    (handling,) = heard.spans("runjournal.handle")
    assert attributes(handling)[ERROR_TYPE] == "ZeroDivisionError"
    assert trace.get_current_span() is trace.INVALID_SPAN
