"""Import a file in batches of three units; killed at the given step.

A step is an event that is handed to the store, inside its transaction, or a transaction that is
committed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from runjournal import open_journal
from runjournal.adapters.transfer import publishing

url, path, point = sys.argv[1], sys.argv[2], int(sys.argv[3])
publishing.BATCH = 3
steps = 0


def step() -> None:
    global steps
    steps += 1
    if steps == point:
        os.kill(os.getpid(), signal.SIGKILL)


def counted(events: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
    def counting() -> Iterator[Any]:
        for event in events():
            step()
            yield event

    return counting


with open_journal(url) as journal:
    store: Any = journal.store
    publish = store.publish

    def published(publications: Any) -> bool:
        done = publish([p._replace(events=counted(p.events)) for p in publications])
        step()
        return bool(done)

    store.publish = published
    journal.import_from(path)
print(steps)
