"""A worker that outlives a database that comes and goes: URL OWNER TTL CHECKPOINTS.

Takes runs until its stdin is closed. Logs everything to stderr, and says on stdout which errors
it met, once it ends.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from collections import Counter
from typing import Any

from runjournal import RunStoreError, Worker, open_journal

#: Seconds between two looks for work, and after an error that may pass.
PAUSE = 0.1


def main(url: str, owner: str, ttl: float, checkpoints: int) -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s %(message)s")
    interrupt = threading.Event()

    def until_told() -> None:
        sys.stdin.read()
        interrupt.set()

    def handler(ctx: Any) -> Any:
        done = ctx.checkpoint["n"] if ctx.checkpoint else 0
        for number in range(done + 1, checkpoints + 1):
            ctx.ensure_held()
            ctx.save_checkpoint({"n": number, "by": owner})
            time.sleep(ctx.input["pause"])
        return {"n": checkpoints, "by": owner}

    threading.Thread(target=until_told, daemon=True).start()
    met: Counter[str] = Counter()
    with open_journal(url) as journal:
        worker = Worker(journal, handler, owner=owner, lease_ttl=ttl, grace=1)
        print("ready", flush=True)
        while not interrupt.is_set():
            try:
                record = worker.run_once(interrupt=interrupt)
            except RunStoreError as error:
                met[f"{error.code}/{error.reason}"] += 1
                if not error.retryable:
                    raise
                record = None
            if record is None:
                interrupt.wait(PAUSE)
    print(json.dumps(met), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
