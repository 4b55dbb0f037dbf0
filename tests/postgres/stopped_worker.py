"""A worker that is there to be stopped and woken: URL TTL. It says what became of its run.

Each checkpoint is acknowledged with a line "saved N". Once it has lost the run it tries every
other way to write, and says how each was refused.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from runjournal import RunStoreError, Worker, open_journal


def main(url: str, ttl: float) -> None:
    with open_journal(url) as journal:
        said: dict[str, str] = {}

        def attempt(name: str, act: Callable[[], object]) -> None:
            try:
                act()
                said[name] = "accepted"
            except RunStoreError as error:
                said[name] = f"{error.code}/{error.reason}"

        def handler(ctx: Any) -> Any:
            number = 0
            while True:
                number += 1
                try:
                    ctx.lease.save_checkpoint({"n": number})
                except RunStoreError as error:
                    said["save_checkpoint"] = f"{error.code}/{error.reason}"
                    break
                print(f"saved {number}", flush=True)
                time.sleep(0.01)
            attempt("renew", ctx.lease.renew)
            attempt("release", ctx.lease.release)
            attempt("complete", ctx.lease.complete)
            return "late"

        record = Worker(journal, handler, owner="first", lease_ttl=ttl).run_once()
        assert record is not None
        said["reported"] = f"{record.status} by {record.lease.owner if record.lease else None}"
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
