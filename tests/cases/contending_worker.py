"""Commands on one file against other processes: URL NAME THREADS COMMANDS TOTAL.

Each thread carries out so many commands, each of which writes one event. With a TOTAL, a reader
tails the journal beside them until it has seen that many events. Begins at a line on stdin, and
prints how long each command took, what was refused, and the positions that the reader saw.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count, islice
from typing import Any

from runjournal import Journal, RunLeaseHandle, RunLedger, open_journal

#: Seconds without any new event after which the reader gives up.
IDLE = 10.0


def life(ledger: RunLedger, run_id: str, kind: str) -> Iterator[Callable[[], object]]:
    """The commands of one run's life, each of which writes one event."""
    leases: list[RunLeaseHandle] = []

    def acquire() -> None:
        leases.append(ledger.acquire(run_id, heartbeat=False))

    def claim() -> None:
        lease = ledger.claim(kinds=[kind], heartbeat=False)
        assert lease is not None
        leases.append(lease)

    def save() -> None:
        leases[-1].save_checkpoint({"pad": "x" * 1000})

    yield lambda: ledger.start(run_id, kind=kind)
    yield acquire
    yield save
    yield save
    yield lambda: leases[-1].suspend(["a"])
    yield lambda: ledger.request_resume(run_id)
    yield claim
    yield save
    yield save
    yield lambda: leases[-1].complete()


def write(journal: Journal, name: str, number: int) -> tuple[list[float], list[str]]:
    waits, errors = [], []
    ledger = journal.ledger(owner=name)
    lives = chain.from_iterable(life(ledger, f"{name}-{i}", name) for i in count())
    for command in islice(lives, number):
        begin = time.perf_counter()
        try:
            command()
        except Exception as e:
            errors.append(repr(e))
        waits.append(time.perf_counter() - begin)
    return waits, errors


def tail(journal: Journal, total: int) -> list[int]:
    """The positions that a subscription gave, until all have come, or none came for a while."""
    positions: list[int] = []
    if total:
        with journal.application.recorder.subscribe(gt=0) as subscription:
            while len(positions) < total:
                giving_up = threading.Timer(IDLE, subscription.stop)
                giving_up.start()
                notification = next(subscription, None)
                giving_up.cancel()
                if notification is None:
                    break
                positions.append(notification.id)
    return positions


def main(url: str, name: str, threads: int, number: int, total: int) -> None:
    with open_journal(url) as journal, ThreadPoolExecutor(threads + 1) as pool:
        print("ready", flush=True)
        sys.stdin.readline()
        tailed = pool.submit(tail, journal, total)
        writers = [pool.submit(write, journal, f"{name}-{i}", number) for i in range(threads)]
        found: dict[str, Any] = {"waits": [], "errors": []}
        for writer in writers:
            waits, errors = writer.result()
            found["waits"] += waits
            found["errors"] += errors
        found["tailed"] = tailed.result()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
