"""Prune everything in batches of two runs, with an archive; killed at the given point.

A point is `what:n`, the n-th of: a `line` of the archive, a decision under the lock (`bury`), a
transaction that is about to be committed (`commit`), or that was (`done`).
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from runjournal import open_journal
from runjournal.adapters.postgres import session
from runjournal.adapters.postgres.statements import COMMIT
from runjournal.adapters.pruning.archive import Archive

url, path, point = sys.argv[1:]
passed = Counter[str]()


def step(what: str) -> None:
    passed[what] += 1
    if f"{what}:{passed[what]}" == point:
        os.kill(os.getpid(), signal.SIGKILL)


append, run = Archive.append, session.Session.run


def counting(self: Archive, lines: Iterable[bytes]) -> str:
    def each() -> Iterator[bytes]:
        for number, line in enumerate(lines):
            if number:
                assert self._file is not None
                self._file.flush()  # what was written so far is there, as a full buffer would be
            step("line")
            yield line

    return append(self, each())


def committing(self: Any, statement: Any, *values: Any) -> Any:
    if statement is COMMIT:
        step("commit")
    return run(self, statement, *values)


with open_journal(url) as journal:
    store: Any = journal.store
    prune = store.prune

    def pruning(run_ids: Any, bury: Callable[[Any], Any]) -> bool:
        def burying(ended: Any) -> Any:
            step("bury")
            return bury(ended)

        done = bool(prune(run_ids, burying))
        step("done")
        return done

    store.prune = pruning
    Archive.append = counting  # type: ignore[method-assign]
    if url.startswith("sqlite"):
        commit = store.database.commit

        def committed(conn: Any) -> None:
            step("commit")
            commit(conn)

        store.database.commit = committed
    else:
        session.Session.run = committing  # type: ignore[method-assign]
    journal.prune_all(datetime.now(UTC) + timedelta(seconds=30), limit=2, archive=path)
print(dict(passed))
