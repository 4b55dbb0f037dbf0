"""Deadlines are the server's: judged after any wait for a lock, and moved for many at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunLeaseHandle, RunLedger, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.domain.errors import RUN_LEASE_LOST, RUN_STORE_UNAVAILABLE
from runjournal.domain.ports import LeaseRef

from .proxy import Proxy
from .servers import Until, Watcher, row_locked

#: What a lease lasts that shall run out during the test.
SHORT = 0.8
#: Judges by the row as it was before the wait, for a blocker that changed nothing.
NAIVE = (
    "UPDATE runs SET ready_at = clock_timestamp() + interval '60 s'"
    " WHERE run_id = 'naive' AND fencing_token = 1 AND ready_at > clock_timestamp()"
)

HOLDER_WRITES: dict[str, Callable[[RunLeaseHandle], object]] = {
    "renew": lambda lease: lease.renew(),
    "save_checkpoint": lambda lease: lease.save_checkpoint({"n": 1}),
    "complete": lambda lease: lease.complete(),
    "suspend": lambda lease: lease.suspend(),
}


@pytest.fixture
def journal(postgres_url: str) -> Iterator[Journal]:
    with open_journal(postgres_url) as journal:
        yield journal


@pytest.mark.parametrize("name", HOLDER_WRITES)
def test_lease_that_runs_out_while_its_holder_waits_for_the_row(
    journal: Journal, postgres_url: str, watcher: Watcher, wait_until: Until, name: str
) -> None:
    """The blocker only locks and lets go. Ours is refused as expired; the naive form accepts."""
    ledger = journal.ledger(lease_ttl=SHORT)
    ledger.acquire("naive", heartbeat=False)
    lease = ledger.acquire("ours", heartbeat=False)
    before = journal.get("ours")

    def naive() -> int:
        with psycopg.connect(postgres_url, autocommit=True) as conn:
            return conn.execute(NAIVE).rowcount

    with ThreadPoolExecutor() as pool:
        with row_locked(postgres_url, "ours", "naive"):
            accepted = pool.submit(naive)
            answer = pool.submit(HOLDER_WRITES[name], lease)
            wait_until(lambda: watcher.waiting() == 2)
            assert not watcher.expired("ours")
            wait_until(lambda: watcher.expired("ours") and watcher.expired("naive"))
        with refused(RUN_LEASE_LOST, "expired"):
            answer.result()
        assert accepted.result() == 1
    assert not watcher.expired("naive")
    assert journal.get("ours") == before
    with refused(RUN_LEASE_LOST, "expired"):
        lease.renew()


def test_takeover_waits_for_a_row_that_is_only_locked(
    journal: Journal, postgres_url: str, watcher: Watcher, wait_until: Until
) -> None:
    """The heir waits and gets it; the old holder is refused without waiting."""
    lease = journal.ledger(owner="old", lease_ttl=SHORT).acquire("run", heartbeat=False)
    wait_until(lambda: watcher.expired("run"))
    heir = journal.ledger(owner="heir")
    with ThreadPoolExecutor() as pool:
        with row_locked(postgres_url, "run"):
            taken = pool.submit(heir.acquire, "run")
            with refused(RUN_LEASE_LOST, "expired"):
                lease.save_checkpoint({"late": True})
            wait_until(lambda: watcher.waiting() == 1)
        heiress = taken.result()
        assert (heiress.fencing_token, heiress.attempt) == (2, 2)
    assert heiress.checkpoint is None


def test_takeover_that_waits_behind_a_renewal_is_refused(
    journal: Journal, postgres_url: str, watcher: Watcher, wait_until: Until
) -> None:
    """Decided when the lease had expired; the renewal that came first is not overruled."""
    journal.ledger(owner="old", lease_ttl=SHORT).acquire("run", heartbeat=False)
    wait_until(lambda: watcher.expired("run"))
    with ThreadPoolExecutor() as pool:
        with psycopg.connect(postgres_url) as conn:
            conn.execute("UPDATE runs SET ready_at = clock_timestamp() + interval '60 s'")
            taken = pool.submit(journal.ledger(owner="heir").acquire, "run")
            wait_until(lambda: watcher.waiting() == 1)
            conn.commit()
        error = taken.exception()
    assert getattr(error, "code", None) == "RUN_LEASE_HELD"


def test_locked_row_bounds_the_wait_of_its_holder(
    journal: Journal, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen client that holds the row: the holder is told that the store is busy."""
    monkeypatch.setattr("runjournal.adapters.postgres.database.LOCK_TIMEOUT", 0.2)
    with open_journal(postgres_url) as impatient:
        lease = impatient.ledger().acquire("run", heartbeat=False)
        with row_locked(postgres_url, "run"):
            with refused(RUN_STORE_UNAVAILABLE, "busy") as caught:
                lease.save_checkpoint({"n": 1})
            assert caught.value.retryable
        lease.save_checkpoint({"n": 2})
        assert lease.checkpoint == {"n": 2}


