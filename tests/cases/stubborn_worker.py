"""A worker's process with handlers that do and do not stop: URL TTL GRACE.

It works until a signal comes, and says what `run` gave. Then it lives on as a host would: for a
line on stdin it lets the stubborn handler write, and says how that was refused.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from runjournal import RunStoreError, Worker, WorkerContext, open_journal


def main(url: str, ttl: float, grace: float) -> None:
    let_go, refusals, written = threading.Event(), list[Any](), threading.Event()

    def handler(ctx: WorkerContext) -> str:
        if ctx.run_id != "stubborn":
            ctx.stop.wait()
            ctx.ensure_held()
        let_go.wait()
        for write in (lambda: ctx.save_checkpoint("late"), lambda: ctx.lease.complete("late")):
            try:
                write()
            except RunStoreError as e:
                refusals.append([e.code, e.reason])
        written.set()
        return "late"

    with open_journal(url) as journal:
        worker = Worker(journal, handler, owner="first", lease_ttl=ttl, grace=grace)
        done = worker.run(concurrency=4, signals=True)
        print(json.dumps({"runs": done.runs, "abandoned": done.abandoned}), flush=True)
        sys.stdin.readline()
        let_go.set()
        written.wait()
        print(json.dumps(refusals), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
