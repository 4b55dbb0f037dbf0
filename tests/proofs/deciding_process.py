"""Decides one approval of each run that it is told of, at the given instant: URL APPROVAL_ID.

A line on stdin is a run's id and an instant of the monotonic clock, which all processes share.
"""

from __future__ import annotations

import sys
import time

from runjournal import open_journal


def main(url: str, approval_id: str) -> None:
    with open_journal(url) as journal:
        ledger = journal.ledger(owner=f"process-{approval_id}")
        for line in sys.stdin:
            run_id, at = line.split()
            while time.monotonic() < float(at):  # shorter than any sleep
                pass
            ledger.record_decision(run_id, approval_id, "yes")
            print(run_id, "decided", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
