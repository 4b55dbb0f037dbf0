"""A worker that is there to be killed: URL RUN CHECKPOINTS.

It acknowledges each checkpoint on stdout, one line each, once `save_checkpoint` has returned.
"""

from __future__ import annotations

import os
import sys

from runjournal import open_journal


def main(url: str, run_id: str, checkpoints: int) -> None:
    with open_journal(url) as journal:
        lease = journal.ledger(owner="killed").acquire(run_id)
        for number in range(1, checkpoints + 1):
            lease.save_checkpoint({"n": number, "pad": "x" * 500})
            os.write(1, b"%d\n" % number)
        # Whoever was not killed by now, waits for it: its lease stays held.
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
