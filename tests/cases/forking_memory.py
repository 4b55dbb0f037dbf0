"""A host that forks while a journal in its memory is in use. Prints what the children were told."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable

from runjournal import RunStoreError, open_journal


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except RunStoreError as e:
        return f"{e.code}/{e.reason}"
    return "accepted"


def main() -> None:
    with open_journal("memory:") as journal:
        ledger = journal.ledger()
        lease = ledger.acquire("busy")
        stop = threading.Event()
        written: list[int] = []

        def keep_writing() -> None:
            while not stop.is_set():
                lease.save_checkpoint(len(written))
                written.append(0)

        writer = threading.Thread(target=keep_writing)
        writer.start()
        told = []
        for _ in range(4):
            while len(written) < 10:
                time.sleep(0.001)
            reading, writing = os.pipe()
            pid = os.fork()
            if not pid:
                calls: list[Callable[[], object]] = [
                    lambda: ledger.start("child"),
                    lambda: journal.ledger().acquire("child"),
                    lambda: ledger.get("busy"),
                    lambda: journal.runs(),
                    lambda: list(journal.events("busy")),
                    lambda: lease.save_checkpoint("child"),
                ]
                os.write(writing, json.dumps([refusal(call) for call in calls]).encode())
                os._exit(0)
            os.close(writing)
            told.append(json.loads(os.read(reading, 10_000)))
            os.close(reading)
            os.waitpid(pid, 0)
        stop.set()
        writer.join()
        record = lease.complete()
        print(json.dumps({"told": told, "others": record.version - 3 - len(written)}))


if __name__ == "__main__":
    main()
    sys.exit(0)
