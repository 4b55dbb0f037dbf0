"""What is measured as workers grow: 1, 2, 4, 8 of them on one Postgres, and on one SQLite file.

A worker is a process of one thread, or on SQLite also a thread of one process. Each number of
workers has a database of its own; they work on runs of their own, with commits that are flushed.
"""

from __future__ import annotations

import uuid
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from runjournal import open_journal

from .filling import KIND
from .growing_sqlite import Measured
from .postgres_checkpoint import ours as checkpoints
from .postgres_server import server
from .workers import Open, Step, in_turns


@contextmanager
def whole_runs(url: str, threads: int) -> Iterator[Sequence[Step]]:
    """Start a run, claim one, complete it."""
    with open_journal(url) as journal:
        ledger = journal.ledger()

        def step(_: int) -> None:
            ledger.start(f"run-{uuid.uuid4().hex}", kind=KIND)
            while (lease := ledger.claim(kinds=[KIND], heartbeat=False)) is None:
                pass  # others have claimed it, and put one of theirs in its place
            lease.complete()

        yield [step] * threads


def by_workers(options: Namespace, sizes: Sequence[int]) -> Measured:
    with TemporaryDirectory() as folder, server(options.dsn) as postgres:

        def file() -> str:
            return f"sqlite:///{Path(folder) / uuid.uuid4().hex}.db"

        works: dict[str, tuple[Open, bool]] = {
            "checkpoints, Postgres": (checkpoints, False),
            "whole runs, Postgres": (whole_runs, False),
            "checkpoints, SQLite": (checkpoints, False),
            "checkpoints, SQLite, threads": (checkpoints, True),
        }
        said: Measured = {}
        for name, (opener, threads) in works.items():
            contestants = {}
            for size in sizes:
                url = postgres.database() if "Postgres" in name else file()
                open_journal(url).close()
                shape = (1, size) if threads else (size, 1)
                contestants[str(size)] = (opener, url, *shape)
            took = in_turns(contestants, options.seconds, options.rounds)
            said[name] = {size: took[str(size)] for size in sizes}
        return said
