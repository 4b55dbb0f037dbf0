"""What becomes of the space: docs/prune.md says it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from runjournal import Journal, open_journal

from .conftest import later

#: Runs of four events with a checkpoint of 4 KB.
RUNS = 300


def fill(journal: Journal, name: str) -> None:
    ledger = journal.ledger(owner="worker")
    for n in range(RUNS):
        ledger.start(f"{name}-{n}")
        lease = ledger.acquire(f"{name}-{n}", heartbeat=False)
        lease.save_checkpoint("x" * 4000)
        lease.complete()


def test_sqlite_file_shrinks_by_vacuum(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    url = f"sqlite:///{path}?synchronous=normal"
    with open_journal(url) as journal:
        fill(journal, "first")
    full = path.stat().st_size
    with open_journal(url) as journal:
        assert journal.prune_all(later()).runs == RUNS
    assert path.stat().st_size >= full * 0.9  # freed within the file
    with open_journal(url) as journal:
        fill(journal, "second")
    assert path.stat().st_size <= full * 1.2  # and used again
    with open_journal(url) as journal:
        journal.prune_all(later())
    with closing(sqlite3.connect(path)) as file:
        file.execute("VACUUM")
    assert path.stat().st_size <= full * 0.4
    with open_journal(url) as journal:
        assert journal.verify().findings == []
        head = journal.position()
        fill(journal, "third")
        # VACUUM must not set the positions back.
        assert next(p for p, _ in journal.subscribe(head, follow=False)) > head


def test_postgres_tables_are_used_again_after_vacuum(postgres_url: str) -> None:
    def size(*tables: str) -> int:
        total = "SELECT sum(pg_total_relation_size(t::regclass))::bigint FROM unnest(%s::text[]) t"
        found = admin.execute(total, (list(tables),)).fetchone()
        assert found is not None
        return int(found[0])

    with (
        open_journal(postgres_url) as journal,
        psycopg.connect(postgres_url, autocommit=True) as admin,
    ):
        for table in ("events", "runs"):  # what the test measures comes from its own VACUUM
            admin.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        fill(journal, "first")
        full = size("events", "runs")
        assert journal.prune_all(datetime.now(UTC) + timedelta(seconds=30)).runs == RUNS
        admin.execute("VACUUM events, runs")
        fill(journal, "second")
        assert size("events", "runs") <= full * 1.2
        journal.prune_all(later())
        admin.execute("VACUUM FULL events, runs")
        assert size("events", "runs") <= full * 0.2
        assert size("tombstones") <= full * 0.4
