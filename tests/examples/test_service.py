"""docs/examples/service.py: a web service on Postgres, worker processes, and a webhook."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from runjournal import open_journal

WORKER = "runjournal worker --handler jobs:count --kind count --gateways gateways.toml --ttl 2"
WORDS = ["one", "three", "five"] * 10


@pytest.fixture
def web(
    launch: Callable,
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[[Callable[[], Any]], None],
) -> Iterator[httpx.Client]:
    """A client of the service, which runs as a process of its own."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    monkeypatch.setenv("RUNJOURNAL_DB", postgres_url)
    monkeypatch.setenv("ORDERS_SECRET", "a long random secret")
    monkeypatch.setenv("ORDERS_URL", f"http://127.0.0.1:{port}/results")
    service = launch("uvicorn", "service:app", "--port", str(port), "--log-level", "warning")

    def is_up() -> bool:
        assert service.poll() is None, service.stdout.read()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_up)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        yield client


def test_an_order_survives_its_worker(
    web: httpx.Client,
    launch: Callable,
    postgres_url: str,
    wait_until: Callable[[Callable[[], Any]], None],
) -> None:
    first = launch(*WORKER.split())
    order = {"id": "order-1", "words": WORDS}
    for _ in range(2):
        assert web.post("/orders", json=order).status_code == 202
    assert web.post("/orders", json={"id": "order-1", "words": []}).json() == {
        "code": "RUN_CONFLICT",
        "message": "run 'order-1' exists and was started with different arguments",
    }
    web.post("/orders", json={"id": "order-2", "words": WORDS})  # behind it
    assert web.post("/orders/order-2/cancel").json()["status"] == "cancelled"
    assert web.post("/orders/order-3/cancel").status_code == 404
    assert web.get("/orders/order-3").status_code == 404
    refused = web.post("/orders", json={"id": " order", "words": []})
    assert (refused.status_code, refused.json()["code"]) == (422, "RUN_VALIDATION_ERROR")

    def shown() -> dict[str, Any]:
        return web.get("/orders/order-1").json()  # type: ignore[no-any-return]

    wait_until(lambda: (shown()["progress"] or {"words": 0})["words"] > 2)
    first.kill()
    second = launch(*WORKER.split())
    wait_until(lambda: shown()["delivered"])
    after = shown()
    assert (after["status"], after["outcome"]) == ("completed", "ok")
    assert after["result"] == {"letters": sum(map(len, WORDS))}
    assert len(after["delivered"]) == 1
    assert web.post("/orders/order-1/cancel").status_code == 409
    assert web.post("/results", content=b"{}").status_code == 401
    second.terminate()
    assert second.wait() == 0
    with open_journal(postgres_url) as journal:
        topics = [event.topic for event in journal.events("order-1")]
    # The second worker went on where the first was killed: each word was saved once.
    assert topics.count("run.lease_granted") == 2
    assert topics.count("run.checkpoint_saved") == len(WORDS)
