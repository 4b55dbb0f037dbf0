"""Works on runs of its own in one file until stdin ends: URL NAME.

Prints "ready" once it is at work, and at the end how long each command took, in seconds.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

from runjournal import RunLedger, open_journal

url, name = sys.argv[1:3]
stop = threading.Event()


def commands(ledger: RunLedger) -> Iterator[Callable[[], object]]:
    for number in count():
        run_id = f"{name}-{number}"
        yield partial(ledger.start, run_id, delivery_ref="inbox")
        lease = ledger.acquire(run_id, heartbeat=False)
        for step in range(5):
            yield partial(lease.save_checkpoint, {"step": step, "pad": "x" * 500})
        yield lease.complete


threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
waits = []
with open_journal(url) as journal:
    for command in commands(journal.ledger(owner=name)):
        begin = time.perf_counter()
        command()
        waits.append(time.perf_counter() - begin)
        if len(waits) == 1:
            print("ready", flush=True)
        if stop.is_set():
            break
        time.sleep(0.002)  # leaves the disk room: the file must not grow faster than it is copied
print(json.dumps(waits))
