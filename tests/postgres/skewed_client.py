"""A client whose Python clock is wrong: URL OWNER SKEW. It does what it is told, line by line.

The clock is replaced before anything else is imported, as every module would read it.
"""

from __future__ import annotations

import datetime as module
import json
import sys
from typing import Any

from skewed_clock import install, true_now

SKEW = float(sys.argv[3])
install(lambda: SKEW)

from runjournal import RunStoreError, open_journal  # noqa: E402


def main(url: str, owner: str) -> None:
    with open_journal(url) as journal:
        off = module.datetime.now(module.UTC) - true_now()
        print(json.dumps(off.total_seconds()))
        leases: dict[str, Any] = {}
        for line in sys.stdin:
            what, run_id, ttl = json.loads(line)
            try:
                if what == "acquire":
                    ledger = journal.ledger(owner=owner, lease_ttl=ttl)
                    leases[run_id] = ledger.acquire(run_id, heartbeat=False)
                    answer = leases[run_id].fencing_token
                elif what == "claim":
                    found = journal.ledger(owner=owner, lease_ttl=ttl).claim(heartbeat=False)
                    answer = found and found.run_id
                elif what == "checkpoint":
                    answer = leases[run_id].save_checkpoint({}).version
                else:
                    answer = leases[run_id].renew()
            except RunStoreError as error:
                answer = [error.code, error.reason]
            print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
