"""Checkpoints of 8 workers against those of 1 when every flush is slow.

Each commit's flush is made 5 ms longer (commit_delay = 5000, commit_siblings = 0), as on a disk
behind a network. Then all depends on whether commits share flushes: whatever takes a lock that
others need until it has committed makes 8 workers as slow as one.

The divisor: runjournal itself with 1 worker, on a database of its own, in the same run. Workers
save checkpoints of 1 KiB on different runs.

The setting belongs to the whole server and is taken back at the end: on a server named by --dsn,
everybody else's commits are slow for as long.

    python -m benchmarks.postgres_slow_flush
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator

from runjournal import open_journal

from .figure import Figure, Settings, rates, run
from .postgres_checkpoint import ours
from .postgres_server import DSN, server
from .workers import in_turns

SETTINGS: Settings = DSN | {
    "rounds": (9, 3),
    "seconds": (1.5, 0.3),
    "processes": (2, 2),
    "threads": (4, 4),
}

SLOW = {"commit_delay": "5000", "commit_siblings": "0"}


def figures(options: Namespace) -> Iterator[Figure]:
    processes, threads = options.processes, options.threads
    with server(options.dsn) as postgres:
        urls = {"1 worker": postgres.database(), "all": postgres.database()}
        for url in urls.values():
            open_journal(url).close()
        with postgres.changed(**SLOW):
            took = in_turns(
                {
                    "1 worker": (ours, urls["1 worker"], 1, 1),
                    "all": (ours, urls["all"], processes, threads),
                },
                options.seconds,
                options.rounds,
            )
    yield Figure(
        f"checkpoints of 1 KiB, Postgres, each flush 5 ms longer, "
        f"{processes * threads} workers ({processes} x {threads})",
        "1 worker",
        rates(took, "all", "1 worker"),
        "more",
    )


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
