"""Checkpoints of 1 KiB on SQLite, one writer, against bare loops of `sqlite3`.

Both divisors use `sqlite3` from the standard library with WAL and the same `synchronous`, encode
the payload with `json`, and do the same two writes in each transaction: the run's row moves one
version under its guards, and the event is inserted. No library, no lease, no checks, no chain.

    same writes  our very statements on our very tables, with rows of the same size
    least tables the least that could do: four columns of a run, four of an event, no position

    python -m benchmarks.checkpoint
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from runjournal import open_journal
from runjournal.adapters.rows import checkpoint_of, to_microseconds
from runjournal.adapters.sqlite import statements

from .figure import Figure, Settings, rates, run
from .interleaved import PAYLOADS, Contestant, per_operation

SETTINGS: Settings = {"rounds": (21, 3), "count": (400, 40)}

SCHEMA = """
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, state TEXT NOT NULL, version INTEGER NOT NULL, owner TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE events (
    run_id TEXT NOT NULL, version INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (run_id, version)
);
INSERT INTO runs VALUES ('run', 'leased', 1, 'worker');
"""
ADVANCE = "UPDATE runs SET version = version + 1 WHERE run_id = ? AND version = ? AND owner = ?"
INSERT = "INSERT INTO events VALUES (?, ?, ?, ?)"


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute(f"PRAGMA synchronous = {synchronous}")
    return conn


def same_writes(path: Path, synchronous: str) -> Contestant:
    with open_journal(f"sqlite:///{path}") as journal:
        lease = journal.ledger().acquire("run", heartbeat=False)
        record = lease.save_checkpoint(PAYLOADS[0])
        (event,) = journal.store.read("run/run", record.version - 1)
        around = len(event.data) - len(json.dumps(PAYLOADS[0], separators=(",", ":")))
        checkpoint, head = checkpoint_of(record, None), record.head
        stamp = to_microseconds(record.updated_at)
    conn = connect(path, synchronous)
    # Closing has released the run: held again, without end.
    conn.execute("UPDATE runs SET status = 'running', ready_at = ?, head = ?", (2**60, head))
    (version,) = conn.execute("SELECT version FROM runs").fetchone()
    frame = b"x" * around

    def save(count: int) -> None:
        nonlocal version
        for i in range(count):
            conn.execute("BEGIN IMMEDIATE")
            row = (version + 1, stamp, checkpoint, head, "run", version, head, 1, stamp)
            if conn.execute(statements.SAVE_CHECKPOINT, row).rowcount != 1:
                raise RuntimeError("lost the run")
            body = frame + json.dumps(PAYLOADS[i % 64], separators=(",", ":")).encode()
            values = ("run/run", version + 1, "run.checkpoint_saved", body)
            conn.execute(statements.INSERT_EVENT, values)
            conn.execute("COMMIT")
            version += 1

    return save


def least_tables(path: Path, synchronous: str) -> Contestant:
    conn = connect(path, synchronous)
    conn.executescript(SCHEMA)
    version = 1

    def save(count: int) -> None:
        nonlocal version
        for i in range(count):
            conn.execute("BEGIN IMMEDIATE")
            moved = conn.execute(ADVANCE, ("run", version, "worker"))
            if moved.rowcount != 1:
                raise RuntimeError("lost the run")
            body = json.dumps(PAYLOADS[i % 64])
            conn.execute(INSERT, ("run", version + 1, "checkpoint", body))
            conn.execute("COMMIT")
            version += 1

    return save


def ours(path: Path, synchronous: str) -> Contestant:
    journal = open_journal(f"sqlite:///{path}?synchronous={synchronous.lower()}")
    lease = journal.ledger().acquire("run")

    def save(count: int) -> None:
        for i in range(count):
            lease.save_checkpoint(PAYLOADS[i % 64])

    return save


def figures(options: Namespace) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for synchronous in ("FULL", "NORMAL"):
            home = Path(folder) / synchronous
            home.mkdir()
            took = per_operation(
                {
                    "same writes": same_writes(home / "same.db", synchronous),
                    "least tables": least_tables(home / "least.db", synchronous),
                    "runjournal": ours(home / "runs.db", synchronous),
                },
                options.count,
                options.rounds,
            )
            for base in ("same writes", "least tables"):
                yield Figure(
                    f"checkpoints of 1 KiB, SQLite, synchronous={synchronous}",
                    f"bare `sqlite3`, {base}",
                    rates(took, "runjournal", base),
                    "more",
                    aside=base == "least tables",
                )


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
