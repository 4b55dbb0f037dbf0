"""Worker processes go on while Postgres is restarted and their connections are ended."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import Journal, open_journal
from runjournal.domain.delivery import DELIVERY_STREAM

from ..postgres.fixtures import restartable  # noqa: F401 - so pytest finds it
from ..postgres.servers import OwnServer

WORKER = Path(__file__).parent.parent / "postgres" / "steady_worker.py"
#: `make prove` sets it: the proof at full length.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
WORKERS, RUNS, SECONDS, EVERY = (8, 500, 60, (4.0, 7.0)) if PROVE else (4, 80, 8, (1.5, 2.5))
CHECKPOINTS = 4
TTL = 5.0

Verify = Callable[[Journal, str], None]


class Steady:
    """Worker processes, what they logged, and what they said at their end."""

    def __init__(self, url: str) -> None:
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(WORKER), url, f"worker-{n}", str(TTL), str(CHECKPOINTS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(WORKERS)
        ]
        self.log: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(p.stderr,)) for p in self.processes
        ]
        for reader in self._readers:
            reader.start()
        for process in self.processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

    def _read(self, lines: Any) -> None:
        self.log += lines

    def end(self) -> Counter[str]:
        """Ask them to end; the errors that they met."""
        met: Counter[str] = Counter()
        for process in self.processes:
            assert process.poll() is None, "".join(self.log[-20:])
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            assert process.stdout is not None
            met.update(json.loads(process.stdout.read()))
            assert process.wait() == 0
        return met

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        for process in self.processes:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    with suppress(BrokenPipeError):
                        pipe.close()


@pytest.fixture
def url(restartable: OwnServer) -> str:  # noqa: F811
    """The address of a new database on the server that is restarted."""
    return restartable.new_database()


@pytest.fixture
def steady(url: str) -> Iterator[Steady]:
    pause = SECONDS * WORKERS / RUNS / CHECKPOINTS
    with open_journal(url) as journal:
        ledger = journal.ledger(owner="host")
        for n in range(RUNS):
            ledger.start(
                f"run-{n}", input={"pause": pause}, delivery_ref="inbox" if n % 2 else None
            )
    workers = Steady(url)
    yield workers
    workers.kill()


def disturb(server: OwnServer, seconds: float, chance: random.Random) -> tuple[int, int]:
    """Restart the server every few seconds and end random backends in between; how often."""
    restarts = ended = 0
    end = time.monotonic() + seconds
    next_restart = time.monotonic() + chance.uniform(*EVERY)
    while time.monotonic() < end:
        if time.monotonic() > next_restart:
            # Every other one is a crash, with recovery from the log.
            server.restart("immediate" if restarts % 2 else "fast")
            restarts += 1
            next_restart = time.monotonic() + chance.uniform(*EVERY)
        with psycopg.connect(server.url, autocommit=True) as conn:
            ended += len(
                conn.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name LIKE 'runjournal-%' ORDER BY random() LIMIT 1"
                ).fetchall()
            )
        time.sleep(chance.uniform(0.1, 0.5))
    return restarts, ended


def unfinished(url: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT count(*) FROM runs WHERE status NOT IN ('completed', 'failed', 'cancelled')"
        ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.slow
def test_case_41_database_blip(
    restartable: OwnServer,  # noqa: F811
    url: str,
    steady: Steady,
    wait_until: Callable[[Callable[[], Any]], None],
    verify_run: Verify,
) -> None:
    """All runs end, nothing that must hold is broken, and nobody hammers a server that is away."""
    begin = time.monotonic()
    restarts, ended = disturb(restartable, SECONDS, random.Random(41))
    wait_until(lambda: unfinished(url) == 0)
    spent = time.monotonic() - begin
    met = steady.end()
    steady.kill()
    again = sum("trying again" in line for line in steady.log)
    with open_journal(url) as journal:
        statuses = Counter(str(r.status) for r in journal.runs(limit=10_000))
        attempts = Counter(r.attempt for r in journal.runs(limit=10_000))
        print(
            f"{RUNS} runs by {WORKERS} workers in {spent:.0f} s, {restarts} restarts, {ended} ended"
            f" connections: {dict(statuses)}, attempts {dict(attempts)}, errors met {dict(met)},"
            f" {again} times trying again, {len(steady.log)} lines of log"
        )
        assert statuses == {"completed": RUNS}
        for n in range(RUNS):
            verify_run(journal, f"run-{n}")
            one_holder_for_each_token(journal, f"run-{n}")
        outbox_is_exact(journal, url)
        whole_journal_is_gap_free(journal)
    assert restarts >= SECONDS / EVERY[1] - 2
    # Each worker has two connections that may be lost at a time, and tries eight times at most.
    assert again <= (restarts + 1) * WORKERS * 16 + ended * 4
    # A worker that failed waits before it asks anew.
    assert met.total() <= (restarts + 1) * WORKERS * 4 + ended


def one_holder_for_each_token(journal: Journal, run_id: str) -> None:
    """Whatever was written under a token was written by whom it was granted to."""
    holder = None
    numbers: list[int] = []
    for event in journal.events(run_id):
        if event.topic == "run.lease_granted":
            holder = event.owner  # type: ignore[attr-defined]
        elif event.topic == "run.checkpoint_saved":
            assert event.state["by"] == holder  # type: ignore[attr-defined]
            numbers.append(event.state["n"])  # type: ignore[attr-defined]
    assert numbers == list(range(1, CHECKPOINTS + 1))


def outbox_is_exact(journal: Journal, url: str) -> None:
    """One row, and one event of its own stream, for each run that wants its result delivered."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT run_id, invocation_id FROM delivery_outbox").fetchall()
    assert sorted(run_id for run_id, _ in rows) == sorted(f"run-{n}" for n in range(1, RUNS, 2))
    for _run_id, invocation_id in rows:
        assert len(journal.store.read(DELIVERY_STREAM + invocation_id)) == 1


def whole_journal_is_gap_free(journal: Journal) -> None:
    """A reader from the start sees every event of every run, in the order of each run."""
    recorder = journal.application.recorder
    seen: Counter[str] = Counter()
    after = 0
    while page := recorder.select_notifications(after, 1000, inclusive_of_start=False):
        for notification in page:
            stream = str(notification.originator_id)
            seen[stream] += 1
            assert notification.originator_version == seen[stream]
        after = page[-1].id
    for record in journal.runs(limit=10_000):
        assert seen[f"run/{record.run_id}"] == record.version
