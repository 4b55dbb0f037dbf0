"""rebuild: the records and the outbox come back as they were, while work goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.projections import rebuild as rebuilding
from runjournal.projections.findings import Finding

from .conftest import Sql, fill

#: Rows between two points at which a rebuild is killed.
BATCH = 1 if os.environ.get("RUNJOURNAL_PROVE") else 5

BOTH = [("run_records", "runs"), ("delivery_outbox", "delivery_outbox")]
ROWS = {
    "runs": "SELECT run_id, kind, status, version, fencing_token, created_at, updated_at,"
    " checkpoint, head, body FROM runs ORDER BY run_id",
    "delivery_outbox": "SELECT invocation_id, run_id, delivery_ref, status, version,"
    " next_attempt_at, updated_at, head, body FROM delivery_outbox ORDER BY invocation_id",
}


def no_findings(findings: tuple[Finding, ...]) -> None:
    assert [f.message for f in findings] == []


@pytest.mark.parametrize(("name", "table"), BOTH)
@pytest.mark.parametrize("how", ["DELETE FROM {}", "DROP TABLE {}"])
def test_emptied_or_dropped(stored: Journal, sql: Sql, name: str, table: str, how: str) -> None:
    before = sql(ROWS[table])
    events = sql("SELECT * FROM events ORDER BY stream, version")
    sql(how.format(table))
    done = stored.rebuild(name)
    no_findings(done.findings)
    assert done.repaired == len(before)
    assert sql(ROWS[table]) == before
    assert stored.verify().findings == []
    # It sends nothing, and writes no event.
    assert sql("SELECT * FROM events ORDER BY stream, version") == events
    # A second one finds nothing to do.
    assert stored.rebuild(name).repaired == 0
    assert sql(ROWS[table]) == before


def test_dropped_tables_come_back_with_their_indexes(
    stored: Journal, sql: Sql, database_url: str
) -> None:
    names = (
        "SELECT name FROM sqlite_master WHERE type = 'index' AND name NOT LIKE 'sqlite%'"
        if database_url.startswith("sqlite")
        else "SELECT indexname FROM pg_indexes WHERE schemaname = 'public'"
    )
    before = sorted(sql(names))
    for name, table in BOTH:
        sql(f"DROP TABLE {table}")
        stored.rebuild(name)
    assert sorted(sql(names)) == before


@pytest.mark.parametrize("url_of", ["memory"])
def test_in_memory(url_of: str) -> None:
    with open_journal(f"{url_of}:") as journal:
        fill(journal, runs=2)
        store: Any = journal.store
        before = journal.runs(), journal.deliveries()
        store.rows.clear()
        store.outbox.clear()
        for name, _ in BOTH:
            no_findings(journal.rebuild(name).findings)
        records, deliveries = journal.runs(), journal.deliveries()
        assert ([r.run_id for r in records], deliveries) == (
            [r.run_id for r in before[0]],
            before[1],
        )
        assert journal.verify().findings == []


@pytest.mark.parametrize(
    "change",
    [
        "kind = 'x'",
        "status = 'completed', ready_at = NULL",
        "fencing_token = 99",
        "version = version - 1",
        "body = cast('{}' AS {blob})",
        "checkpoint = NULL",
        "attention = 'set aside', ready_at = NULL",
    ],
)
def test_a_changed_row_is_put_right_and_can_be_worked_with(
    stored: Journal, sql: Sql, database_url: str, change: str
) -> None:
    before = sql(ROWS["runs"])
    blob = "blob" if database_url.startswith("sqlite") else "bytea"
    sql(f"UPDATE runs SET {change.replace('{blob}', blob)} WHERE run_id = 'held-0'")
    stored.rebuild("run_records")
    if "attention" not in change:
        assert sql(ROWS["runs"]) == before
        assert stored.attention() == []
    assert stored.verify().findings == []


def test_deadlines_stay(stored: Journal, sql: Sql) -> None:
    due = "SELECT run_id, ready_at FROM runs ORDER BY run_id"
    sql("UPDATE runs SET ready_at = created_at WHERE run_id IN ('held-0', 'queued-0')")
    sql("UPDATE runs SET kind = 'x'")
    before = sql(due)
    stored.rebuild("run_records")
    assert sql(due) == before


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE runs SET head = 'x' WHERE run_id = 'done-0'", "head"),
        ("DELETE FROM events WHERE stream = 'run/done-0' AND version = 5", "cut_tail"),
        ("DELETE FROM events WHERE stream = 'run/done-0' AND version = 3", "gap"),
    ],
)
def test_a_contradiction_is_reported_and_left(
    stored: Journal, sql: Sql, statement: str, kind: str
) -> None:
    sql(statement)
    before = sql(ROWS["runs"])
    done = stored.rebuild("run_records")
    assert [(f.kind, f.stream) for f in done.findings] == [(kind, "run/done-0")]
    assert (done.repaired, sql(ROWS["runs"])) == (0, before)


@pytest.mark.parametrize("how", ["DELETE FROM {}", "UPDATE {} SET status = status || 'x'"])
def test_writers_and_readers_go_on(
    stored: Journal, sql: Sql, database_url: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they wrote meanwhile is there, and right."""
    monkeypatch.setattr(rebuilding, "BATCH", 3)
    fill(stored, runs=5, first=1)
    ledger = stored.ledger(owner="busy")
    leases = [ledger.acquire(f"busy-{n}") for n in range(4)]
    stop = threading.Event()

    def work(number: int) -> int:
        written = 0
        while not stop.is_set():
            leases[number].save_checkpoint({"n": written})
            ledger.start(f"new-{number}-{written}", delivery_ref="inbox")
            ledger.cancel(f"new-{number}-{written}")
            written += 1
        return written

    with ThreadPoolExecutor() as pool:
        working = [pool.submit(work, n) for n in range(4)]
        try:
            for name, table in BOTH:
                sql(how.format(table) + " WHERE " + _old(table))
                no_findings(stored.rebuild(name).findings)
        finally:
            stop.set()
        written = [w.result() for w in working]
    assert min(written) > 0
    assert stored.verify().findings == []
    for number, lease in enumerate(leases):
        assert lease.lost is None
        assert lease.checkpoint == {"n": written[number] - 1}


