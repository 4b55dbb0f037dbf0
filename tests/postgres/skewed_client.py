"""A client whose Python clock is wrong: URL OWNER SKEW. It does what it is told, line by line.

The clock is replaced before anything else is imported, as every module would read it.
"""

from __future__ import annotations

import datetime as module
import json
import sys
import time
from typing import Any

SKEW = float(sys.argv[3])
_real_time, _real = time.time, module.datetime


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _real)


class Skewed(_real, metaclass=_Kind):
    """Makes datetimes, and its `now` is off."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _real(*args, **kwargs)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return _real.now(tz) + module.timedelta(seconds=SKEW)

    @classmethod
    def utcnow(cls) -> Any:
        return _real.now(module.UTC).replace(tzinfo=None) + module.timedelta(seconds=SKEW)


time.time = lambda: _real_time() + SKEW
module.datetime = Skewed  # type: ignore[misc]

from runjournal import RunStoreError, open_journal  # noqa: E402


def main(url: str, owner: str) -> None:
    with open_journal(url) as journal:
        off = module.datetime.now(module.UTC) - _real.now(module.UTC)
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
