"""Checkpoints of 8 workers against those of 1 when every flush is slow.

Each commit's flush is made 5 ms longer (commit_delay = 5000, commit_siblings = 0), as on a disk
behind a network. Then all depends on whether commits share flushes: whatever takes a lock that
others need until it has committed makes 8 workers as slow as one.

The divisor: runjournal itself with 1 worker, on a database of its own, in the same run. Workers
save checkpoints of 1 KiB on different runs.

The setting belongs to the whole server and is taken back at the end: on a server named by --dsn,
everybody else's commits are slow for as long.

    python -m benchmarks.postgres_slow_flush [--dsn URL] [--quick]
"""

from __future__ import annotations

from runjournal import open_journal

from .interleaved import ratios, spread
from .postgres_checkpoint import ours
from .postgres_server import arguments, server
from .workers import in_turns

SLOW = {"commit_delay": "5000", "commit_siblings": "0"}


def main() -> None:
    parser = arguments(__doc__, rounds=9, seconds=1.5, processes=2, threads=4)
    options = parser.parse_args()
    rounds, seconds = (3, 0.6) if options.quick else (options.rounds, options.seconds)
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
                seconds,
                rounds,
            )
    ratio = ratios(took, "1 worker")["all"]
    low, high = spread(took, "1 worker", "all")
    print(
        f"checkpoint 1 KiB, postgres, each flush 5 ms longer: {processes * threads} workers "
        f"({processes} x {threads}) are {ratio:.1f} x 1 worker (rounds {low:.1f} to {high:.1f})"
    )


if __name__ == "__main__":
    main()
