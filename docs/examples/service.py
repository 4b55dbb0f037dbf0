"""A web service whose long jobs are runs: it starts, shows and cancels them, and is told results.

It holds no lease and does no work. That is for worker processes, which run `jobs.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from runjournal import RunRecord, RunStoreError, open_async_journal, verify_signature

#: What the caller is told for a code. Any other is this service's own trouble: 500.
STATUS = {
    "RUN_VALIDATION_ERROR": 422,
    "RUN_LIMIT_EXCEEDED": 413,
    "RUN_NOT_FOUND": 404,
    "RUN_CONFLICT": 409,
    "RUN_ALREADY_TERMINAL": 409,
    "RUN_STORE_UNAVAILABLE": 503,
    "RUN_OUTCOME_UNKNOWN": 503,
}


class Order(BaseModel):
    id: str
    words: list[str]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One journal for each process. With `notify`, a run that is started wakes a worker."""
    async with open_async_journal(os.environ["RUNJOURNAL_DB"], notify=True) as journal:
        app.state.journal = journal
        app.state.ledger = journal.ledger()
        app.state.results = {}  # by invocation id; a table of yours, with that as its key
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(RunStoreError)
async def refused(_request: Request, error: RunStoreError) -> JSONResponse:
    status = STATUS.get(error.code, 500)
    text = error.message if status < 500 else error.hint
    headers = {"Retry-After": "1"} if error.retryable else None
    return JSONResponse({"code": error.code, "message": text}, status, headers)


@app.post("/orders", status_code=202)
async def start(order: Order, request: Request) -> dict[str, Any]:
    """The order's id is the run's, so an order that is sent twice is one run."""
    record = await request.app.state.ledger.start(
        order.id, kind="count", input={"words": order.words}, delivery_ref="orders"
    )
    return shown(record)


@app.post("/orders/{run_id}/cancel")
async def cancel(run_id: str, request: Request) -> dict[str, Any]:
    return shown(await request.app.state.ledger.cancel(run_id, actor="web"))


@app.get("/orders/{run_id}")
async def show(run_id: str, request: Request) -> dict[str, Any]:
    journal, results = request.app.state.journal, request.app.state.results
    record = await journal.get(run_id)
    if record is None:
        raise HTTPException(404)
    return shown(record) | {
        "progress": await journal.checkpoint(run_id),
        "result": await journal.result(run_id),
        "delivered": [r["invocationId"] for r in results.values() if r["runId"] == run_id],
    }


@app.post("/results", status_code=204)
async def take_result(request: Request) -> Response:
    """The webhook that `gateways.toml` names. A result may come twice, under the same id."""
    body = await request.body()
    if not verify_signature(body, request.headers, os.environ["ORDERS_SECRET"]):
        return Response(status_code=401)
    result = json.loads(body)
    request.app.state.results.setdefault(result["invocationId"], result)
    return Response(status_code=204)


def shown(record: RunRecord) -> dict[str, Any]:
    outcome = None if record.outcome is None else record.outcome.code
    return {"id": record.run_id, "status": record.status, "outcome": outcome}
