"""What encryption costs: a checkpoint of 1 KiB on SQLite, and `verify`, with a ring and without.

python -m benchmarks.encryption
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from runjournal import Journal, KeyRing, open_journal

from .figure import Figure, Settings, run, times
from .interleaved import PAYLOADS, Contestant, per_operation

SETTINGS: Settings = {"rounds": (15, 3), "count": (400, 40)}


def saving(journal: Journal) -> Contestant:
    lease = journal.ledger().acquire("run")

    def save(count: int) -> None:
        for i in range(count):
            lease.save_checkpoint(PAYLOADS[i % 64])

    return save


def verifying(journal: Journal) -> Contestant:
    def verify(count: int) -> None:
        for _ in range(count):
            journal.verify()

    return verify


def figures(options: Namespace) -> Iterator[Figure]:
    ring = KeyRing({"key": os.urandom(32)})
    for synchronous in ("full", "normal"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            journals = {
                name: stack.enter_context(
                    open_journal(
                        f"sqlite:///{Path(folder) / name}.db?synchronous={synchronous}",
                        cipher=cipher,
                    )
                )
                for name, cipher in (("plain", None), ("encrypted", ring))
            }
            contestants = {name: saving(journal) for name, journal in journals.items()}
            took = per_operation(contestants, options.count, options.rounds)
            yield Figure(
                f"an encrypted checkpoint of 1 KiB, SQLite, synchronous={synchronous}",
                "one without a key ring",
                times(took, "encrypted", "plain"),
                "less",
            )
            contestants = {name: verifying(journal) for name, journal in journals.items()}
            took = per_operation(contestants, 1, 3)
            yield Figure(
                "`verify` of an encrypted journal, SQLite",
                "one without a key ring",
                times(took, "encrypted", "plain"),
                "less",
                aside=synchronous == "full",
                note=f"{journals['plain'].position():,} events",
            )


if __name__ == "__main__":
    run(__doc__, figures, SETTINGS)
