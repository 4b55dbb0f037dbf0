"""Checkpoints of 1 KiB on Postgres, 1 worker and 8 on different runs, against the bare statement.

The divisor: the very statement with which runjournal saves a checkpoint, sent by hand. Each worker
holds one psycopg connection in autocommit and one RawCursor with binary results, and executes the
statement prepared and warm, in a schema of the same tables and indexes. So it has the same guards
(version, fencing token, deadline after the lock), the same heap-only update of the run's row, the
same inserted event of the same size, and one round trip; it serialises the state with `json` into
bytes laid out as a stored event. Nothing else: no lease kept up by a heartbeat, no check that the
state comes back as it was, no digest, no hash chain, no record, no connection handling, no lock
between threads.

Both sides have the same number of processes and threads, each side a database of its own.

    python -m benchmarks.postgres_checkpoint
"""

from __future__ import annotations

import json
import uuid
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.types.numeric import Int8
from runjournal import open_journal
from runjournal.adapters.postgres.append_statements import SAVE_CHECKPOINT

from .figure import Figure, Settings, rates, run
from .interleaved import PAYLOADS
from .postgres_server import DSN, server
from .workers import Step, in_turns

SETTINGS: Settings = DSN | {
    "rounds": (15, 3),
    "seconds": (1.0, 0.3),
    "processes": (2, 2),
    "threads": (4, 4),
}

TTL = 60.0


@contextmanager
def ours(url: str, threads: int) -> Iterator[Sequence[Step]]:
    with open_journal(url) as journal:
        leases = [
            journal.ledger(lease_ttl=TTL).acquire(f"run-{uuid.uuid4().hex}") for _ in range(threads)
        ]

        def saving(lease: Any) -> Step:
            return lambda i: lease.save_checkpoint(PAYLOADS[i % 64])

        yield [saving(lease) for lease in leases]


class Shape(NamedTuple):
    """A run held by the bare statement, and what its rows look like, taken from stored ones."""

    run_id: str
    version: int
    token: int
    checkpoint: bytes
    head: str
    topic: str
    before: bytes
    after: bytes


def shape(url: str) -> Shape:
    """Make a run through the library once, so that the bare rows have the library's sizes."""
    run_id = f"run-{uuid.uuid4().hex}"
    with open_journal(url) as journal:
        lease = journal.ledger(lease_ttl=TTL).acquire(run_id, heartbeat=False)
        lease.save_checkpoint(PAYLOADS[0])
        with psycopg.connect(url) as conn:
            row = conn.execute(
                "SELECT r.version, r.fencing_token, r.checkpoint, r.head, e.topic, e.state"
                " FROM runs r JOIN events e ON e.stream = 'run/' || r.run_id"
                " AND e.version = r.version WHERE r.run_id = %s",
                (run_id,),
            ).fetchone()
            assert row is not None  # it was just written
            *fields, state = row
            # Held for good: closing the journal would give the lease back.
            conn.execute(
                "UPDATE runs SET fencing_token = fencing_token + 1,"
                " ready_at = now() + interval '1 day' WHERE run_id = %s",
                (run_id,),
            )
    fields[1] += 1
    before, _, after = state.partition(json.dumps(PAYLOADS[0], separators=(",", ":")).encode())
    assert len(before) + 1024 + len(after) == len(state), "the stored event has another layout"
    return Shape(run_id, *fields, before, after)


class Bare:
    """One worker without a library."""

    def __init__(self, url: str) -> None:
        self.shape = shape(url)
        self.version = self.shape.version
        self.stream = f"run/{self.shape.run_id}"
        self.conn = psycopg.connect(url, autocommit=True)
        self.cursor = psycopg.RawCursor(self.conn)
        self.text = SAVE_CHECKPOINT.within("public")

    def save(self, i: int) -> None:
        s = self.shape
        state = json.dumps(PAYLOADS[i % 64], separators=(",", ":")).encode()
        row = self.cursor.execute(
            self.text,
            (
                s.run_id,
                Int8(self.version),
                s.head,
                Int8(self.version + 1),
                Int8(s.token),
                None,
                datetime.now(UTC),
                s.checkpoint,
                s.head,
                TTL,
                self.stream,
                s.topic,
                s.before + state + s.after,
            ),
            prepare=True,
            binary=True,
        ).fetchone()
        if row is None:
            raise RuntimeError("lost the run")
        self.version += 1


@contextmanager
def bare(url: str, threads: int) -> Iterator[Sequence[Step]]:
    workers = [Bare(url) for _ in range(threads)]
    with ExitStack() as stack:
        for worker in workers:
            stack.enter_context(worker.conn)
        yield [worker.save for worker in workers]


def written_bytes(url: str) -> float:
    """The mean size of what one checkpoint writes: the event's row and the run's new columns."""
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT (SELECT avg(pg_column_size(e.*)) FROM events e"
            " WHERE topic = 'run.checkpoint_saved')"
            " + (SELECT avg(pg_column_size(checkpoint) + pg_column_size(head)) FROM runs)"
        ).fetchone()
    assert row is not None  # aggregates always give a row
    return float(row[0])


def figures(options: Namespace) -> Iterator[Figure]:
    with server(options.dsn) as postgres:
        for processes, threads in ((1, 1), (options.processes, options.threads)):
            urls = {"bare": postgres.database(), "ours": postgres.database()}
            for url in urls.values():
                open_journal(url).close()
            took = in_turns(
                {
                    "bare": (bare, urls["bare"], processes, threads),
                    "ours": (ours, urls["ours"], processes, threads),
                },
                options.seconds,
                options.rounds,
            )
            sizes = {name: written_bytes(url) for name, url in urls.items()}
            if abs(sizes["ours"] / sizes["bare"] - 1) > 0.01:
                raise SystemExit(f"the two sides write rows of different sizes: {sizes}")
            workers = processes * threads
            yield Figure(
                f"checkpoints of 1 KiB, Postgres, {workers} worker{'s' * (workers > 1)}"
                f" ({processes} x {threads})",
                "the bare statement, same workers",
                rates(took, "ours", "bare"),
                "more",
                note=f"rows of {sizes['ours']:.0f} bytes, bare {sizes['bare']:.0f}",
            )


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
