"""What the cases look at beyond the public face: every door for names, and the outbox's rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest
from runjournal import Journal

Doors = Callable[[Journal], dict[str, Callable[[Any], object]]]


@pytest.fixture
def name_doors() -> Doors:
    """Given a journal: by place, a call that hands in a name there. Run "live" is held by "a"."""

    def doors(journal: Journal) -> dict[str, Callable[[Any], object]]:
        ledger = journal.ledger(owner="a")
        lease = ledger.acquire("live", heartbeat=False)
        return {
            "start run_id": lambda x: ledger.start(x),
            "start kind": lambda x: ledger.start("new", kind=x),
            "start delivery_ref": lambda x: ledger.start("new", delivery_ref=x),
            "start authority_ref": lambda x: ledger.start("new", authority_ref=x),
            "start parent_run_id": lambda x: ledger.start("new", parent_run_id=x),
            "start label": lambda x: ledger.start("new", labels={x: "value"}),
            "start label's value": lambda x: ledger.start("new", labels={"name": x}),
            "start actor": lambda x: ledger.start("new", actor=x),
            "start command_id": lambda x: ledger.start("new", command_id=x),
            "acquire run_id": lambda x: ledger.acquire(x),
            "restore run_id": lambda x: ledger.restore(x),
            "claim kinds": lambda x: ledger.claim(kinds=[x]),
            "ledger.get run_id": lambda x: ledger.get(x),
            "cancel run_id": lambda x: ledger.cancel(x),
            "cancel actor": lambda x: ledger.cancel("live", actor=x),
            "cancel command_id": lambda x: ledger.cancel("live", command_id=x),
            "fail run_id": lambda x: ledger.fail(x, "code"),
            "fail code": lambda x: ledger.fail("live", x),
            "request_resume run_id": lambda x: ledger.request_resume(x),
            "request_resume command_id": lambda x: ledger.request_resume("live", command_id=x),
            "record_decision run_id": lambda x: ledger.record_decision(x, "a", "yes"),
            "record_decision approval_id": lambda x: ledger.record_decision("live", x, "yes"),
            "record_decision decision": lambda x: ledger.record_decision("live", "a", x),
            "record_decision actor": lambda x: ledger.record_decision("live", "a", "yes", actor=x),
            "resolve command_id": lambda x: ledger.resolve(x, "live"),
            "resolve run_id": lambda x: ledger.resolve("command", x),
            "ledger owner": lambda x: journal.ledger(owner=x),
            "journal.get run_id": lambda x: journal.get(x),
            "journal.events run_id": lambda x: journal.events(x),
            "journal.runs kind": lambda x: journal.runs(kind=x),
            "journal.runs after": lambda x: journal.runs(after=x),
            "save_checkpoint key": lambda x: lease.save_checkpoint(1, key=x),
            "suspend approvals": lambda x: lease.suspend([x]),
            "complete code": lambda x: lease.complete(code=x),
            "lease.fail code": lambda x: lease.fail(x),
            "invocation_id name": lambda x: lease.invocation_id(x),
        }

    return doors


OUTBOX = "SELECT invocation_id, status FROM delivery_outbox WHERE run_id = "


@pytest.fixture
def outbox_rows(journal_url: str) -> Callable[[Journal, str], list[tuple[str, str]]]:
    """Given the journal and a run: invocation id and status of its rows in the outbox."""

    def rows(journal: Journal, run_id: str) -> list[tuple[str, str]]:
        if journal_url.startswith("sqlite"):
            with closing(sqlite3.connect(journal_url.removeprefix("sqlite:///"))) as file:
                return file.execute(f"{OUTBOX} ?", (run_id,)).fetchall()
        if journal_url.startswith("postgres"):
            with psycopg.connect(journal_url) as conn:
                return conn.execute(f"{OUTBOX} %s".encode(), (run_id,)).fetchall()
        store: Any = journal.store
        records = [kept.record for kept in store.outbox.values()]
        return [(r.invocation_id, r.status.value) for r in records if r.run_id == run_id]

    return rows
