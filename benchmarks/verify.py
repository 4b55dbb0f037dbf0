"""What checking and rebuilding cost, against a bare loop that reads and decodes the same rows.

For each round: the bare loop (the events in the order of streams and versions, then the rows of
records and outbox, orjson on each), `verify`, and a rebuild of records that are right, each by this
process alone and by one process for each core, as the commands do it. Ratios are of events per
second. Then how much a writer's checkpoints slow down while `runjournal verify` goes on in
processes of its own, and the most memory of any process. Beside it, how much they slow down while
as many processes that give way as those do only compute and touch no database; and with --folder,
how much a bare write and flush of a file there slows down beside `verify`: a checkpoint waits for
one of those. Where all share the cores, and the disk too, less than that is not to be had.

    python -m benchmarks.verify

Each run has six events, the delivery's among them: --runs 200000 makes 1,200,000. Without --url a
SQLite file in a temporary folder; a database at a URL that holds runs already is measured as it is.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
from runjournal import Journal, open_journal
from runjournal.adapters.contract.scribe import START, Scribe, record_of
from runjournal.adapters.part_processes import PartProcesses, usable_cores
from runjournal.adapters.projecting.rebuilding import RebuildProgress
from runjournal.domain.history_store import TABLES, Table
from runjournal.domain.ports import Change, Guard

from .figure import Figure, Settings, rates, run
from .interleaved import PAYLOADS, Turn, in_rounds

SETTINGS: Settings = {
    "rounds": (3, 1),
    "runs": (20_000, 300),
    "url": (None, None),
    "watched": (10.0, 0.5),
    "folder": (None, None),
}
PAGE = 2000
BLOCK = 8192
#: Checkpoints a second of the writer beside.
PACE = 200


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


def per_event(work: Callable[[], int]) -> Turn:
    def turn() -> float:
        begun = time.perf_counter()
        events = work()
        return (time.perf_counter() - begun) / events

    return turn


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
    with journal.ledger().acquire(f"writer-{time.time_ns()}") as lease:
        return percentiles(lambda n: lease.save_checkpoint(PAYLOADS[n % 64]), work)


def flushes_beside(folder: Path, work: Callable[[], object]) -> list[float]:
    """The same of a page that is written to a file and flushed, by the operating system alone."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(PAGE * BLOCK))
        os.fsync(file.fileno())

        def flush(n: int) -> None:
            os.pwrite(file.fileno(), os.urandom(BLOCK), n % PAGE * BLOCK)
            os.fdatasync(file.fileno())

        return percentiles(flush, work)


def percentiles(step: Callable[[int], object], work: Callable[[], object]) -> list[float]:
    """Those of the seconds that a step takes, PACE times a second, while `work` goes on."""
    took: list[float] = []
    stop = threading.Event()

    def steps() -> None:
        while not stop.is_set():
            begun = time.perf_counter()
            step(len(took))
            took.append(time.perf_counter() - begun)
            stop.wait(max(0.0, 1 / PACE - took[-1]))

    thread = threading.Thread(target=steps)
    thread.start()
    work()
    stop.set()
    thread.join()
    return statistics.quantiles(took, n=100)


def compute(seconds: float) -> None:
    """As many processes as verify starts, which give way as its do, and touch no database."""
    spin = "from runjournal.adapters.giving_way import give_way\ngive_way()\nwhile True: pass"
    spinning = [
        subprocess.Popen([sys.executable, "-c", spin], start_new_session=True)
        for _ in range(usable_cores())
    ]
    time.sleep(seconds)
    for process in spinning:
        process.kill()
        process.wait()


def beside(journal: Journal, url: str, options: Namespace, backend: str) -> Iterator[Figure]:
    """How a writer's checkpoints slow down beside verify, and how beside mere computing."""
    verify = [sys.executable, "-m", "runjournal.adapters.cli.main", "--db", url, "verify"]
    works: dict[str, Callable[[], object]] = {
        "alone": lambda: time.sleep(options.watched),
        "verify": lambda: subprocess.run(verify, check=True, capture_output=True),
        "computing": lambda: compute(options.watched),
    }
    found = [
        {name: percentiles_beside(journal, work) for name, work in works.items()}
        for _ in range(options.rounds)
    ]
    for n in (50, 99):
        what = f"p{n} of a writer's checkpoints beside `verify`, {backend}"
        for base, against in (
            ("alone", "the writer alone"),
            ("computing", "the writer beside processes that only compute"),
        ):
            ratios = [f["verify"][n - 1] / f[base][n - 1] for f in found]
            yield Figure(what, against, ratios, "less", aside=n < 99 or base == "computing")
    if options.folder:
        alone, verified = (
            [flushes_beside(Path(options.folder), works[name])[98] for _ in range(options.rounds)]
            for name in ("alone", "verify")
        )
        ratios = [v / a for v, a in zip(verified, alone, strict=True)]
        what = f"p99 of a bare write and flush beside `verify`, {backend}"
        yield Figure(what, "the flush alone", ratios, "less", aside=True)


def measure(journal: Journal, url: str, options: Namespace) -> Iterator[Figure]:
    if not journal.runs(limit=1):
        fill(journal, options.runs)
    processes = PartProcesses(url)
    cores = f"{usable_cores()} processes"
    works: dict[str, Callable[[], int]] = {
        "bare": lambda: bare(journal),
        "bare, events alone": lambda: bare_events(journal),
        "`verify`, 1 process": lambda: verified(journal, None),
        f"`verify`, {cores}": lambda: verified(journal, processes),
        "a rebuild of the records, 1 process": lambda: rebuilt(journal, None),
        f"a rebuild of the records, {cores}": lambda: rebuilt(journal, processes),
    }
    took = in_rounds({name: per_event(work) for name, work in works.items()}, options.rounds)
    backend = "Postgres" if url.startswith("postgres") else "SQLite"
    events = f"{bare_events(journal):,} events"
    for name in list(works)[2:]:
        for base, against in (
            ("bare", "a bare loop that reads and decodes the rows"),
            ("bare, events alone", "a bare loop over the events alone"),
        ):
            ratios = rates(took, name, base)
            yield Figure(
                f"{name}, {events}, {backend}", against, ratios, "more", aside=base != "bare"
            )
    yield from beside(journal, url, options, backend)
    sizes = [
        resource.getrusage(who).ru_maxrss / 1024
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    yield Figure(
        f"most memory of any process that verifies, {events}, {backend}",
        "300 MiB",
        [max(sizes) / 300],
        "less",
        aside=True,
    )


def figures(options: Namespace) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        url = options.url or f"sqlite:///{Path(folder) / 'runs.db'}?synchronous=normal"
        with open_journal(url) as journal:
            yield from measure(journal, url, options)


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
