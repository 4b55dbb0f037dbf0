"""What a run holds, and what a gateway knows, is in no span, no metric and no log line."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from runjournal import (
    CallableGateway,
    DeliveryFailed,
    DeliveryService,
    Journal,
    RetryPolicy,
    RunStoreError,
    Worker,
    WorkerContext,
)
from runjournal.adapters.logs import FIELDS

from .conftest import Heard

#: Made above the store, or around its port: one backend is as good as another.
pytestmark = pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)

CANARY = "canary-4711"
SECRET = "hunter2"
#: What every LogRecord has.
ALWAYS = set(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime"}


def test_no_payload_and_no_credential_gets_out(
    journal: Journal, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(ctx: WorkerContext) -> dict[str, Any]:
        ctx.save_checkpoint({"state": CANARY, ctx.input["text"]: 1})
        if ctx.run_id == "cancelled":
            journal.ledger().cancel(ctx.run_id, message=CANARY)
            raise ConnectionError(f"postgresql://me:{SECRET}@db/jobs is gone")
        if ctx.run_id == "failing":
            raise ConnectionError(f"postgresql://me:{SECRET}@db/jobs is gone")
        if ctx.run_id == "stolen":
            journal.ledger(ctx.lease.owner).acquire(ctx.run_id).suspend([CANARY])
        return {"result": CANARY, "checkpoint": ctx.checkpoint}

    def send(request: Any) -> None:
        if request.run_id == "failing":
            raise DeliveryFailed(f"https://hooks.example/{SECRET} said {request.status}")

    with caplog.at_level(logging.DEBUG):
        service = DeliveryService(journal, {"inbox": CallableGateway(send)})
        worker = Worker(journal, handler, "me", retry=RetryPolicy(1), delivery=service)
        for name in ("good", "failing", "cancelled", "stolen"):
            journal.ledger().start(
                name,
                kind=name,
                input={"text": CANARY},
                labels={"label": CANARY},
                authority_ref=CANARY,
                delivery_ref="inbox",
            )
            worker.run_once(kinds=[name])
        with pytest.raises(RunStoreError):
            journal.ledger().acquire("good")
    spans = "".join(span.to_json() for span in heard.spans())
    logged = [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    told = {"spans": spans, "metrics": str(heard.points()), "log": "\n".join(logged)}
    assert all(told.values())
    for where, text in told.items():
        for secret in (CANARY, SECRET):
            assert secret not in text, where
    assert "failing" in spans
    assert "failing" in told["log"]


def test_log_lines_have_fields_of_the_list(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(ctx: WorkerContext) -> None:
        journal.ledger().cancel(ctx.run_id)
        raise ValueError

    def refuse(request: Any) -> None:
        raise DeliveryFailed("no")

    journal.ledger().start("run", kind="report", delivery_ref="inbox")
    service = DeliveryService(journal, {"*": CallableGateway(refuse)}, owner="sender")
    with caplog.at_level(logging.INFO, logger="runjournal"):
        record = Worker(journal, handler, "me", delivery=service).run_once()
    assert record is not None
    lines = [
        {name: value for name, value in vars(line).items() if name not in ALWAYS}
        for line in caplog.records
        if line.name.startswith("runjournal")
    ]
    assert len(lines) == 3
    run = {"run_id": "run", "kind": "report"}
    held = {**run, "owner": "me", "fencing_token": 1, "version": 2}
    assert lines[0] == {**held, "code": "RUN_LEASE_LOST", "reason": "cancelled"}
    assert lines[1] == {**held, "error_type": "ValueError"}
    invocation_id = lines[2].pop("invocation_id")
    assert journal.delivery(invocation_id) is not None
    assert lines[2] == {
        **run,
        "owner": "sender",
        "version": 2,
        "delivery_ref": "inbox",
        "error_type": "DeliveryFailed",
    }
    for line in lines:
        assert set(line) <= set(FIELDS)
        assert all(value is None or isinstance(value, str | int) for value in line.values())
