"""What encryption costs: a checkpoint of 1 KiB on SQLite, and `verify`, with a ring and without.

python -m benchmarks.encryption
"""

from __future__ import annotations

import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path

from runjournal import Journal, KeyRing, open_journal

from .interleaved import PAYLOADS, Contestant, per_operation, spread

COUNT, ROUNDS = 1000, 15


def saving(journal: Journal) -> Contestant:
    lease = journal.ledger().acquire("run")

    def run(count: int) -> None:
        for i in range(count):
            lease.save_checkpoint(PAYLOADS[i % 64])

    return run


def verifying(journal: Journal) -> Contestant:
    def run(count: int) -> None:
        for _ in range(count):
            journal.verify()

    return run


def show(what: str, took: dict[str, list[float]]) -> None:
    """How many times as long it takes with the ring: the median, and the range of the rounds."""
    each = sorted(e / p for e, p in zip(took["encrypted"], took["plain"], strict=True))
    low, high = spread(took, "encrypted", "plain")
    print(
        f"{what}: {statistics.median(each):.2f} times as long with a key ring "
        f"(rounds {low:.2f} to {high:.2f}); "
        f"{statistics.median(took['plain']) * 1e6:,.0f} us without"
    )


def main() -> None:
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
            show(
                f"checkpoint, synchronous={synchronous}", per_operation(contestants, COUNT, ROUNDS)
            )
            contestants = {name: verifying(journal) for name, journal in journals.items()}
            events = journals["plain"].position()
            show(f"verify of {events:,} events", per_operation(contestants, 1, 3))


if __name__ == "__main__":
    main()
