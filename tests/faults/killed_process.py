"""Forks a process for each line of stdin that lives a run and kills itself at one spot: URL ACKS.

A line is a run's id, a boundary's number and "before" or "after". Acknowledgements are appended to
the file ACKS, one JSON line each, before the next step. Prints how each process ended: -9 when it
was killed. One process forks them all, because starting Python takes longer than most lives.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

# Loaded once, for all.
import runjournal.adapters.postgres.store
import runjournal.adapters.sqlite.store  # noqa: F401
from runjournal import open_journal

from tests.faults.checker import Ack
from tests.faults.failpoints import Failpoints, When, watch_postgres, watch_sqlite
from tests.faults.life import Life


def live(url: str, acks: str, run_id: str, number: int, when: When) -> None:
    log = os.open(acks, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(ack: Ack) -> None:
        os.write(log, json.dumps({"ack": ack}).encode() + b"\n")

    def receive(invocation_id: str) -> None:
        os.write(log, json.dumps({"received": invocation_id}).encode() + b"\n")

    points = Failpoints()
    watch_sqlite(points, setattr)
    watch_postgres(points, setattr)
    points.choose(number, when, lambda _fail: os.kill(os.getpid(), signal.SIGKILL))
    with open_journal(url) as journal:
        points.on = True
        Life(journal, run_id, f"first of {run_id}", note, receive).go_on()


def main(url: str, acks: str) -> None:
    for line in sys.stdin:
        run_id, number, when = line.split()
        child = os.fork()
        if not child:
            try:
                live(url, acks, run_id, int(number), "before" if when == "before" else "after")
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
