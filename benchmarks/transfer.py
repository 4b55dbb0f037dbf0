"""What moving a journal costs: SQLite to Postgres and back, and by a file.

Each step is compared with one `verify` of the source in the same run, which reads, hashes and folds
every event and writes nothing; the memory that this process takes at most is told. At the end the
exports of all journals are compared byte by byte, and each is verified.

    python -m benchmarks.transfer
"""

from __future__ import annotations

import logging
import resource
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from runjournal import CallableGateway, DeliveryService, Journal, open_journal

from .figure import Figure, Settings, run
from .postgres_server import DSN, server

SETTINGS: Settings = DSN | {"runs": (20_000, 500)}


def fill(journal: Journal, runs: int) -> None:
    """Runs in several states; some have results that were sent, and some that wait."""
    ledger = journal.ledger(owner="worker")
    for n in range(runs):
        kind = n % 4
        ref = ("inbox", "later", None, None)[kind]
        ledger.start(f"run-{n:06}", kind="etl", input={"n": n}, delivery_ref=ref)
        lease = ledger.acquire(f"run-{n:06}", heartbeat=False)
        for step in range(3):
            lease.save_checkpoint({"step": step, "text": "x" * 200})
        if kind < 2:
            lease.complete({"rows": n})
        elif kind == 2:
            lease.suspend(["boss"])
    service = DeliveryService(journal, {"inbox": CallableGateway(lambda _request: None)})
    while service.deliver_due(limit=10_000).delivered:
        pass


def seconds(work: Callable[[], Any]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def figures(options: Namespace) -> Iterator[Figure]:
    logging.getLogger("runjournal").setLevel(logging.ERROR)  # refs that nobody serves here
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = stack.enter_context(server(options.dsn)).database()

        def opened(url: str) -> Journal:
            return stack.enter_context(open_journal(url))

        first = opened(f"sqlite:///{folder / 'first.db'}?synchronous=normal")
        fill(first, options.runs)
        second = opened(database)
        third = opened(f"sqlite:///{folder / 'third.db'}")
        fourth = opened(f"sqlite:///{folder / 'fourth.db'}")
        verified = seconds(lambda: first.verify())
        steps: dict[str, Callable[[], Any]] = {
            "SQLite to Postgres": lambda: first.copy_to(second),
            "Postgres to SQLite": lambda: second.copy_to(third),
            "the same once more": lambda: second.copy_to(third),
            "export from SQLite": lambda: third.export_to(folder / "third"),
            "import into SQLite": lambda: fourth.import_from(folder / "third"),
        }
        for name, work in steps.items():
            ratio = seconds(work) / verified
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            yield Figure(
                f"{name}, {first.position():,} events",
                "one `verify` of the source",
                [ratio],
                "less",
                note=f"{peak:.0f} MiB at most",
            )
        for number, journal in enumerate((first, second, fourth), start=1):
            journal.export_to(folder / f"{number}.jsonl")
            assert (folder / f"{number}.jsonl").read_bytes() == (folder / "third").read_bytes()
            assert journal.verify().findings == []


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
