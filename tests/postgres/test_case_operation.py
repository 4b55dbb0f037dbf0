"""Cases of operating Postgres: silent listeners, migrations at once, small pools, bloat."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from runjournal import Journal, RunLedger, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.postgres import database
from runjournal.domain.errors import RUN_STORE_UNAVAILABLE, RUN_VALIDATION_ERROR

from .proxy import Proxy
from .servers import OwnServer, Until, Watcher

OPENING = Path(__file__).with_name("opening_process.py")
#: `make prove` sets it: cases in their full size.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))

Start = Callable[..., "subprocess.Popen[str]"]
Verify = Callable[[Journal, str], None]


def test_case_59_lost_notification_channel(
    postgres_url: str, proxy: Proxy, wait_until: Until
) -> None:
    """Nothing comes from the listener any more, nor an end: polling finds the work in time."""
    poll = 0.3
    with (
        open_journal(postgres_url, notify=True) as host,
        open_journal(proxy.url) as worker,
    ):
        listener: Any = worker.store.listener  # type: ignore[attr-defined]
        wait_until(lambda: worker.wait_for_work(0.05))  # it is told once, when it begins to listen
        proxy.fall_silent()
        for n in range(3):
            host.ledger().start(f"run-{n}")
            begin = time.monotonic()
            assert not worker.wait_for_work(poll)
            assert worker.ledger().claim(heartbeat=False) is not None
            assert time.monotonic() - begin < poll + 1
        # Once the dead connection is noticed, it listens again, and shows it.
        proxy.cut()
        wait_until(lambda: listener.connects == 2)
        numbers = iter(range(10**6))
        wait_until(
            lambda: host.ledger().start(f"more-{next(numbers)}") and worker.wait_for_work(0.05)
        )


def tell(process: subprocess.Popen[str], url: str) -> None:
    assert process.stdin is not None
    process.stdin.write(url + "\n")
    process.stdin.flush()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_case_61_concurrent_migration(restartable: OwnServer, start_script: Start) -> None:
    """Processes that open an empty database together, again and again."""
    count, rounds = (8, 20) if PROVE else (4, 5)
    processes = [start_script(OPENING) for _ in range(count)]
    assert [answer(p) for p in processes] == ["ready"] * count
    for _ in range(rounds):
        url = restartable.new_database()
        for process in processes:
            tell(process, url)
        assert [answer(p) for p in processes] == ["opened"] * count
        with psycopg.connect(url) as conn:
            versions = conn.execute("SELECT version FROM runjournal_schema ORDER BY 1").fetchall()
            assert [v for (v,) in versions] == list(range(1, len(versions) + 1))
            assert conn.execute("SELECT count(*) FROM events").fetchone() == (1,)


#: Waits in the middle of a migration for a lock that the test holds.
BRAKE = """
    CREATE FUNCTION brake() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        IF to_regclass('public.runs') IS NOT NULL AND to_regclass('public.tracking') IS NULL
        THEN PERFORM pg_advisory_xact_lock(61); END IF;
    END $$;
    CREATE EVENT TRIGGER brake ON ddl_command_end EXECUTE FUNCTION brake();
"""


def test_case_61_killed_in_the_middle_of_a_migration(
    restartable: OwnServer,
    start_script: Start,
    wait_until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next one reports while the lock is held, and finishes once it is not."""
    url = restartable.new_database()
    watcher = Watcher(url)
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(BRAKE.encode())
        conn.execute("SELECT pg_advisory_lock(61)")
        process = start_script(OPENING)
        assert answer(process) == "ready"
        tell(process, url)
        wait_until(lambda: watcher.waiting() == 1)
        process.kill()
        process.wait()
        monkeypatch.setattr(database, "LOCK_TIMEOUT", 0.2)
        with refused(RUN_STORE_UNAVAILABLE, "busy") as caught:
            open_journal(url)
        assert caught.value.retryable
        assert watcher.one("SELECT to_regclass('public.runs')::text") is None
        conn.execute("SELECT pg_advisory_unlock(61)")
        wait_until(lambda: watcher.waiting() == 0)
        with open_journal(url) as journal:
            assert journal.ledger().start("run").version == 1
    watcher.close()


@pytest.fixture
def reader_url(restartable: OwnServer) -> Iterator[str]:
    """The address of a journal with one run, as a role that may only read."""
    url = restartable.new_database()
    with open_journal(url) as journal:
        journal.ledger().start("run")
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("CREATE ROLE only_reads LOGIN")
        conn.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO only_reads")
        yield f"{url}&user=only_reads".replace("//postgres:@", "//")
        conn.execute("DROP OWNED BY only_reads")
        conn.execute("DROP ROLE only_reads")


@pytest.mark.parametrize("create", [True, False])
def test_case_61_read_only_role(reader_url: str, create: bool) -> None:
    with open_journal(reader_url, create=create) as journal:
        assert [r.run_id for r in journal.runs()] == ["run"]
        assert [e.topic for e in journal.events("run")] == ["run.queued"]
        with refused(RUN_VALIDATION_ERROR, "read_only"):
            journal.ledger().start("other")


