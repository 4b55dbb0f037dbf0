"""What the fuzzing of this folder has found, each as it was found."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.domain.chain import GENESIS, chain_hash
from runjournal.domain.events import run_stream

#: The first microsecond after the year 9999, and the last one before the year 1.
NO_TIMES = [253402300800000000, -62135596800000001]

Sql = Callable[..., list[Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    with open_journal(f"sqlite:///{path}") as opened:
        ledger = opened.ledger(owner="worker")
        for name in ("other", "run"):
            lease = ledger.acquire(name, heartbeat=False)
            lease.save_checkpoint({"offset": 7})
        yield opened


@pytest.fixture
def sql(path: Path) -> Sql:
    def run(statement: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(path, isolation_level=None)) as conn:
            return conn.execute(statement, values).fetchall()

    return run


@pytest.mark.parametrize("time", NO_TIMES)
@pytest.mark.parametrize("column", ["created_at", "updated_at", "ready_at"])
def test_stored_time_that_is_none(journal: Journal, sql: Sql, column: str, time: int) -> None:
    sql(f"UPDATE runs SET {column} = ? WHERE run_id = 'run'", time)
    with refused("RUN_INTEGRITY_ERROR", "unreadable_record") as caught:
        journal.get("run")
    assert "'run'" in caught.value.message
    assert journal.get("other") is not None
    # It starves nobody, and is put right from its events.
    journal.ledger(owner="other").claim()
    if column != "ready_at":
        journal.rebuild("run_records")
        assert journal.verify().findings == []


@pytest.mark.parametrize("time", NO_TIMES)
def test_stored_time_of_a_delivery_that_is_none(journal: Journal, sql: Sql, time: int) -> None:
    journal.ledger().start("sent", delivery_ref="inbox")
    journal.ledger(owner="w").acquire("sent", heartbeat=False).complete()
    sql("UPDATE delivery_outbox SET next_attempt_at = ?", time)
    assert journal.deliveries() == []
    assert [mark.run_id for mark in journal.attention()] == ["sent"]


def test_deadline_that_no_clock_shows(journal: Journal, sql: Sql) -> None:
    lease = journal.ledger(owner="holder").acquire("third", heartbeat=False)
    sql("UPDATE runs SET ready_at = ? WHERE run_id = 'third'", NO_TIMES[0])
    with refused("RUN_INTEGRITY_ERROR", "unreadable_record"):
        lease.renew()


def test_text_that_is_no_utf8(journal: Journal, sql: Sql) -> None:
    sql("UPDATE runs SET kind = CAST(x'ff' AS TEXT) WHERE run_id = 'run'")
    with refused("RUN_INTEGRITY_ERROR", "damaged_database"):
        journal.get("run")


def test_schema_that_is_no_utf8(journal: Journal, path: Path) -> None:
    journal.close()
    content = path.read_bytes()
    assert b"CREATE TABLE runs" in content
    path.write_bytes(content.replace(b"CREATE TABLE runs", b"CREATE \xff\xfeBLE runs"))
    with refused("RUN_INTEGRITY_ERROR", "damaged_database"):
        open_journal(f"sqlite:///{path}")


def forge(sql: Sql, version: int, **fields: Any) -> None:
    """Change an event of "run", and all hashes, its record's included, as they must then be."""
    stream, head = run_stream("run"), GENESIS
    rows = sql("SELECT version, topic, state FROM events WHERE stream = ? ORDER BY 1", stream)
    for number, topic, state in rows:
        data = json.loads(state) | {"prev_hash": head} | (fields if number == version else {})
        written = json.dumps(data, separators=(",", ":")).encode()
        head = chain_hash(head, stream, number, topic, written)
        place = "WHERE stream = ? AND version = ?"
        sql(f"UPDATE events SET state = ? {place}", written, stream, number)
    sql("UPDATE runs SET head = ? WHERE run_id = 'run'", head)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("value", [{}, [1], None, "x", {"a": {}}])
def test_forged_event_that_links_up(journal: Journal, sql: Sql, version: int, value: Any) -> None:
    """Its hashes are right, and so it is folded unvalidated: it must be found all the same."""
    forge(sql, version, **{"fencing_token" if version == 2 else "snapshot_version": value})
    kinds = {finding.kind for finding in journal.verify().findings}
    assert "unreadable" in kinds
    sql("DELETE FROM runs WHERE run_id = 'run'")
    done = journal.rebuild("run_records")
    assert [(f.kind, f.stream, f.version) for f in done.findings] == [
        ("unreadable", "run/run", version)
    ]
    assert (done.streams, done.repaired) == (2, 0)
    assert journal.get("run") is None
    with pytest.raises(RunStoreError) as caught:
        journal.timeline("run")
    assert caught.value.code == "RUN_INTEGRITY_ERROR"
    assert "other" in journal.report(["other"])


def test_event_changed_in_a_broken_chain_is_shown(journal: Journal, sql: Sql) -> None:
    (state,) = sql("SELECT state FROM events WHERE stream = 'run/run' AND version = 2")[0]
    changed = json.dumps(json.loads(state) | {"command_id": [{}]}, separators=(",", ":"))
    sql("UPDATE events SET state = ? WHERE stream = 'run/run' AND version = 2", changed.encode())
    found = {(f.kind, f.version) for f in journal.verify().findings}
    assert ("unreadable", 2) in found
    assert "cannot be decoded" in journal.report(["run"]) or "event 2" in journal.report(["run"])


@pytest.mark.parametrize("version", [True, 1.0, Decimal(1), "1", None])
def test_snapshot_version_that_only_equals_one(journal: Journal, version: Any) -> None:
    lease = journal.ledger(owner="w").acquire("new", heartbeat=False)
    with refused("RUN_VALIDATION_ERROR", "argument"):
        lease.save_checkpoint(7, snapshot_version=version)
    assert lease.complete().status == "completed"


BAD_LINES = [
    "[" * 100_000,
    '{"stream":"\\ud800","version":1,"head":"x"}',
    '{"stream":"run/run","version":0,"head":"x"}',
]


@pytest.mark.parametrize("line", BAD_LINES, ids=["deep", "surrogate", "version"])
def test_anchor_that_python_chokes_on(journal: Journal, tmp_path: Path, line: str) -> None:
    anchor = tmp_path / "anchor"
    header, *_ = journal.anchor()
    anchor.write_text(f"{header}{line}\n")
    with refused("RUN_VALIDATION_ERROR", "anchor") as caught:
        journal.verify(anchor)
    assert "line 2" in caught.value.message


def test_events_that_were_never_written_in_this_order(journal: Journal, sql: Sql) -> None:
    ledger = journal.ledger(owner="w")
    ledger.start("sent", delivery_ref="inbox")
    ledger.acquire("sent", heartbeat=False).complete()
    (delivery,) = journal.deliveries()
    claimed = journal.delivery_ledger(owner="sender").attempt(delivery.invocation_id)
    assert claimed is not None
    sql("DELETE FROM events WHERE topic = 'delivery.requested'")
    with refused("RUN_INTEGRITY_ERROR", "unreadable_event") as caught:
        journal.timeline("sent")
    assert "'sent'" in caught.value.message
    assert "no meaning" in journal.report(["sent"])