def _old(table: str) -> str:
    """The rows that no writer is at work on: without its row a run cannot be written to."""
    column = "run_id" if table == "runs" else "delivery_ref"
    return f"{column} LIKE 'done%'" if table == "runs" else f"{column} = 'bad'"


def test_case_34_two_at_once_and_again(
    stored: Journal, database_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is refused at once; after ten more events a rebuild is as good as the first."""
    entered, leave = threading.Event(), threading.Event()

    class Waiting:
        def is_set(self) -> bool:
            entered.set()
            leave.wait(30)
            return False

    with open_journal(database_url) as other, ThreadPoolExecutor() as pool:
        first = pool.submit(stored.rebuild, "run_records", interrupt=Waiting())
        assert entered.wait(30)
        with pytest.raises(RunStoreError) as caught:
            other.rebuild("run_records")
        assert (caught.value.code, caught.value.reason) == ("RUN_CONFLICT", "already_running")
        other.rebuild("delivery_outbox")  # another table is another matter
        leave.set()
        first.result()
        fill(other, runs=2, first=1)
        before = sql(ROWS["runs"])
        sql("DELETE FROM runs")
        no_findings(other.rebuild("run_records").findings)
        assert sql(ROWS["runs"]) == before


def test_stopped_between_two_pages(stored: Journal, sql: Sql) -> None:
    sql("DELETE FROM runs")
    stop = threading.Event()
    stop.set()
    done = stored.rebuild("run_records", interrupt=stop)
    assert (done.streams, done.repaired) == (0, 0)
    no_findings(stored.rebuild("run_records").findings)
    assert stored.verify().findings == []


def test_unknown_table_is_refused(journal: Journal) -> None:
    with pytest.raises(RunStoreError) as caught:
        journal.rebuild("runs")
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")


def test_killed_at_any_batch_the_next_one_succeeds(
    stored: Journal,
    sql: Sql,
    database_url: str,
    start_script: Callable[..., Any],
) -> None:
    """Before its first, second, ... repair: what was put right stays, and the next one ends it."""
    fill(stored, runs=2, first=1)
    before = sql(ROWS["runs"])
    script = Path(__file__).with_name("killed_rebuild.py")
    points = last = 0
    while True:
        sql("UPDATE runs SET kind = 'x'")
        process = start_script(script, database_url, points, BATCH)
        process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -9
        rows = sql(ROWS["runs"])
        right = sum(row in before for row in rows)
        assert last <= right <= BATCH * points
        last, points = right, points + 1
    assert points >= len(before) // BATCH
    assert sql(ROWS["runs"]) == before
