"""Back up, or restore, over and over, and be killed at another point each time.

    backup URL FOLDER EVERY       each call to FOLDER/NUMBER.db
    restore BACKUP FOLDER EVERY   the same

A point is a call of any function, ours or of the library, from one of the modules that write the
file. A forked child goes as far as the point; the last one gets to the end. Prints how many points
there are. EVERY: only each so-manyth of them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import runjournal
from runjournal import Journal, open_journal, restore_backup
from runjournal.adapters import audit, backup, new_file, restoring
from runjournal.adapters.sqlite import backup as sqlite_backup
from runjournal.adapters.sqlite import database, epoch, opening

WATCHED = {
    str(module.__file__)
    for module in (audit, backup, database, epoch, new_file, opening, restoring, sqlite_backup)
}
what, source, folder, every = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
assert runjournal.__file__


def count_to(point: int | None) -> list[int]:
    """Count calls from now on, and be killed at this one."""
    seen = [0]

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event.endswith("call") and frame.f_code.co_filename in WATCHED:
            seen[0] += 1
            if seen[0] == point:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)
    return seen


def work(target: Path, point: int | None) -> int:
    journal: Journal | None = None
    if what == "backup":
        journal = open_journal(source)
    seen = count_to(point)
    if journal is not None:
        journal.backup(target)
    else:
        restore_backup(source, target, actor="operator", reason="a test")
    sys.setprofile(None)
    return seen[0]


assert threading.active_count() == 1
points = work(folder / "whole.db", None)
for point in range(1, points + 1, every):
    child = os.fork()
    if child == 0:
        work(folder / f"{point}.db", point)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), (point, status)
print(points)
