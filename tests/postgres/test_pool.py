"""A pool of the host's own under the journal: no deadlock, and nothing kept back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool, NullConnectionPool
from runjournal import Journal, RunStoreError, open_journal

Verify = Callable[[Journal, str], None]


def run_many(url: str, pool: Any, threads: int, each: int, verify: Verify, **options: Any) -> None:
    """Every thread works on runs of its own and on shared ones; all end well."""
    failures: list[BaseException] = []
    with open_journal(url, pool=pool, **options) as journal:

        def work(number: int) -> None:
            try:
                ledger = journal.ledger()
                for n in range(each):
                    ledger.start(f"run-{number}-{n}", kind="k")
                    lease = ledger.claim(kinds=["k"])
                    if lease is not None:
                        lease.save_checkpoint(n)
                        lease.renew()
                        lease.complete()
            except BaseException as e:
                failures.append(e)

        workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert not failures
        for record in journal.runs(limit=1000):
            verify(journal, record.run_id)
        assert len(journal.runs(limit=1000)) == threads * each


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("autocommit", [False, True])
def test_small_pool_and_many_threads(
    postgres_url: str, size: int, autocommit: bool, verify_run: Verify
) -> None:
    with ConnectionPool(
        postgres_url, min_size=size, max_size=size, kwargs={"autocommit": autocommit}, open=True
    ) as pool:
        pool.wait(30)
        run_many(postgres_url, pool, threads=12, each=4, verify=verify_run)
        stats = pool.get_stats()
        assert (stats["pool_size"], stats["pool_available"]) == (size, size)
        assert stats.get("requests_errors", 0) == 0
        # None came back broken or in a transaction, so none had to be made anew.
        assert stats["connections_num"] == size
        assert stats.get("returns_bad", 0) == 0
        with pool.connection() as conn:
            assert conn.autocommit == autocommit
            assert conn.execute("SELECT count(*) FROM runs").fetchone() == (48,)


def test_pool_that_keeps_no_connection(postgres_url: str, verify_run: Verify) -> None:
    with NullConnectionPool(postgres_url, max_size=2, open=True) as pool:
        run_many(postgres_url, pool, threads=4, each=2, verify=verify_run)


def test_pool_makes_the_tables_too(postgres_url: str, verify_run: Verify) -> None:
    with ConnectionPool(postgres_url, min_size=1, max_size=1, open=True) as pool:
        run_many(postgres_url, pool, 2, 2, verify_run, schema="another")
        assert pool.get_stats()["pool_available"] == 1


def test_host_and_journal_share_one_connection(postgres_url: str) -> None:
    """Between the journal's commands the host has the connection, with its own settings."""
    with (
        ConnectionPool(postgres_url, min_size=1, max_size=1, open=True) as pool,
        open_journal(postgres_url, pool=pool) as journal,
    ):
        lease = journal.ledger().acquire("run", heartbeat=False)
        with pool.connection() as conn:
            conn.execute("CREATE TABLE hosts (x int)")
            conn.execute("SET TIME ZONE 'Asia/Tokyo'")
        lease.save_checkpoint(1)
        with pool.connection() as conn:
            assert conn.execute("SHOW TIME ZONE").fetchone() == ("Asia/Tokyo",)
            conn.execute("INSERT INTO hosts VALUES (1)")
        lease.complete()
        record = journal.get("run")
        assert record is not None
        assert (record.status, record.version) == ("completed", 4)
        assert abs((record.updated_at - record.created_at).total_seconds()) < 60


def test_two_journals_share_one_pool(postgres_url: str) -> None:
    """Each prepares under names of its own, on the same connection."""
    with ConnectionPool(postgres_url, min_size=1, max_size=1, open=True) as pool:
        with (
            open_journal(postgres_url, pool=pool, schema="one") as one,
            open_journal(postgres_url, pool=pool, schema="two") as two,
        ):
            for journal in (one, two, one):
                journal.ledger().acquire("run", heartbeat=False).release()
            assert [len(list(j.events("run"))) for j in (one, two)] == [5, 3]
        # Opened again later, on a connection that still has what the first one prepared.
        with open_journal(postgres_url, pool=pool, schema="one") as again:
            again.ledger().acquire("run", heartbeat=False).complete()


def test_connection_that_dies_in_the_pool(postgres_url: str) -> None:
    with (
        ConnectionPool(postgres_url, min_size=1, max_size=1, open=True) as pool,
        open_journal(postgres_url, pool=pool) as journal,
    ):
        journal.ledger().start("run")
        with pool.connection() as conn, psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (conn.info.backend_pid,))
        record = journal.get("run")
        assert record is not None
        assert record.status == "queued"
        assert pool.get_stats()["pool_available"] == 1


def test_pool_that_is_exhausted_is_a_typed_error(postgres_url: str) -> None:
    """The host's other work holds the only connection: a command waits as long as the pool does."""
    with (
        ConnectionPool(postgres_url, min_size=1, max_size=1, timeout=0.1, open=True) as pool,
        open_journal(postgres_url, pool=pool) as journal,
    ):
        with pool.connection(), pytest.raises(RunStoreError) as caught:
            journal.get("run")
        assert caught.value.code == "RUN_STORE_UNAVAILABLE"
        assert caught.value.retryable
        # One time-out of the pool's, not one for every try.
        assert pool.get_stats()["requests_errors"] == 1
        assert journal.get("run") is None


def test_command_that_outlives_the_closing_leaves_no_connection(postgres_url: str) -> None:
    """A connection that comes back to a closed journal is closed, whoever comes first."""
    journal = open_journal(postgres_url)
    store: Any = journal.store
    database = store.database
    session = database.take()
    journal.close()
    database.give(session)
    assert session.connection.closed
    journal = open_journal(postgres_url)
    store = journal.store
    database = store.database
    session = database.take()
    run = session.run

    def close_meanwhile(*args: Any) -> Any:
        rows = run(*args)
        database.close()
        return rows

    session.run = close_meanwhile
    database.give(session)
    journal.runs()
    assert session.connection.closed
    journal.close()
