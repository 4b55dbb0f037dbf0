"""What is measured on SQLite as work grows: a run's events, the journal's runs, all its events.

With synchronous=NORMAL and, where there is room, on a file in memory: what the disk takes is the
same at every size, and hides the difference. A turn leaves what it measures about as large as it
found it.
"""

from __future__ import annotations

import itertools
import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from runjournal import Journal, RunLedger, open_journal
from runjournal.adapters.event_log import EventLog
from runjournal.adapters.sqlite.recorder import SQLiteApplicationRecorder

from .filling import KIND, fill
from .interleaved import PAYLOADS, Turn, in_rounds, timed
from .verify import per_event, rebuilt, verified

#: For each work the seconds of one operation at each size, in each round.
Measured = dict[str, dict[int, list[float]]]
#: The works, each at every size.
Works = dict[str, dict[int, Turn]]

#: Events of each run of a large journal.
LENGTH = 100
#: A folder in memory, and the bytes that must be free there.
MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30


def scratch() -> TemporaryDirectory[str]:
    """A folder for SQLite files."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
    return TemporaryDirectory(dir=MEMORY if roomy else None)


def repeated(operation: Callable[[], Any], count: int) -> Turn:
    def run(times: int) -> None:
        for _ in range(times):
            operation()

    return timed(run, count)


def alone(before: Callable[[], Any], work: Callable[[Any], Any], count: int) -> Turn:
    """A turn of `count` operations that times the work, and not what has to come before it."""

    def turn() -> float:
        took = 0.0
        for _ in range(count):
            ready = before()
            begun = time.perf_counter()
            work(ready)
            took += time.perf_counter() - begun
        return took / count

    return turn


def measured(works: Works, rounds: int) -> Measured:
    said = {}
    for name, sizes in works.items():
        turns = {str(size): turn for size, turn in sizes.items()}
        took = in_rounds(turns, rounds)
        said[name] = {size: took[str(size)] for size in sizes}
    return said


def by_events(options: Namespace, sizes: Sequence[int]) -> Measured:
    """Runs of so many events, all in one journal."""
    with journals(["all"]) as opened:
        journal = opened["all"]
        ledger = journal.ledger(owner="worker", lease_ttl=3600)
        works: Works = {}
        for size in sizes:
            for name, turn in _on_runs(journal, ledger, size, options).items():
                works.setdefault(name, {})[size] = turn
        return measured(works, options.rounds)


def _on_runs(journal: Journal, ledger: RunLedger, size: int, options: Namespace) -> dict[str, Turn]:
    """Works on as many runs as it takes that none of them grows by more than half."""
    writes = 3 * options.count * (options.rounds + 1)
    ids = [f"run-{size}-{n}" for n in range(-(-writes // max(1, size // 2)))]
    fill(journal, ids, size, "released")
    runs = itertools.cycle(ids)

    def release(run_id: str) -> None:
        ledger.release_all()

    def held() -> Any:
        ledger.release_all()
        return ledger.acquire(next(runs), heartbeat=False)

    def free() -> str:
        ledger.release_all()
        return next(runs)

    def history() -> int:
        return sum(1 for _ in journal.events(ids[0]))

    return {
        "get": repeated(lambda: ledger.get(ids[0]), options.count),
        "its last 10 events": repeated(
            lambda: list(journal.events(ids[0], size - 10)), options.count
        ),
        "all its events, each": per_event(history),
        "checkpoint": alone(held, lambda lease: lease.save_checkpoint(PAYLOADS[0]), options.count),
        "acquire": alone(
            free, lambda run_id: ledger.acquire(run_id, heartbeat=False), options.count
        ),
    }


def by_runs(options: Namespace, sizes: Sequence[int]) -> Measured:
    """Journals of so many finished runs, and of so many that wait."""
    works: Works = {}
    with ExitStack() as stack:
        finished = stack.enter_context(journals(sizes, 3))
        waiting = stack.enter_context(journals(sizes, 1))
        for size in sizes:
            on = _beside(finished[size], size, options.count)
            queue = waiting[size].ledger(owner="worker", lease_ttl=3600)
            on["claim, all runs waiting"] = _claiming(queue, options.count)
            for name, turn in on.items():
                works.setdefault(name, {})[size] = turn
        return measured(works, options.rounds)


def _beside(journal: Journal, size: int, count: int) -> dict[str, Turn]:
    """Works on one run beside those that the journal is full of."""
    ledger = journal.ledger(owner="worker", lease_ttl=3600)
    lease = ledger.acquire("held", heartbeat=False)
    journal.ledger(owner="host").start("due", kind=KIND)
    queue, free = (journal.ledger(owner=name, lease_ttl=3600) for name in ("queue", "free"))
    middle = f"run-{size // 2:07}"
    return {
        "checkpoint": repeated(lambda: lease.save_checkpoint(PAYLOADS[0]), count),
        "acquire": alone(free.release_all, lambda _: free.acquire("other", heartbeat=False), count),
        "claim": _claiming(queue, count),
        "get": repeated(lambda: ledger.get(middle), count),
        "a page of 5 runs": repeated(lambda: journal.runs(limit=5, after=middle), count),
    }


def _claiming(ledger: RunLedger, count: int) -> Turn:
    def claim(_: object) -> None:
        assert ledger.claim(kinds=[KIND], heartbeat=False) is not None

    return alone(ledger.release_all, claim, count)


def by_size(options: Namespace, sizes: Sequence[int]) -> Measured:
    """Journals of so many events, in runs of LENGTH events."""
    works: Works = {}
    with journals(sizes, LENGTH) as opened, scratch() as folder:
        for size, journal in opened.items():
            for name, turn in _whole(journal, Path(folder) / "export", options.count).items():
                works.setdefault(name, {})[size] = turn
        return measured(works, options.long_rounds)


def _whole(journal: Journal, target: Path, count: int) -> dict[str, Turn]:
    lease = journal.ledger(owner="worker").acquire("held", heartbeat=False)
    store: Any = journal.store
    recorder = SQLiteApplicationRecorder(store.database)
    middle = journal.position() // 2

    def export() -> int:
        target.unlink(missing_ok=True)
        journal.export_to(target)
        return journal.position()

    return {
        "checkpoint": repeated(lambda: lease.save_checkpoint(PAYLOADS[0]), count),
        "a page of 100 events": repeated(lambda: EventLog(recorder, middle).page(100), count),
        "`verify`, each event": per_event(lambda: verified(journal, None)),
        "rebuild, each event": per_event(lambda: rebuilt(journal, None)),
        "export, each event": per_event(export),
    }


@contextmanager
def journals(names: Sequence[Any], events: int = 0) -> Iterator[dict[Any, Journal]]:
    """A journal for each name; with `events` the names are sizes, and they are filled with runs.

    1 event: as many runs as the size, which wait. LENGTH events: so many events as the size.
    """
    with scratch() as folder, ExitStack() as stack:
        opened = {}
        for name in names:
            url = f"sqlite:///{Path(folder) / str(name)}.db?synchronous=normal"
            opened[name] = stack.enter_context(open_journal(url))
            if events:
                runs = name // LENGTH if events == LENGTH else name
                fill(opened[name], (f"run-{n:07}" for n in range(runs)), events)
        yield opened