def test_renewal_that_was_not_made_is_no_success(
    journal: Journal, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows of a loss, and yet the lease lasts no longer than before: that is said."""
    monkeypatch.setattr("runjournal.adapters.postgres.runs.LOCK_TIMEOUT", 0.2)
    lease = journal.ledger(lease_ttl=60).acquire("run", heartbeat=False)
    before = lease.record
    with row_locked(postgres_url, "run"):
        with refused(RUN_STORE_UNAVAILABLE, "busy") as caught:
            lease.renew()
        assert caught.value.retryable
    assert lease.lost is None
    assert journal.get("run") == before
    lease.renew()
    assert journal.get("run") != before


def leases_of(ledger: RunLedger, count: int) -> list[RunLeaseHandle]:
    """So many leases of one ledger."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ledger.start(f"run-{n:04}"), range(count)))
    return ledger.claim(limit=count, heartbeat=False)


def test_thousand_leases_are_renewed_in_one_round_trip(proxy: Proxy) -> None:
    with open_journal(proxy.url) as journal:
        ledger = journal.ledger()
        handles = leases_of(ledger, 1000)
        assert len(handles) == 1000
        ledger.beat_once(handles[:1])  # prepares the statement
        before = {h.run_id: h.record.lease.expires_at for h in handles if h.record.lease}
        versions = {h.run_id: h.record.version for h in handles}
        proxy.trips.clear()
        begin = time.perf_counter()
        ledger.beat_once(handles)
        spent = time.perf_counter() - begin
        assert proxy.trips == [("renew",)]
        print(f"1,000 leases renewed in {spent * 1000:.0f} ms")
        for handle in handles:
            lease = handle.record.lease
            assert lease is not None
            assert lease.expires_at > before[handle.run_id]
            assert handle.record.version == versions[handle.run_id]


def test_locked_rows_hold_up_nobody_else(
    journal: Journal, postgres_url: str, wait_until: Until
) -> None:
    """Two rows stay locked for longer than the ttl: all other leases of the ledger go on."""
    ttl = 3.0
    ledger = journal.ledger(lease_ttl=ttl, heartbeat_every=0.3)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: ledger.start(f"run-{n}"), range(12)))
    handles = ledger.claim(limit=12)
    stuck = {"run-3", "run-7"}
    free = [h for h in handles if h.run_id not in stuck]
    dropped: set[str] = set()
    with row_locked(postgres_url, *stuck):
        end = time.monotonic() + ttl + 1

        def all_the_time() -> bool:
            dropped.update(h.run_id for h in free if not h.held)
            return time.monotonic() > end

        wait_until(all_the_time)
    assert not dropped
    for handle in free:
        handle.save_checkpoint({})


def test_renewal_never_moves_a_deadline_back(journal: Journal) -> None:
    handle = journal.ledger(lease_ttl=60).acquire("run", heartbeat=False)
    lease = handle.record.lease
    assert lease is not None
    reply = journal.store.renew([LeaseRef("run", 1, 5.0)])["run"]
    assert reply.deadline == lease.expires_at
    assert not reply.moved
    longer = journal.store.renew([LeaseRef("run", 1, 90.0)])["run"]
    assert longer.moved
    assert longer.deadline is not None
    assert longer.deadline > lease.expires_at


def test_renewals_of_two_ledgers_at_once_do_not_lock_each_other_out(postgres_url: str) -> None:
    """Rows in both orders, many times: no deadlock, and nobody is left out."""
    with open_journal(postgres_url) as journal:
        ledger = journal.ledger()
        handles = leases_of(ledger, 40)
        failures: list[BaseException] = []
        orders = [handles, handles[::-1], handles[::2] + handles[1::2]]
        barrier = threading.Barrier(len(orders))

        def beat(order: list[RunLeaseHandle]) -> None:
            barrier.wait()
            try:
                for _ in range(20):
                    ledger.beat_once(order)
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=beat, args=(order,)) for order in orders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert all(h.held for h in handles)


def test_stamps_and_deadlines_are_the_servers(journal: Journal, watcher: Watcher) -> None:
    """Between two looks at the server's clock lie all stamps of what happened between them."""

    def server_now() -> datetime:
        now: Any = watcher.one("SELECT clock_timestamp()")
        return now.astimezone(UTC)  # type: ignore[no-any-return]

    ledger = journal.ledger(lease_ttl=30)
    ledger.get("-")
    before = server_now()
    handle = ledger.acquire("run", heartbeat=False)
    handle.save_checkpoint({})
    lease = handle.record.lease
    handle.complete()
    after = server_now()
    assert lease is not None
    stamps = [e.timestamp for e in journal.events("run")]
    assert stamps == sorted(stamps)
    assert before <= stamps[0]
    assert stamps[-1] <= after
    assert before.timestamp() <= lease.expires_at.timestamp() - 30 <= after.timestamp()
