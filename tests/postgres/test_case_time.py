"""Cases of time on Postgres: skewed clients, time zones, and waits that count."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest
from psycopg.sql import SQL, Identifier, Literal
from runjournal import Journal, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.domain.errors import RUN_LEASE_HELD, RUN_LEASE_LOST

from .servers import Until, Watcher, row_locked

CLIENT = Path(__file__).with_name("skewed_client.py")
#: `make prove` sets it: cases in their full size.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))

Start = Callable[..., "subprocess.Popen[str]"]
#: Where what is stored is compared with the clock of this host.
NEAR = timedelta(seconds=30)


class Client:
    """A process whose clock is off, and what it answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout
        self.skew = json.loads(self._out.readline())

    def tell(self, what: str, run_id: str, ttl: float = 30) -> Any:
        self._in.write(json.dumps([what, run_id, ttl]) + "\n")
        self._in.flush()
        return json.loads(self._out.readline())


@pytest.mark.parametrize("skews", [(120, -120), (-120, 120), (0, 0)], ids=str)
def test_case_18_clock_skew(
    postgres_url: str,
    start_script: Start,
    watcher: Watcher,
    wait_until: Until,
    skews: tuple[int, int],
) -> None:
    """Who holds the run is the same whatever the clients' clocks show."""
    processes = [
        start_script(CLIENT, postgres_url, owner, skew)
        for owner, skew in zip(("a", "b"), skews, strict=True)
    ]
    first, second = map(Client, processes)
    assert [first.skew, second.skew] == pytest.approx(skews, abs=1)
    before = watcher.one("SELECT clock_timestamp()")
    held, lost = [RUN_LEASE_HELD, "held"], [RUN_LEASE_LOST, "expired"]
    assert first.tell("acquire", "long", 30) == 1
    assert second.tell("acquire", "long", 30) == held
    assert second.tell("claim", "", 30) is None
    assert first.tell("renew", "long") is None
    assert first.tell("checkpoint", "long") == 3
    assert first.tell("acquire", "short", 0.5) == 1
    wait_until(lambda: watcher.expired("short"))
    assert first.tell("renew", "short") == lost
    assert first.tell("checkpoint", "short") == lost
    assert second.tell("claim", "", 30) == "short"
    assert first.tell("acquire", "short", 30) == held
    after = watcher.one("SELECT clock_timestamp()")
    with open_journal(postgres_url) as journal:
        for run in journal.runs():
            stamps = [e.timestamp for e in journal.events(run.run_id)]
            assert stamps == sorted(stamps)
            # Within the server's own clock: stamps between two replies go on by monotonic time.
            assert before - timedelta(seconds=0.1) <= stamps[0]
            assert stamps[-1] <= after + timedelta(seconds=0.1)
            assert run.lease is not None
            assert before <= run.lease.expires_at - timedelta(seconds=30) <= after
    for process in processes:
        process.communicate()
        assert process.returncode == 0


ZONES = ["America/New_York", "Pacific/Kiritimati", "UTC"]


def by_options(url: str, zone: str) -> Journal:
    return open_journal(f"{url}&options=-c%20timezone%3D{zone}")


def by_pooler(url: str, zone: str) -> Journal:
    """Nothing is set on the session: what the role or the database carries is in force."""
    return open_journal(f"{url}&options=-c%20timezone%3D{zone}", pooler=True)


def by_database(url: str, zone: str) -> Journal:
    with psycopg.connect(url, autocommit=True) as conn:
        name = Identifier(conn.info.dbname)
        conn.execute(SQL("ALTER DATABASE {} SET timezone TO {}").format(name, Literal(zone)))
    return open_journal(url)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("connect", [by_options, by_pooler, by_database])
def test_case_20_time_zone(
    postgres_url: str, connect: Callable[[str, str], Journal], zone: str
) -> None:
    with connect(postgres_url, zone) as journal:
        lives_as_in_utc(journal)


