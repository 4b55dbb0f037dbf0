"""What checking and rebuilding cost, against a bare loop that reads and decodes the same rows.

For each round: the bare loop (the events in the order of streams and versions, orjson on each),
`verify`, and a rebuild of rows that are right; ratios are of events per second. Then how much a
writer's checkpoints slow down while `runjournal verify` goes on in a process of its own, and the
most memory of this process.

    python -m benchmarks.verify [RUNS] [URL]

RUNS runs of five events each (20,000 by default; 200,000 make a million events). Without a URL a
SQLite file in a temporary folder; the database at a URL must be empty.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from runjournal import Journal, open_journal
from runjournal.adapters.contract.scribe import START, Scribe, record_of
from runjournal.domain.ports import Change, Guard

from .interleaved import PAYLOADS

ROUNDS = 3
PAGE = 2000
#: Checkpoints a second of the writer beside, and seconds it is watched alone.
PACE, ALONE = 200, 5.0


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


def bare(journal: Journal) -> int:
    """Read every event in order, a page at a time, and decode it."""
    count, after = 0, ("", 0)
    store = journal.store
    while page := store.walk(after, PAGE):  # type: ignore[attr-defined]
        for event in page:
            orjson.loads(event.data)
        count += len(page)
        after = page[-1].stream, page[-1].version
    return count


def rate(work: Callable[[], int]) -> float:
    begun = time.perf_counter()
    return work() / (time.perf_counter() - begun)


def verified(journal: Journal) -> int:
    done = journal.verify()
    assert done.findings == []
    return done.events


def rebuilt(journal: Journal, events: int) -> int:
    assert journal.rebuild("run_records").findings == ()
    return events


def p99_beside(journal: Journal, work: Callable[[], object] | None) -> float:
    """The 99th percentile of a checkpoint's seconds, alone or while `work` goes on."""
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
    if work is None:
        time.sleep(ALONE)
    else:
        work()
    stop.set()
    thread.join()
    lease.release()
    return statistics.quantiles(took, n=100)[98]


def measure(journal: Journal, url: str, runs: int) -> None:
    fill(journal, runs)
    events = bare(journal)
    took: dict[str, list[float]] = {"bare": [], "verify": [], "rebuild": []}
    for _ in range(ROUNDS):
        took["bare"].append(rate(lambda: bare(journal)))
        took["verify"].append(rate(lambda: verified(journal)))
        took["rebuild"].append(rate(lambda: rebuilt(journal, events)))
    for name in ("verify", "rebuild"):
        each = [r / b for r, b in zip(took[name], took["bare"], strict=True)]
        print(f"{name:8} {statistics.median(each):.2f} of the bare loop "
              f"(rounds {min(each):.2f} to {max(each):.2f}), {events:,} events")  # fmt: skip
    alone = p99_beside(journal, None)
    command = [sys.executable, "-m", "runjournal.adapters.cli.main", "--db", url, "verify"]
    beside = p99_beside(journal, lambda: subprocess.run(command, check=True, capture_output=True))
    print(f"p99 of a writer's checkpoints beside it: {beside / alone:.2f} of alone")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"most memory of this process: {most:,.0f} MiB")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory() as folder:
        own = f"sqlite:///{Path(folder) / 'runs.db'}?synchronous=normal"
        url = sys.argv[2] if len(sys.argv) > 2 else own
        with open_journal(url) as journal:
            measure(journal, url, runs)


if __name__ == "__main__":
    main()
