"""What a long history costs: the same three operations on a run of 10 events and on a longer one.

Reading the record, acquiring (with the last checkpoint read) and saving a 1 KiB checkpoint, on
SQLite with synchronous=NORMAL, so that flushes do not hide the difference.

    python -m benchmarks.growth [EVENTS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from runjournal import RunLedger, open_journal

from .interleaved import PAYLOADS, Contestant, per_operation, ratios, spread


def grow(ledger: RunLedger, run_id: str, events: int) -> None:
    with ledger.acquire(run_id, heartbeat=False) as lease:
        while lease.record.version < events:
            lease.save_checkpoint(PAYLOADS[lease.record.version % 64])


def reading(ledger: RunLedger, run_id: str) -> Contestant:
    def run(count: int) -> None:
        for _ in range(count):
            ledger.get(run_id)

    return run


def acquiring(ledger: RunLedger, run_id: str) -> Contestant:
    def run(count: int) -> None:
        for _ in range(count):
            lease = ledger.acquire(run_id, heartbeat=False)
            assert lease.checkpoint is not None

    return run


def saving(ledger: RunLedger, run_id: str) -> Contestant:
    def run(count: int) -> None:
        lease = ledger.acquire(run_id, heartbeat=False)
        for i in range(count):
            lease.save_checkpoint(PAYLOADS[i % 64])

    return run


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    with (
        tempfile.TemporaryDirectory() as folder,
        open_journal(f"sqlite:///{Path(folder) / 'runs.db'}?synchronous=normal") as journal,
    ):
        ledger = journal.ledger(owner="worker")
        grow(ledger, "short", 10)
        grow(ledger, "long", events)
        for name, make in (("read", reading), ("acquire", acquiring), ("save", saving)):
            took = per_operation(
                {"short": make(ledger, "short"), "long": make(ledger, "long")},
                count=200,
                rounds=15,
            )
            ratio = 1 / ratios(took, "short")["long"]
            low, high = spread(took, "short", "long")
            print(
                f"{name} at {events:,} events: {ratio:.2f} x the time at 10 "
                f"(rounds {1 / high:.2f} to {1 / low:.2f})"
            )


if __name__ == "__main__":
    main()
