"""A journal with something of everything, and a way to change it behind its back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import CallableGateway, DeliveryRefused, DeliveryService, Journal, open_journal

Sql = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """The address of a new, empty journal in a database, once for each kind."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def stored(database_url: str) -> Iterator[Journal]:
    """A journal in a database, with something of everything."""
    with open_journal(database_url) as journal:
        fill(journal)
        yield journal


@pytest.fixture
def sql(database_url: str) -> Sql:
    """Run SQL behind the product's back; parameters are written as ?."""
    return behind_its_back(database_url)


def behind_its_back(url: str) -> Sql:
    def run(statement: str, *values: Any) -> list[tuple[Any, ...]]:
        if url.startswith("sqlite"):
            path = Path(url.removeprefix("sqlite:///"))
            with closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as file:
                # Whoever may write to the file may do that first.
                file.execute("DROP TRIGGER IF EXISTS events_last_stays")
                return file.execute(statement, values).fetchall()
        with psycopg.connect(url, autocommit=True) as conn:
            done = conn.execute(statement.replace("?", "%s").encode(), values or None)
            return done.fetchall() if done.description else []

    return run


def fill(journal: Journal, runs: int = 1, first: int = 0) -> None:
    """Runs in every state, their deliveries, and what an operator did to them."""

    def refuse(_request: Any) -> None:
        raise DeliveryRefused("not wanted")

    ledger = journal.ledger(owner="worker")
    for n in range(first, first + runs):
        ledger.start(f"queued-{n}", labels={"team": "b", "a": "c"}, actor="ada")
        for name, ref in (("done", "inbox"), ("refused", "bad"), ("plain", None)):
            ledger.start(f"{name}-{n}", kind="etl", input={"n": n}, delivery_ref=ref)
            lease = ledger.acquire(f"{name}-{n}", heartbeat=False)
            lease.save_checkpoint({"offset": n})
            lease.save_checkpoint({"offset": n + 1}, key="second", snapshot_version=2)
            lease.complete({"rows": n})
        ledger.acquire(f"held-{n}", heartbeat=False).save_checkpoint([n])
        lease = ledger.acquire(f"asking-{n}", heartbeat=False)
        lease.suspend(["boss", "legal"], resume_when_decided=True)
        ledger.record_decision(f"asking-{n}", "boss", "yes", actor="boss")
        ledger.acquire(f"resumed-{n}", heartbeat=False).suspend(["boss"], True)
        ledger.record_decision(f"resumed-{n}", "boss", "yes", actor="boss")
        ledger.acquire(f"back-{n}", heartbeat=False).release(error="broken pipe")
        ledger.acquire(f"failed-{n}", heartbeat=False).fail("no_disk", "it is full")
        ledger.start(f"cancelled-{n}", delivery_ref="inbox")
        ledger.cancel(f"cancelled-{n}", message="not needed", actor="ada")
    DeliveryService(
        journal,
        {"inbox": CallableGateway(lambda _request: None), "bad": CallableGateway(refuse)},
    ).deliver_due(limit=10_000)
