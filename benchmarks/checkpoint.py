"""Checkpoints of 1 KiB on SQLite, one writer, against a bare sqlite3 loop.

The divisor: `sqlite3` from the standard library, WAL and synchronous=FULL as here, in each
transaction the same two writes: the run's row moves one version under its version and owner, and
the event is inserted with its JSON. No library, no lease, no checks, no history chain.

    python -m benchmarks.checkpoint
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

from runjournal import open_journal

from .interleaved import PAYLOADS, Contestant, per_operation, ratios, spread

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


def bare(path: Path, synchronous: str) -> Contestant:
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute(f"PRAGMA synchronous = {synchronous}")
    conn.executescript(SCHEMA)
    version = 1

    def run(count: int) -> None:
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

    return run


def ours(path: Path, synchronous: str) -> Contestant:
    journal = open_journal(f"sqlite:///{path}?synchronous={synchronous.lower()}")
    lease = journal.ledger().acquire("run")

    def run(count: int) -> None:
        for i in range(count):
            lease.save_checkpoint(PAYLOADS[i % 64])

    return run


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for synchronous in ("FULL", "NORMAL"):
            home = Path(folder) / synchronous
            home.mkdir()
            took = per_operation(
                {
                    "bare sqlite3": bare(home / "bare.db", synchronous),
                    "runjournal": ours(home / "runs.db", synchronous),
                },
                count=400,
                rounds=21,
            )
            ratio = ratios(took, "bare sqlite3")["runjournal"]
            low, high = spread(took, "bare sqlite3", "runjournal")
            print(
                f"checkpoint 1 KiB, sqlite, synchronous={synchronous}: "
                f"{ratio:.2f} of bare sqlite3 (rounds {low:.2f} to {high:.2f})"
            )


if __name__ == "__main__":
    main()
