"""Connections that end, servers that restart, time-outs, and a failover that is not over.

What may pass is tried again, for a bounded time; what remains is typed, and says whether the same
call may succeed later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.postgres import database
from runjournal.domain.errors import RUN_STORE_UNAVAILABLE

from .proxy import Proxy
from .servers import OwnServer, Until, Watcher, row_locked

Verify = Callable[[Journal, str], None]

WHOLE_LIFE = ["queued", "lease_granted", "checkpoint_saved", "checkpoint_saved", "completed"]


def happened(journal: Journal, run_id: str) -> list[str]:
    return [event.topic.removeprefix("run.") for event in journal.events(run_id)]


@pytest.fixture
def journal(postgres_url: str) -> Iterator[Journal]:
    with open_journal(postgres_url) as journal:
        yield journal


def live(journal: Journal, run_id: str, disturb: Callable[[], object]) -> None:
    """A run's whole life, disturbed before each step."""
    ledger = journal.ledger(owner="worker")
    disturb()
    ledger.start(run_id, delivery_ref="inbox")
    disturb()
    lease = ledger.claim(heartbeat=False)
    assert lease is not None
    disturb()
    lease.save_checkpoint({"n": 1})
    disturb()
    lease.renew()
    disturb()
    lease.save_checkpoint({"n": 2})
    disturb()
    assert lease.checkpoint == {"n": 2}
    disturb()
    lease.complete()
    disturb()
    assert [r.status for r in journal.runs()] == ["completed"]
    assert happened(journal, run_id) == WHOLE_LIFE


def test_connections_that_are_ended_while_idle(
    journal: Journal, watcher: Watcher, verify_run: Verify
) -> None:
    ended = []
    live(journal, "run", lambda: ended.append(watcher.terminate()))
    assert sum(ended) >= 7
    verify_run(journal, "run")


def test_many_idle_connections_ended_at_once(journal: Journal, watcher: Watcher) -> None:
    """More stale connections than a command has tries: one command does not run out of them."""
    count = database.TRIES * 2
    ledger = journal.ledger()
    with ThreadPoolExecutor(count) as pool, row_locks(watcher, journal, count):
        lives = [pool.submit(ledger.cancel, f"run-{n}") for n in range(count)]
    assert all(done.result().status == "cancelled" for done in lives)
    assert watcher.terminate() >= count
    assert ledger.get("run-1") is not None
    assert ledger.start("next").version == 1


@contextmanager
def row_locks(watcher: Watcher, journal: Journal, count: int) -> Iterator[None]:
    """So many runs, each locked until so many commands wait: each has a connection of its own."""
    ids = [f"run-{n}" for n in range(count)]
    for run_id in ids:
        journal.ledger().start(run_id)
    with row_locked(watcher.url, *ids):
        yield
        while watcher.waiting() < count:
            time.sleep(0.005)


@pytest.mark.parametrize("name", ["save_checkpoint", "complete", "cancel"])
def test_connection_that_is_ended_while_in_use(
    journal: Journal, watcher: Watcher, wait_until: Until, verify_run: Verify, name: str
) -> None:
    """The server ends the session in the middle of the statement: it lands once all the same."""
    lease = journal.ledger().acquire("run", heartbeat=False)
    acts: dict[str, Callable[[], Any]] = {
        "save_checkpoint": lambda: lease.save_checkpoint({}),
        "complete": lease.complete,
        "cancel": lambda: journal.ledger().cancel("run"),
    }
    with ThreadPoolExecutor() as pool:
        with row_locked(watcher.url, "run"):
            doing = pool.submit(acts[name])
            for _ in range(2):
                wait_until(lambda: watcher.waiting() == 1)
                assert watcher.terminate_waiting() == 1
            wait_until(lambda: watcher.waiting() == 1)
        doing.result()
    ends = {"save_checkpoint": "checkpoint_saved", "complete": "completed", "cancel": "cancelled"}
    assert happened(journal, "run")[2:] == [ends[name]]
    verify_run(journal, "run")


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_server_that_restarts(restartable: OwnServer, verify_run: Verify, mode: str) -> None:
    with open_journal(restartable.new_database()) as journal:
        ledger = journal.ledger(owner="worker")
        ledger.start("run", delivery_ref="inbox")
        lease = ledger.claim(heartbeat=False)
        assert lease is not None
        lease.save_checkpoint({"n": 1})
        restartable.restart(mode)
        lease.save_checkpoint({"n": 2})
        restartable.restart(mode)
        lease.complete()
        assert happened(journal, "run") == WHOLE_LIFE
        verify_run(journal, "run")