@pytest.mark.parametrize("zone", ZONES)
def test_case_20_time_zone_of_a_hosts_pool(postgres_url: str, zone: str) -> None:
    pool = psycopg_pool.ConnectionPool(
        postgres_url,
        min_size=1,
        kwargs={"options": f"-c timezone={zone}", "autocommit": True},
        open=True,
    )
    with closing(pool), open_journal(postgres_url, pool=pool) as journal:
        lives_as_in_utc(journal)


@pytest.fixture
def in_kathmandu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_kathmandu")
def test_case_20_time_zone_of_the_process(journal: Journal) -> None:
    """On every backend: the process lives at +05:45."""
    assert datetime.now().astimezone().utcoffset() == timedelta(hours=5, minutes=45)
    lives_as_in_utc(journal)


def lives_as_in_utc(journal: Journal) -> None:
    """A live lease is live, an expired one is not, and every stored instant is aware UTC."""
    ledger, other = journal.ledger(owner="a", lease_ttl=60), journal.ledger(owner="b")
    lease = ledger.acquire("run", heartbeat=False)
    with refused(RUN_LEASE_HELD, "held"):
        other.acquire("run")
    assert other.claim() is None
    lease.renew()
    lease.save_checkpoint({})
    due = datetime.now(UTC) + timedelta(hours=1)
    ledger.start("later", available_at=due)
    ledger.start("earlier", available_at=due - timedelta(hours=2))
    claimed = other.claim(heartbeat=False)
    assert claimed is not None
    assert claimed.run_id == "earlier"
    assert other.claim() is None
    later = journal.get("later")
    assert later is not None
    assert later.available_at == due
    for run in journal.runs():
        assert run.lease is None or abs(run.lease.expires_at - datetime.now(UTC)) < 3 * NEAR
        for moment in (run.created_at, run.updated_at):
            assert moment.utcoffset() == timedelta(0)
            assert abs(moment - datetime.now(UTC)) < NEAR
    expired = journal.ledger(owner="c", lease_ttl=0.05).acquire("short", heartbeat=False)
    while expired.held or other.get("short").lease.expires_at > datetime.now(UTC):  # type: ignore[union-attr]
        time.sleep(0.01)
    with refused(RUN_LEASE_LOST, "expired"):
        expired.renew()


def test_case_21_transaction_time(postgres_url: str, watcher: Watcher, wait_until: Until) -> None:
    """The lease runs out while its renewal waits for the row; a clock that stood still passes."""
    # Both below the time a statement may wait for a lock.
    left, blocked = (3.0, 4.5) if PROVE else (0.8, 1.0)
    frozen = (
        "UPDATE runs SET ready_at = now() + interval '60 s'"
        " WHERE run_id = 'frozen' AND ready_at > now()"
    )
    with open_journal(postgres_url) as journal, ThreadPoolExecutor() as pool:
        ledger = journal.ledger(lease_ttl=left)
        ledger.acquire("frozen", heartbeat=False)
        lease = ledger.acquire("ours", heartbeat=False)
        begin = time.monotonic()

        def renew_by_transaction_time() -> int:
            with psycopg.connect(postgres_url, autocommit=True) as conn:
                return conn.execute(frozen).rowcount

        with row_locked(postgres_url, "ours", "frozen"):
            passed = pool.submit(renew_by_transaction_time)
            renewal = pool.submit(lease.renew)
            wait_until(lambda: watcher.waiting() == 2)
            wait_until(lambda: watcher.expired("ours") and time.monotonic() > begin + blocked)
        with refused(RUN_LEASE_LOST, "expired"):
            renewal.result()
        assert passed.result() == 1
        record = journal.get("ours")
        assert record is not None
        assert record.version == 2
        heir = journal.ledger(owner="heir").claim(heartbeat=False)
        assert heir is not None
        assert (heir.run_id, heir.fencing_token, heir.attempt) == ("ours", 2, 2)
