"""Rebuild the records of a journal in batches of that size; killed before the given one."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from runjournal import open_journal
from runjournal.projections import rebuild

url, point = sys.argv[1], int(sys.argv[2])
rebuild.BATCH = int(sys.argv[3])
with open_journal(url) as journal:
    store: Any = journal.store
    repair, done = store.repair, 0

    def counted(rows: Any) -> Any:
        global done
        if done == point:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        return repair(rows)

    store.repair = counted
    journal.rebuild("run_records")
