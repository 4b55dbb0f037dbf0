"""The store behind a real PgBouncer in transaction mode: nothing outlives a transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.contract import PersistenceContract, RunStoreContract
from runjournal.adapters.postgres.database import Database
from runjournal.adapters.postgres.store import PostgresStore
from runjournal.projections.inspection import Check

Bouncer = Callable[[str], str]


class TestPostgresStoreBehindPgBouncer(RunStoreContract, PersistenceContract):
    @pytest.fixture(autouse=True)
    def _databases(self, new_postgres: Callable[[], str], pgbouncer: Bouncer) -> None:
        self.new_database = new_postgres
        self.behind = pgbouncer
        self.urls: dict[int, str] = {}

    def make_store(self, tmp_path: Path) -> PostgresStore:
        return self.open(self.new_database())

    def open(self, url: str) -> PostgresStore:
        store = PostgresStore(Database(self.behind(url), pooler=True))
        self.urls[id(store)] = url
        return store

    def reopen(self, store: PostgresStore) -> PostgresStore:
        return self.open(self.urls[id(store)])

    def spoil(self, store: PostgresStore, run_id: str) -> None:
        with psycopg.connect(self.urls[id(store)]) as conn:
            conn.execute("UPDATE runs SET body = '\\xff' WHERE run_id = %s", (run_id,))

    def spoil_delivery(self, store: PostgresStore, invocation_id: str) -> None:
        with psycopg.connect(self.urls[id(store)]) as conn:
            conn.execute(
                "UPDATE delivery_outbox SET body = '\\xff' WHERE invocation_id = %s",
                (invocation_id,),
            )


def test_a_pooler_must_be_told_of(pgbouncer: Bouncer, postgres_url: str) -> None:
    """Without pooler=True settings are sent at the connection, and PgBouncer refuses them."""
    with pytest.raises(RunStoreError) as caught:
        open_journal(pgbouncer(postgres_url))
    assert "options" in caught.value.message


def server_connections(url: str) -> int:
    """How many connections to the database there are, but for the one that asks."""
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_sixteen_threads_over_two_connections(
    start_pgbouncer: Callable[[int], Bouncer],
    postgres_url: str,
    verify_run: Callable[[Journal, str], None],
) -> None:
    each, threads = 6, 16
    behind = start_pgbouncer(2)(postgres_url)
    failures: list[BaseException] = []
    with open_journal(behind, pooler=True) as journal:
        first = journal.ledger()
        for number in range(each * threads):
            first.start(f"run-{number}")

        def work() -> None:
            try:
                ledger = journal.ledger()
                while (lease := ledger.claim()) is not None:
                    with lease:
                        lease.save_checkpoint(1)
                        lease.renew()
                        lease.complete(2)
            except BaseException as e:
                failures.append(e)

        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not failures
        assert len(journal.runs(status="completed", limit=1000)) == each * threads
        for number in range(each * threads):
            verify_run(journal, f"run-{number}")
        assert 1 <= server_connections(postgres_url) <= 2
        # Two processes' worth of connections share the same two: nothing of one is left to another.
        with open_journal(behind, schema="other's", pooler=True) as other:
            other.ledger().start("run-0")
            assert len(other.runs()) == 1
            assert journal.get("run-0").status == "completed"  # type: ignore[union-attr]
        assert 1 <= server_connections(postgres_url) <= 2


def test_nobody_listens_behind_a_pooler(pgbouncer: Bouncer, postgres_url: str) -> None:
    """A LISTEN would stay on a connection that others get next."""
    with open_journal(pgbouncer(postgres_url), pooler=True, notify=True) as journal:
        journal.ledger().start("run")
        assert not journal.wait_for_work(0.2)
        with psycopg.connect(postgres_url) as conn:
            listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            assert conn.execute(listening).fetchone() == (0,)
        assert journal.ledger().claim() is not None


def test_settings_on_the_role_reach_the_commands(
    pgbouncer: Bouncer, postgres_url: str, wait_until: Any
) -> None:
    """The time-outs that a session would have set, docs/postgres.md puts on the role."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        database = admin.info.dbname.encode()
        admin.execute(
            b"ALTER ROLE CURRENT_USER IN DATABASE %b SET lock_timeout TO '50ms'" % database
        )
        with open_journal(pgbouncer(postgres_url), pooler=True) as journal:
            lease = journal.ledger().acquire("run", heartbeat=False)
            with admin.transaction():
                admin.execute("SELECT FROM runs FOR UPDATE")
                with pytest.raises(RunStoreError) as caught:
                    lease.save_checkpoint(1)
                assert (caught.value.code, caught.value.reason) == ("RUN_STORE_UNAVAILABLE", "busy")
            lease.save_checkpoint(1)
            lease.complete()


def test_the_doctor_sees_a_pooler(pgbouncer: Bouncer, postgres_url: str) -> None:
    """A pooler that swallows our settings is found out by the process that serves us."""

    def pooler_check(journal: Journal) -> Check:
        (check,) = [c for c in journal.store.settings() if c.name == "pooler"]  # type: ignore[attr-defined]
        return check

    with open_journal(pgbouncer(postgres_url), pooler=True) as journal:
        assert pooler_check(journal).verdict == "pass"
        # As if it were not told: PgBouncer may be set to ignore what it does not know.
        journal.store.database.pooler = False  # type: ignore[attr-defined]
        check = pooler_check(journal)
        assert check.verdict == "fail"
        assert "--pooler" in check.fix
        assert len(journal.store.settings()) == 1  # type: ignore[attr-defined]
