"""A worker that holds run "r" and says what it may still do once it woke up: URL TTL HEARTBEAT.

After it said that it holds the run it waits for a line on stdin; meanwhile it may be stopped.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from runjournal import RunLeaseHandle, RunStoreError, open_journal


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


def refusal(lease: RunLeaseHandle) -> list[str] | None:
    try:
        lease.save_checkpoint({"by": "sleeper", "n": 2})
    except RunStoreError as e:
        return [e.code, e.reason]
    return None


def main(url: str, ttl: float, heartbeat: bool) -> None:
    with open_journal(url) as journal:
        # Beats are rare, so that the stop does not meet this process inside a transaction.
        ledger = journal.ledger(owner="sleeper", lease_ttl=ttl, heartbeat_every=ttl / 2)
        lease = ledger.acquire("r", heartbeat=heartbeat)
        lease.save_checkpoint({"by": "sleeper", "n": 1})
        say({"token": lease.fencing_token, "held": lease.held})
        sys.stdin.readline()
        held, refused = lease.held, refusal(lease)
        again: Any
        try:
            new = ledger.acquire("r")
            again = {
                "token": new.fencing_token,
                "attempt": new.attempt,
                "checkpoint": new.checkpoint,
            }
            new.save_checkpoint({"by": "sleeper", "n": 3})
            new.complete()
        except RunStoreError as e:
            again = [e.code, e.reason]
        say({"held": held, "refusal": refused, "again": again})


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3] == "True")
