"""What the tests of deliveries share: a receiver, runs that have ended, and damage to a journal."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
from runjournal import DeliveryRequest, Journal
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.domain.delivery import DeliveryRecord, delivery_invocation_id

Answer = Callable[[DeliveryRequest], object]


class Receiver:
    """A gateway that notes what it was sent, and answers as it is told: by returning or raising."""

    def __init__(self, answer: Answer | BaseException | None = None) -> None:
        self.answer = answer
        #: Every request, in the order in which they came.
        self.got: list[DeliveryRequest] = []
        self._lock = threading.Lock()

    def deliver(self, request: DeliveryRequest) -> None:
        with self._lock:
            self.got.append(request)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer is not None:
            self.answer(request)

    @property
    def runs(self) -> list[str]:
        return [request.run_id for request in self.got]

    @property
    def times(self) -> Counter[str]:
        """How often each invocation id came."""
        return Counter(request.invocation_id for request in self.got)


def end_run(
    journal: Journal,
    run_id: str = "run",
    ref: str = "inbox",
    result: Any = None,
    clock: SteppedClock | None = None,
) -> str:
    """Complete a run whose result somebody waits for; its delivery's invocation id."""
    ledger = journal.ledger(owner="worker", clock=clock)
    ledger.start(run_id, delivery_ref=ref)
    ledger.acquire(run_id, heartbeat=False).complete(result)
    return delivery_invocation_id(run_id, ref)


def row(journal: Journal, invocation_id: str) -> DeliveryRecord:
    """The delivery's row in the outbox."""
    found = journal.delivery(invocation_id)
    assert found is not None
    return found


def happened(journal: Journal, invocation_id: str) -> list[str]:
    """The delivery's events, without the prefix "delivery."."""
    return [e.topic.removeprefix("delivery.") for e in journal.delivery_events(invocation_id)]


def execute(url: str, statement: str, *values: object) -> None:
    """Change a journal in a database behind its back."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file, file:
            assert file.execute(statement, values).rowcount == 1
    else:
        with psycopg.connect(url) as conn:
            changed = conn.execute(statement.replace("?", "%s").encode(), values)
            assert changed.rowcount == 1


def rewrite(journal: Journal, url: str, stream: str, version: int, old: bytes, new: bytes) -> None:
    """Replace a part of a stored event behind the journal's back."""
    (stored,) = journal.store.read(stream, version - 1, 1)
    assert old in stored.data
    data = stored.data.replace(old, new)
    if url == "memory:":
        events = journal.store.tables.streams[stream]  # type: ignore[attr-defined]
        events[version] = replace(events[version], state=data)
    else:
        execute(
            url,
            "UPDATE events SET state = ? WHERE stream = ? AND version = ?",
            data,
            stream,
            version,
        )


def spoil_row(url: str, invocation_id: str) -> None:
    """Make a row of the outbox unreadable."""
    execute(
        url, "UPDATE delivery_outbox SET body = ? WHERE invocation_id = ?", b"\xff", invocation_id
    )