def test_server_that_is_away_for_a_while(
    restartable: OwnServer, wait_until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """Commands wait for it, a bounded time and with pauses that grow; then they say so."""
    caplog.set_level(logging.INFO, "runjournal.postgres")
    with open_journal(restartable.new_database()) as journal, ThreadPoolExecutor() as pool:
        lease = journal.ledger().acquire("run", heartbeat=False)
        restartable.stop()
        try:
            saving = pool.submit(lease.save_checkpoint, {"n": 1})
            wait_until(lambda: "trying again" in caplog.text)
        finally:
            restartable.start()
        assert saving.result().version == 3
        tried = [r for r in caplog.records if "trying again" in r.message]
        assert len(tried) <= 3 * database.TRIES
        assert lease.held


@pytest.mark.usefixtures("impatient")
def test_server_that_stays_away(restartable: OwnServer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "runjournal.postgres")
    with open_journal(restartable.new_database()) as journal:
        ledger = journal.ledger()
        ledger.start("run")
        lease = ledger.acquire("held", heartbeat=False)
        restartable.stop()
        try:
            acts: list[Callable[[], Any]] = [
                lambda: ledger.get("run"),
                ledger.claim,
                lease.renew,
                lambda: open_journal(restartable.url),
            ]
            for act in acts:
                with refused(RUN_STORE_UNAVAILABLE, "failed") as caught:
                    act()
                assert caught.value.retryable
            tried = [r for r in caplog.records if "trying again" in r.message]
            assert len(tried) == len(acts) * (database.TRIES - 1)
            assert lease.lost is None
        finally:
            restartable.start()
        lease.save_checkpoint({"n": 1})
        claimed = ledger.claim()
        assert claimed is not None
        assert claimed.run_id == "run"


def test_statement_that_takes_too_long(
    watcher: Watcher, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_TIMEOUT", 0.2)
    with open_journal(postgres_url) as journal:
        lease = journal.ledger().acquire("run", heartbeat=False)
        with row_locked(postgres_url, "run"):
            begin = time.monotonic()
            for act in (lambda: lease.save_checkpoint({}), lambda: journal.ledger().cancel("run")):
                with refused(RUN_STORE_UNAVAILABLE, "busy") as caught:
                    act()
                assert caught.value.retryable
            assert time.monotonic() - begin < 5
        assert lease.save_checkpoint({"n": 2}).version == 3
        assert happened(journal, "run")[2:] == ["checkpoint_saved"]
        assert watcher.waiting() == 0


def test_claim_whose_client_freezes_between_its_two_trips(
    proxy: Proxy, journal: Journal, watcher: Watcher, wait_until: Until, postgres_url: str
) -> None:
    """The server ends the idle transaction; another worker gets the run, and only that one."""
    frozen = f"{proxy.url}&application_name=frozen"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "IDLE_IN_TRANSACTION_TIMEOUT", 0.3)
        freezing = open_journal(frozen)
    ledger = freezing.ledger(owner="frozen")
    ledger.start("run")
    others: list[Any] = []

    def freeze() -> None:
        assert journal.ledger(owner="other").claim() is None  # its row is locked
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'frozen'"
        wait_until(lambda: watcher.one(query) == 0)
        others.append(journal.ledger(owner="other").claim(heartbeat=False))

    proxy.before("commit", freeze)
    assert ledger.claim() is None
    (other,) = others
    assert (other.run_id, other.fencing_token) == ("run", 1)
    other.complete()
    assert happened(journal, "run") == ["queued", "lease_granted", "completed"]
    freezing.close()


@contextmanager
def read_only(server: OwnServer, wait_until: Until) -> Iterator[Callable[[], None]]:
    """The server refuses to write, as a primary that was demoted does; gives what ends that."""

    def switch(action: str, wanted: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as conn:
            conn.execute("SET default_transaction_read_only = off")
            conn.execute(f"ALTER SYSTEM {action}".encode())
            conn.execute("SELECT pg_reload_conf()")

        def now() -> Any:
            with psycopg.connect(server.url) as conn:
                return conn.execute("SHOW default_transaction_read_only").fetchone()

        wait_until(lambda: now() == (wanted,))

    switch("SET default_transaction_read_only = on", "on")
    try:
        yield lambda: switch("RESET default_transaction_read_only", "off")
    finally:
        switch("RESET default_transaction_read_only", "off")


@pytest.mark.usefixtures("impatient")
def test_failover_that_is_not_over(restartable: OwnServer, wait_until: Until) -> None:
    """A server that does not write yet: nothing was written, and later it may be."""
    with open_journal(restartable.new_database()) as journal:
        ledger = journal.ledger()
        ledger.start("run")
        lease = ledger.acquire("held", heartbeat=False)
        with read_only(restartable, wait_until):
            acts: list[Callable[[], Any]] = [
                lambda: lease.save_checkpoint({}),
                lease.renew,
                ledger.claim,
                lambda: ledger.start("other"),
                lambda: ledger.cancel("run"),
            ]
            for act in acts:
                with pytest.raises(RunStoreError, match="read-only") as caught:
                    act()
                # A worker outlives what is retryable: a failover must not end all workers.
                assert caught.value.retryable, repr(caught.value)
            assert ledger.get("run") is not None
            assert lease.lost is None
        lease.save_checkpoint({"n": 1})
        assert ledger.cancel("run").status == "cancelled"
        assert happened(journal, "held")[2:] == ["checkpoint_saved"]
        assert journal.get("other") is None


def test_failover_that_ends_while_a_command_waits(
    restartable: OwnServer, wait_until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "runjournal.postgres")
    with open_journal(restartable.new_database()) as journal, ThreadPoolExecutor() as pool:
        lease = journal.ledger().acquire("run", heartbeat=False)
        with read_only(restartable, wait_until) as end:
            saving = pool.submit(lease.save_checkpoint, {"n": 1})
            wait_until(lambda: "trying again" in caplog.text)
            end()
            assert saving.result().version == 3


@pytest.mark.parametrize("part", ["/nowhere", "?user=nobody"])
def test_what_will_not_pass_is_refused_at_once(
    postgres_url: str, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    """No such database, no such role: trying again would only keep the user waiting."""
    caplog.set_level(logging.INFO)
    address = urlsplit(postgres_url)
    asked = f"{address.query}&user=nobody" if "user" in part else address.query
    path = address.path if "user" in part else part
    with refused(RUN_STORE_UNAVAILABLE, "failed"):
        open_journal(urlunsplit(address._replace(path=path, query=asked)))
    assert "trying again" not in caplog.text
