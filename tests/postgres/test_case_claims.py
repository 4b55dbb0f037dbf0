"""Cases of claiming and numbering on Postgres: a page of unreadable runs, and large numbers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import psycopg
import pytest
from runjournal import Journal, Worker, open_journal
from runjournal.domain.record import RunRecord

from .servers import Until, Watcher

#: `make prove` sets it: cases in their full size.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))

HEALTHY = [f"healthy-{n}" for n in range(5)]
SEQUENCE = "pg_get_serial_sequence('events', 'position')"


def abandoned(journal: Journal, watcher: Watcher, wait_until: Until, bad: int) -> None:
    """So many runs and then five more, all held by a worker that died, the longest due first."""
    dead = journal.ledger(owner="dead", lease_ttl=0.2)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: dead.start(f"bad-{n}"), range(bad)))
    assert len(dead.claim(limit=bad, heartbeat=False)) == bad
    for run_id in HEALTHY:
        dead.acquire(run_id, heartbeat=False)
    wait_until(lambda: watcher.expired(HEALTHY[-1]))


def test_case_04_scan_without_progress(
    postgres_url: str, watcher: Watcher, wait_until: Until
) -> None:
    """A full page of runs whose record cannot be read, and five healthy ones behind it."""
    bad = 1000
    with open_journal(postgres_url) as journal:
        abandoned(journal, watcher, wait_until, bad)
        with psycopg.connect(postgres_url) as conn:
            conn.execute("UPDATE runs SET body = '\\xff' WHERE run_id LIKE 'bad-%'")
        heir = journal.ledger(owner="heir")
        found = heir.claim(limit=bad, heartbeat=False)
        assert sorted(lease.run_id for lease in found) == HEALTHY
        assert {lease.attempt for lease in found} == {2}
        attention = journal.attention()
        assert len(attention) == bad
        assert all(a.run_id.startswith("bad-") and a.reason for a in attention)
        # Counted once, and in nobody's way any more.
        assert heir.claim(limit=bad) == []
        assert watcher.one("SELECT count(*) FROM runs WHERE ready_at <= clock_timestamp()") == 0


def test_case_04_recovery_that_always_raises(
    postgres_url: str, watcher: Watcher, wait_until: Until
) -> None:
    """The record can be read and the stream cannot: found out by the worker that takes it over."""
    bad = 200 if PROVE else 20
    with open_journal(postgres_url) as journal:
        abandoned(journal, watcher, wait_until, bad)
        with psycopg.connect(postgres_url) as conn:
            conn.execute("UPDATE events SET topic = 'run.odd' WHERE stream LIKE 'run/bad-%'")
        worker = Worker(journal, lambda ctx: ctx.run_id, owner="heir")
        done: list[str] = []
        passes = 0
        while record := worker.run_once():
            passes += 1
            assert passes <= bad + len(HEALTHY)
            if record.status == "completed":
                done.append(record.run_id)
        assert sorted(done) == HEALTHY
        assert passes == bad + len(HEALTHY)
        attention = journal.attention()
        assert len(attention) == bad
        assert all("run.odd" in a.reason for a in attention)


LATER = """
    INSERT INTO runs (run_id, kind, status, version, fencing_token, ready_at, created_at,
        updated_at, head, body)
    SELECT run_id || i, kind, status, version, fencing_token, now() + i * interval '1 min',
        created_at, updated_at, head, body FROM runs, generate_series(60, 50000) AS i
"""


def test_claim_costs_the_same_beside_many_runs_that_are_not_due(
    new_postgres: Callable[[], str],
) -> None:
    """50,000 runs that are scheduled for later, or held: a look for work does not read them."""
    many_url, none_url = new_postgres(), new_postgres()
    spent: dict[str, list[float]] = {"many": [], "none": []}
    with open_journal(many_url) as many, open_journal(none_url) as none:
        for journal in (many, none):
            journal.ledger().start("run-")
        with psycopg.connect(many_url) as conn:
            conn.execute(LATER.encode())
        with psycopg.connect(many_url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE runs")
        ledgers = {"many": many.ledger(), "none": none.ledger()}
        for ledger in ledgers.values():
            assert ledger.claim(heartbeat=False) is not None
        for n in range(40):
            for name, ledger in ledgers.items():
                begin = time.perf_counter()
                assert ledger.claim(heartbeat=False) is None
                if n >= 10:  # the first ones warm up
                    spent[name].append(time.perf_counter() - begin)
    found = {name: median(times) * 1000 for name, times in spent.items()}
    print(f"ms for a claim that finds nothing: {found}")
    assert found["many"] <= 3 * found["none"]


@pytest.mark.parametrize("start", [2**31 - 2, 2**53, 2**62], ids=["2**31", "2**53", "2**62"])
def test_case_53_sequence_exhaustion(postgres_url: str, watcher: Watcher, start: int) -> None:
    """Positions are 64 bits wide everywhere, and exact above what a float can count."""
    with psycopg.connect(postgres_url) as conn:
        conn.execute(f"ALTER TABLE events ALTER position RESTART WITH {start}".encode())
    with open_journal(postgres_url) as journal:
        ledger = journal.ledger()
        lease = ledger.acquire("run", heartbeat=False)
        for n in range(4):
            lease.save_checkpoint({"n": n})
        lease.complete()
        recorder = journal.application.recorder
        expected = list(range(start, start + 7))
        assert [n.id for n in recorder.select_notifications(None, 100)] == expected
        assert recorder.max_notification_id() == start + 6
        after = recorder.select_notifications(start + 3, 100, inclusive_of_start=False)
        assert [n.id for n in after] == expected[4:]
        assert json.loads(json.dumps(expected)) == expected
        types = watcher.one(
            "SELECT string_agg(DISTINCT data_type, ',') FROM information_schema.columns"
            " WHERE column_name IN ('position', 'version', 'fencing_token', 'notification_id')"
            " AND table_schema = 'public'"
        )
        assert types == "bigint"
        assert watcher.one("SELECT data_type::text FROM pg_sequences") == "bigint"


def test_case_53_repeats_burn_no_numbers(postgres_url: str, watcher: Watcher) -> None:
    times = 10_000 if PROVE else 300
    with open_journal(postgres_url) as journal:
        ledger = journal.ledger()
        first = ledger.start("run", input={"n": 1})

        def again(_n: int) -> RunRecord:
            return ledger.start("run", input={"n": 1})

        with ThreadPoolExecutor(4) as pool:
            assert all(record == first for record in pool.map(again, range(times)))
        ledger.start("next")
        positions = [n.id for n in journal.application.recorder.select_notifications(None, 100)]
        assert positions == [1, 2]
        assert watcher.one(f"SELECT nextval({SEQUENCE})") == 3


def test_case_53_tokens_of_later_epochs(postgres_url: str) -> None:
    """A fencing token is 64 bits wide too: the epoch is in its upper half."""
    token = 2**20 * 2**32 + 7
    with open_journal(postgres_url) as journal:
        ledger = journal.ledger(owner="a", lease_ttl=60)
        ledger.acquire("run").release()
        with psycopg.connect(postgres_url) as conn:
            conn.execute("UPDATE runs SET fencing_token = %s", (token,))
        lease = ledger.acquire("run")
        assert lease.fencing_token == token + 1
        lease.renew()
        lease.save_checkpoint({})
        assert lease.complete().fencing_token == token + 1
