"""Projections that are killed with SIGKILL at their SQL statements: URL WHAT KILLS SEED.

WHAT is "catch_up" or "rebuild". Each kill is a process of its own, forked from this one while no
journal is open; it kills itself before, or right after it has sent, one of its next statements.
After each kill the rows are looked at. Prints, as JSON, at which statements it was, and what was
found.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runjournal import open_journal
from runjournal.adapters.postgres.session import Session
from runjournal.adapters.projecting import rebuilding, runner
from runjournal.adapters.sqlite.database import Database

sys.path.append(str(Path(__file__).parent))
from projectors import Seen

#: Few events in a page, so that there are many transactions to be killed in.
runner.PAGE = rebuilding.PAGE = 6
#: Which statements are aimed at in turn, for each backend, and then any statement once.
AIMS: dict[tuple[str, str], tuple[str, ...]] = {
    ("sqlite", "catch_up"): ("UPDATE projections", "INSERT INTO projection_", "COMMIT", "BEGIN"),
    ("postgresql", "catch_up"): ("SAVE", "SELECT"),
    ("sqlite", "rebuild"): (
        "CREATE TABLE projection_",
        "INSERT INTO projection_",
        "COMMIT",
        "UPDATE projections",
        "DELETE FROM projection_",
        "DROP TABLE projection_",
    ),
    ("postgresql", "rebuild"): (
        "CREATE TABLE projection_",
        "FILL",
        "COMMIT",
        "UPDATE projections",
        "DROP TABLE projection_",
    ),
}


def forked(work: Callable[[], Any]) -> tuple[int, Any]:
    """Run it in a child: its exit status, and what it gave or wrote before it was killed."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read)
        try:
            found = work()
            os.write(write, json.dumps(found).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    return status, said


class Killer:
    """Counts statements down, those of one kind or all, and says when to be killed."""

    def __init__(self, after: int, kind: str | None = None, sent: bool = False) -> None:
        self.left = after
        self.kind = kind
        self.sent = sent
        self.armed = False

    def pass_by(self, statement: str) -> bool:
        """Whether this is the one."""
        if not self.armed or self.kind not in (None, kind_of(statement)):
            return False
        self.left -= 1
        if self.left == 0:
            # Read by the parent once the pipe has ended, as this process is about to.
            os.write(self.pipe, json.dumps(kind_of(statement)).encode())
        return self.left == 0

    pipe = 0


def kind_of(statement: str) -> str:
    """The verb of a statement and its table, without what makes each table another."""
    words = re.sub(r"\s+", " ", statement).strip()
    if "WITH moved" in words:
        return "SAVE"
    if "WITH put" in words:
        return "FILL"
    for verb in ("UPDATE", "INSERT INTO", "DELETE FROM", "CREATE TABLE", "DROP TABLE"):
        if words.startswith(verb):
            found = re.search("projections|projection_", words)
            return f"{verb} {found[0] if found else ''}"
    return words.split(" ")[0]


def arm(killer: Killer) -> None:
    """Let every statement of this process pass by the killer."""
    connect, send = Database._connect, Session._send

    def traced(self: Any, timeout: float) -> sqlite3.Connection:
        conn = connect(self, timeout)

        def look(statement: str) -> None:
            if killer.pass_by(statement):
                os.kill(os.getpid(), signal.SIGKILL)

        conn.set_trace_callback(look)
        return conn

    def sent(self: Any, statement: Any, values: Any) -> None:
        last = killer.pass_by(statement.text.decode())
        if last and not killer.sent:
            os.kill(os.getpid(), signal.SIGKILL)
        send(self, statement, values)
        if last:
            self._pgconn.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    Database._connect = traced  # type: ignore[method-assign]
    Session._send = sent  # type: ignore[method-assign]


def project(url: str, what: str, killer: Killer) -> str:
    arm(killer)
    with open_journal(url) as journal:
        killer.armed = True
        if what == "rebuild":
            journal.rebuild(Seen())
        else:
            journal.projection(Seen()).catch_up()
        killer.armed = False
    return "done"


def look(url: str) -> dict[str, Any]:
    with open_journal(url) as journal:
        found = journal.projection(Seen())
        state = found.state()
        return {
            "position": state.position if state else 0,
            "rows": dict(found.rows(limit=1000)),
        }


def main(url: str, what: str, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    crossed: list[str] = []
    looks: list[Any] = []
    ended = 0
    aims = AIMS[url.partition(":")[0], what]
    aimed = itertools.cycle((*aims, None))
    while len(crossed) < kills and ended < kills:
        # The first of them in one round, the second in the next; some come only once.
        nth = 1 + len(looks) // (len(aims) + 1) % 2
        killer = Killer(nth, next(aimed), chance.random() < 0.5)
        read, killer.pipe = os.pipe()
        status, said = forked(lambda killer=killer: project(url, what, killer))
        os.close(killer.pipe)
        with os.fdopen(read, "rb") as pipe:
            point = pipe.read()
        if os.WIFSIGNALED(status) and point:
            crossed.append(json.loads(point))
        else:
            assert (status, said) == (0, b'"done"'), (status, said)
            ended += 1
        status, said = forked(lambda: look(url))
        assert status == 0
        looks.append(json.loads(said))
    status, said = forked(lambda: project(url, what, Killer(-1)))
    assert status == 0
    print(json.dumps({"crossed": crossed, "looks": looks, "aims": aims}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
