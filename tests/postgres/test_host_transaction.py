"""What the host starts in its own transaction commits or rolls back with the host's work."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunStoreError, open_journal

from .servers import Until, Watcher


@pytest.fixture
def journal(postgres_url: str) -> Iterator[Journal]:
    with open_journal(postgres_url) as journal:
        yield journal


@pytest.fixture
def host(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url) as conn:
        conn.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        conn.commit()
        yield conn


def test_start_commits_with_the_host(journal: Journal, host: Any) -> None:
    host.execute("INSERT INTO orders VALUES (1)")
    record = journal.in_transaction(host).start("order-1", input={"order": 1})
    assert (record.status, record.version) == ("queued", 1)
    assert journal.get("order-1") is None
    assert journal.ledger().claim() is None
    host.commit()
    lease = journal.ledger().claim()
    assert lease is not None
    assert (lease.run_id, lease.input) == ("order-1", {"order": 1})


def test_start_rolls_back_with_the_host(journal: Journal, host: Any) -> None:
    journal.in_transaction(host).start("order-1")
    host.rollback()
    assert journal.get("order-1") is None
    assert list(journal.events("order-1")) == []
    assert journal.ledger().start("order-1", kind="other").kind == "other"


def test_transaction_block_on_an_autocommit_connection(journal: Journal, postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        with conn.transaction():
            journal.in_transaction(conn).start("order-1")
            assert journal.get("order-1") is None
        assert journal.get("order-1") is not None
        # Outside of a block each statement would commit by itself, whatever the host does next.
        with pytest.raises(RunStoreError, match="autocommit") as caught:
            journal.in_transaction(conn).start("order-2")
        assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")
    assert journal.get("order-2") is None


def test_repeated_start_converges_inside_a_transaction(journal: Journal, host: Any) -> None:
    journal.ledger().start("order-1", command_id="c1")
    inside = journal.in_transaction(host)
    assert inside.start("order-1", command_id="c1").version == 1
    with pytest.raises(RunStoreError) as caught:
        inside.start("order-1", kind="other")
    assert caught.value.code == "RUN_CONFLICT"
    host.commit()


def test_other_commands_too(journal: Journal, host: Any) -> None:
    journal.ledger().acquire("order-1").suspend(["a"])
    inside = journal.in_transaction(host)
    inside.record_decision("order-1", "a", "yes", actor="ops")
    inside.request_resume("order-1")
    inside.cancel("order-1", message="refunded")
    before = journal.get("order-1")
    assert before is not None
    assert before.status == "suspended"
    host.commit()
    after = journal.get("order-1")
    assert after is not None
    assert (after.status, after.version) == ("cancelled", before.version + 3)


def test_two_transactions_decide_at_once(
    journal: Journal, host: Any, watcher: Watcher, wait_until: Until
) -> None:
    """The second one waits for the first, and decides on what it left."""
    journal.ledger().acquire("order-1").suspend(["a", "b"], resume_when_decided=True)
    journal.in_transaction(host).record_decision("order-1", "a", "yes")
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(journal.ledger().record_decision, "order-1", "b", "yes")
        wait_until(lambda: watcher.waiting() == 1)
        host.commit()
        assert second.result(30).approvals == {"a": "yes", "b": "yes"}
    lease = journal.ledger().claim()
    assert lease is not None
    assert lease.record.approvals == {"a": "yes", "b": "yes"}


def test_lost_race_under_repeatable_read_is_typed(journal: Journal, host: Any) -> None:
    journal.ledger().start("order-1")
    host.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    host.execute("SELECT 1 FROM orders")
    inside = journal.in_transaction(host)
    assert inside.get("order-1") is not None
    journal.ledger().cancel("order-1")
    with pytest.raises(RunStoreError) as caught:
        inside.cancel("order-1", message="too late")
    assert (caught.value.code, caught.value.reason) == ("RUN_CONFLICT", "contended")
    assert caught.value.retryable
    host.rollback()


def test_case_40_swallowed_failure_stores_nothing(journal: Journal, host: Any) -> None:
    host.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        host.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(RunStoreError) as caught:
        journal.in_transaction(host).start("order-1")
    assert caught.value.code == "RUN_STORE_UNAVAILABLE"
    host.commit()  # Postgres answers ROLLBACK, and says so to nobody
    assert journal.get("order-1") is None


def test_open_transaction_shows_as_lag_with_its_pid(journal: Journal, host: Any) -> None:
    journal.in_transaction(host).start("order-1")
    journal.ledger().start("order-2")
    recorder: Any = journal.store
    assert recorder.max_notification_id() is None
    assert [pid for _, pid in recorder.gaps.writers()] == [host.info.backend_pid]
    host.commit()
    assert recorder.max_notification_id() == 2


def test_only_postgres_can_join(sqlite_url: str) -> None:
    with open_journal(sqlite_url) as journal, pytest.raises(RunStoreError) as caught:
        journal.in_transaction(object())
    assert caught.value.reason == "argument"
