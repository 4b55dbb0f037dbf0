"""What the hash chain costs a checkpoint: its hash, as a share of the whole.

A checkpoint of 1 KiB on SQLite, with the flush to the disk that it waits for (FULL) and without
(NORMAL), and the hash of that very event, in turns. There is no switch to leave the hash out.

    python -m benchmarks.chain
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from runjournal import open_journal
from runjournal.domain.chain import GENESIS, chain_hash

from .figure import Figure, Settings, run, times
from .interleaved import PAYLOADS, Contestant, per_operation

SETTINGS: Settings = {"rounds": (15, 3), "count": (500, 50)}


def hashing(stream: str, topic: str, data: bytes) -> Contestant:
    def hashes(count: int) -> None:
        for version in range(count):
            chain_hash(GENESIS, stream, version, topic, data)

    return hashes


def figures(options: Namespace) -> Iterator[Figure]:
    for synchronous in ("full", "normal"):
        with (
            tempfile.TemporaryDirectory() as folder,
            open_journal(f"sqlite:///{Path(folder) / 'r.db'}?synchronous={synchronous}") as journal,
        ):
            lease = journal.ledger().acquire("run")

            def saving(count: int, lease: object = lease) -> None:
                for i in range(count):
                    lease.save_checkpoint(PAYLOADS[i % 64])  # type: ignore[attr-defined]

            saving(1)
            stored = journal.store.read("run/run", lease.record.version - 1, 1)[0]
            contestants = {
                "checkpoint": saving,
                "hash": hashing(stored.stream, stored.topic, stored.data),
            }
            took = per_operation(contestants, options.count, options.rounds)
            yield Figure(
                f"the chain's hash of a checkpoint of 1 KiB, SQLite, synchronous={synchronous}",
                "the whole checkpoint",
                times(took, "hash", "checkpoint"),
                "less",
                note=f"{len(stored.data):,} bytes",
            )


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
