"""What checking and rebuilding cost, against a bare loop that reads and decodes the same rows.

For each round: the bare loop (the events in the order of streams and versions, then the rows of
records and outbox, orjson on each), `verify`, and a rebuild of records that are right, each by this
process alone and by one process for each core, as the commands do it. Ratios are of events per
second. Then how much a writer's checkpoints slow down while `runjournal verify` goes on in
processes of its own, and the most memory of any process. Beside it, how much the checkpoints slow
down while as many processes of the same priority only compute and touch no database: where writer,
server and verify share all the cores, less than that is not to be had.

    python -m benchmarks.verify [RUNS] [URL]

RUNS runs of six events each, the delivery's among them (20,000 by default; 200,000 make 1,200,000
events). Without a URL a SQLite file in a temporary folder; a database at a URL that holds runs
already is measured as it is.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson
from runjournal import Journal, open_journal
from runjournal.adapters.contract.scribe import START, Scribe, record_of
from runjournal.adapters.part_processes import PartProcesses, usable_cores
from runjournal.adapters.projecting.rebuilding import RebuildProgress
from runjournal.domain.history_store import TABLES, Table
from runjournal.domain.ports import Change, Guard

from .interleaved import PAYLOADS

ROUNDS = 3
PAGE = 2000
#: Checkpoints a second of the writer beside, and seconds it is watched alone.
PACE, WATCHED = 200, 10.0


def fill(journal: Journal, runs: int) -> None:
    """Runs of five events, written through the port: nothing waits for a handle."""
    scribe, store = Scribe(), journal.store
    for n in range(runs):
        record = record_of(_put(journal, [scribe.start(f"run-{n:07d}", delivery_ref="inbox")]))
        record = record_of(_put(journal, [scribe.grant(record)]))
        for step in range(2):
            change = scribe.checkpoint(record, PAYLOADS[(n + step) % 64])
            record = record_of(_put(journal, [change], Guard(1, "live")))
        assert store.append(scribe.complete(record), Guard(1, "live"), START) is not None


def _put(journal: Journal, changes: list[Change], guard: Guard | None = None) -> Change:
    assert journal.store.append(changes, guard, START) is not None
    return changes[0]


def bare_events(journal: Journal) -> int:
    """Read every event in order, a page at a time, and decode it."""
    count, after = 0, ("", 0)
    store = journal.store
    while page := store.walk(after, PAGE):  # type: ignore[attr-defined]
        for event in page:
            orjson.loads(event.data)
        count += len(page)
        after = page[-1].stream, page[-1].version
    return count


def bare(journal: Journal, tables: Sequence[Table] = TABLES) -> int:
    """The same, and every row of the tables."""
    store: Any = journal.store
    for table in tables:
        after = ""
        while rows := store.images(table, after, None, PAGE):
            for _, image in rows:
                orjson.loads(image.rest[-1])
            after = rows[-1][0]
    return bare_events(journal)


def rate(work: Callable[[], int]) -> float:
    begun = time.perf_counter()
    return work() / (time.perf_counter() - begun)


def verified(journal: Journal, processes: PartProcesses | None) -> int:
    done = journal.verify(processes=processes)
    assert done.findings == []
    return done.events


def rebuilt(journal: Journal, processes: PartProcesses | None) -> int:
    events = 0

    def count(at: RebuildProgress) -> None:
        nonlocal events
        events += at.events

    assert journal.rebuild("run_records", count, processes=processes).findings == ()
    return events


def percentiles_beside(journal: Journal, work: Callable[[], object]) -> list[float]:
    """The percentiles of a checkpoint's seconds, from the 1st to the 99th, while `work` goes on."""
    lease = journal.ledger().acquire(f"writer-{time.time_ns()}")
    took: list[float] = []
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            begun = time.perf_counter()
            lease.save_checkpoint(PAYLOADS[len(took) % 64])
            took.append(time.perf_counter() - begun)
            stop.wait(max(0.0, 1 / PACE - took[-1]))

    thread = threading.Thread(target=write)
    thread.start()
    work()
    stop.set()
    thread.join()
    lease.release()
    return statistics.quantiles(took, n=100)


def verify_by_command(url: str) -> None:
    verify = [sys.executable, "-m", "runjournal.adapters.cli.main", "--db", url, "verify"]
    subprocess.run(verify, check=True, capture_output=True)


def compute() -> None:
    """As many processes as verify starts, of the same priority, that touch no database."""
    spin = [sys.executable, "-c", "import os\nos.nice(10)\nwhile True: pass"]
    spinning = [subprocess.Popen(spin) for _ in range(usable_cores())]
    time.sleep(WATCHED)
    for process in spinning:
        process.kill()
        process.wait()


def beside(journal: Journal, url: str) -> None:
    """How a writer's checkpoints slow down beside verify."""
    works = {"verify": lambda: verify_by_command(url), "processes that only compute": compute}
    alone = percentiles_beside(journal, lambda: time.sleep(WATCHED))
    for name, work in works.items():
        with_it = percentiles_beside(journal, work)
        shown = ", ".join(f"p{n} {with_it[n - 1] / alone[n - 1]:.2f}" for n in (50, 90, 99))
        print(f"a writer's checkpoints beside {name}: {shown} of alone")


def measure(journal: Journal, url: str, runs: int) -> None:
    if not journal.runs(limit=1):
        fill(journal, runs)
    processes = PartProcesses(url)
    works: dict[str, Callable[[], int]] = {
        "bare": lambda: bare(journal),
        "bare, events alone": lambda: bare_events(journal),
        "verify": lambda: verified(journal, None),
        "verify, a process a core": lambda: verified(journal, processes),
        "rebuild": lambda: rebuilt(journal, None),
        "rebuild, a process a core": lambda: rebuilt(journal, processes),
    }
    took: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            took[name].append(rate(work))
    for name in list(works)[2:]:
        each = [r / b for r, b in zip(took[name], took["bare"], strict=True)]
        alone = [r / b for r, b in zip(took[name], took["bare, events alone"], strict=True)]
        print(
            f"{name:26} {statistics.median(each):.2f} of the bare loop (rounds {min(each):.2f}"
            f" to {max(each):.2f}); {statistics.median(alone):.2f} of one without the rows"
        )
    print(f"{bare_events(journal):,} events, {usable_cores()} cores")
    beside(journal, url)
    sizes = [
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    print(f"most memory: {sizes[0]:,.0f} MiB here, {sizes[1]:,.0f} MiB in any other process")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        own = f"sqlite:///{Path(folder) / 'runs.db'}?synchronous=normal"
        url = sys.argv[2] if len(sys.argv) > 2 else own
        with open_journal(url) as journal:
            measure(journal, url, runs)


if __name__ == "__main__":
    main()
