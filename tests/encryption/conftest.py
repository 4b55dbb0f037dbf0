"""Key rings, and a journal in which everything that a host can say is a canary."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from runjournal import (
    CallableGateway,
    DeliveryFailed,
    DeliveryService,
    Journal,
    KeyRing,
    RunStoreError,
)
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.projections.findings import Finding

OLD, NEW = b"o" * 32, b"n" * 32


def ring(*ids: str, lost: tuple[str, ...] = ()) -> KeyRing:
    """A ring of these of the keys `old` and `new`; the first writes."""
    return KeyRing({i: {"old": OLD, "new": NEW}[i] for i in ids}, lost=lost)


def fill_with_canaries(journal: Journal) -> set[str]:
    """Runs that say something secret wherever something can be said; all that they say."""
    said: set[str] = set()

    def secret(name: str) -> str:
        said.add(f"canary-{name}")
        return f"canary-{name}"

    def refuse(_request: Any) -> None:
        raise DeliveryFailed(secret("delivery-error"))

    clock = SteppedClock()
    ledger = journal.ledger(owner=secret("owner"), lease_ttl=20, clock=clock)
    ledger.start(
        "gone", labels={secret("grave-label"): "x"}, authority_ref=secret("grave-authority")
    )
    ledger.cancel("gone", command_id=secret("grave-command"))
    clock.advance(60)
    journal.prune(clock.now, actor=secret("gravedigger"), reason=secret("grave-reason"))
    ledger.start(
        "full",
        kind="report",
        input={secret("input-key"): secret("input")},
        delivery_ref="inbox",
        authority_ref=secret("authority"),
        parent_run_id="parent",
        labels={secret("label"): secret("label-value")},
        actor=secret("starter"),
        command_id=secret("start-command"),
    )
    lease = ledger.acquire("full", heartbeat=False)
    lease.save_checkpoint({"text": secret("state")}, key=secret("checkpoint"))
    lease.suspend([secret("approval")], resume_when_decided=True)
    ledger.record_decision("full", "canary-approval", secret("decision"), actor=secret("decider"))
    lease = ledger.acquire("full", heartbeat=False)
    lease.release(reason=secret("reason"), error=secret("error"))
    clock.advance(timedelta(days=1).total_seconds())
    ledger.acquire("full", heartbeat=False).complete(
        {"text": secret("result")}, code=secret("code"), message=secret("message")
    )
    ledger.acquire("failed", heartbeat=False).fail(secret("fail-code"), secret("fail-message"))
    ledger.start("cancelled")
    ledger.cancel("cancelled", message=secret("cancel-message"), actor=secret("canceller"))
    ledger.start("waiting", input=secret("waiting-input"))
    ledger.acquire("held", heartbeat=False).save_checkpoint(secret("held-state"))
    DeliveryService(journal, {"inbox": CallableGateway(refuse)}).deliver_due()
    known = Finding("chain", "run/x", 3, secret("finding"), "evidence")
    journal.acknowledge([known], secret("auditor"), secret("audit-reason"))
    return said


Cells = dict[tuple[str, str], list[Any]]


def cells(url: str) -> Cells:
    """Everything in the tables of a database, by table and column; NULLs are left out."""
    found: Cells = {}
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            names = [
                n for (n,) in file.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            ]
            for name in names:
                _take(found, name, file.execute(f"SELECT * FROM {name}"))
        return found
    with psycopg.connect(url) as conn:
        tables = conn.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        )
        for (name,) in tables.fetchall():
            _take(found, name, conn.execute(f"SELECT * FROM {name}".encode()))
    return found


def _take(found: Cells, name: str, cursor: Any) -> None:
    columns = [column[0] for column in cursor.description]
    for row in cursor.fetchall():
        for column, value in zip(columns, row, strict=True):
            if value is not None:
                found.setdefault((name, column), []).append(value)


def files_of(url: str) -> bytes:
    """The bytes of a SQLite database's files; empty for another database."""
    if not url.startswith("sqlite"):
        return b""
    path = Path(url.removeprefix("sqlite:///"))
    return b"".join(p.read_bytes() for p in sorted(path.parent.glob(f"{path.name}*")))


def cause(error: RunStoreError) -> str:
    return f"{error.code}/{error.reason}"