@pytest.mark.parametrize("size", [1, 2])
def test_case_62_pool_exhaustion(postgres_url: str, verify_run: Verify, size: int) -> None:
    """Fifty tasks on one or two connections, three in ten of them cancelled at any moment."""
    chance = random.Random(62)

    def command(ledger: RunLedger, run_id: str) -> str:
        ledger.start(run_id, delivery_ref="inbox")
        with ledger.acquire(run_id, heartbeat=False) as lease:
            lease.save_checkpoint({"n": 1})
            return str(lease.complete().status)

    async def all_of_them(ledger: RunLedger, threads: ThreadPoolExecutor) -> list[Any]:
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Future[str]] = [
            loop.run_in_executor(threads, command, ledger, f"run-{n}") for n in range(50)
        ]

        async def cancelled_soon(task: asyncio.Future[str]) -> None:
            await asyncio.sleep(chance.uniform(0, 0.3))
            task.cancel()

        cancelling = [cancelled_soon(t) for t in chance.sample(tasks, 15)]
        _, *done = await asyncio.gather(asyncio.gather(*cancelling), *tasks, return_exceptions=True)
        return done

    with ConnectionPool(postgres_url, min_size=size, max_size=size, open=True) as pool:
        pool.wait()
        with open_journal(postgres_url, pool=pool) as journal:
            # Leaving the executor waits for every thread: none of them hangs.
            with ThreadPoolExecutor(50) as threads:
                done = asyncio.run(all_of_them(journal.ledger(), threads))
            outcomes = [d for d in done if not isinstance(d, asyncio.CancelledError)]
            assert set(outcomes) == {"completed"}
            assert len(outcomes) >= 35
            stats = pool.get_stats()
            assert (stats["pool_size"], stats["pool_available"]) == (size, size)
            for record in journal.runs():
                assert record.status == "completed"
                verify_run(journal, record.run_id)


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """A transaction that somebody has left open: vacuum may remove nothing that it could see."""
    with psycopg.connect(url) as conn:
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT count(*) FROM runs")
        yield


#: So many runs come and go, as in minutes of work: the claims' index is full of what they left.
CAME_AND_WENT = """
    INSERT INTO runs (run_id, kind, status, version, fencing_token, ready_at, created_at,
        updated_at, head, body)
    SELECT run_id || i, kind, status, version, fencing_token, now() + i * interval '1 microsecond',
        created_at, updated_at, head, body FROM runs, generate_series(1, {0}) AS i;
    UPDATE runs SET status = 'completed', ready_at = NULL;
"""


def whole_run(ledger: RunLedger, run_id: str) -> tuple[float, float]:
    """Eleven commands; the seconds they took, and those of the claim among them."""
    begin = time.perf_counter()
    ledger.start(run_id)
    started = time.perf_counter()
    lease = ledger.claim(heartbeat=False)
    claimed = time.perf_counter()
    assert lease is not None
    for n in range(4):
        lease.save_checkpoint({"n": n})
        lease.renew()
    lease.complete()
    return time.perf_counter() - begin, claimed - started


def runs_in_turns(ledgers: dict[str, RunLedger], seconds: float) -> tuple[float, float]:
    """Run by run, first on one journal and then on the other; what part of the time of the first
    the second took: for all of a run, and for its claim."""
    spent: list[list[tuple[float, float]]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        spent.append([whole_run(ledger, str(uuid4())) for ledger in ledgers.values()])
    # What counts is the end, when the most is left lying about.
    late = spent[len(spent) // 2 :]
    first, second = ([median(turn[n][part] for turn in late) for part in (0, 1)] for n in (0, 1))
    return second[0] / first[0], second[1] / first[1]


def test_case_65_bloat_under_a_held_snapshot(new_postgres: Callable[[], str]) -> None:
    """Two journals run by run in turns, one of them under an old snapshot: it is hardly slower."""
    seconds, before, whole, claims = (300.0, 1000, 0.85, 0.5) if PROVE else (3.0, 10_000, 0.6, 0.5)
    urls = {"held": new_postgres(), "free": new_postgres()}
    with (
        open_journal(urls["held"]) as held,
        open_journal(urls["free"]) as free,
        old_snapshot(urls["held"]),
    ):
        ledgers = {"held": held.ledger(), "free": free.ledger()}
        for name, ledger in ledgers.items():
            ledger.start("before")
            with psycopg.connect(urls[name]) as conn:
                conn.execute(CAME_AND_WENT.format(before).encode())
        with psycopg.connect(urls["free"], autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE runs")
        # What else the machine does is in both, and for a short time not in both alike; each
        # further try finds more lying about than the one before it.
        for _ in range(4):
            found = runs_in_turns(ledgers, seconds)
            print(f"without the snapshot runs take {found[0]:.2f}, claims {found[1]:.2f}")
            if found[0] >= whole and found[1] >= claims:
                break
    assert found[0] >= whole
    assert found[1] >= claims


@pytest.mark.parametrize(("snapshot", "least"), [(old_snapshot, 0.4), (nullcontext, 0.95)])
def test_case_65_checkpoints_touch_no_index(
    postgres_url: str,
    watcher: Watcher,
    wait_until: Until,
    snapshot: Callable[[str], AbstractContextManager[None]],
    least: float,
) -> None:
    """They move no deadline until half of it is gone. Under a snapshot half of each page is left
    to the versions that could not stay on theirs."""
    size = "SELECT pg_relation_size('runs_ready') + pg_relation_size('runs_pkey')"
    with open_journal(postgres_url) as journal:
        leases = [journal.ledger().acquire(f"run-{n}", heartbeat=False) for n in range(10)]
        before = watcher.one(size)
        with snapshot(postgres_url):
            for n in range(60):
                for lease in leases:
                    lease.save_checkpoint({"n": n})
        assert watcher.one(size) - before <= 2 * 8192

    def updates(column: str) -> int:
        return int(watcher.one(f"SELECT {column} FROM pg_stat_user_tables WHERE relname = 'runs'"))

    # Statistics are there once the session that made them has ended.
    wait_until(lambda: updates("n_tup_upd") >= 600)
    hot, every = updates("n_tup_hot_upd"), updates("n_tup_upd")
    print(f"{hot} of {every} updates of runs were heap-only")
    assert hot >= least * every
