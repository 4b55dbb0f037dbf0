"""A host that forks while its journal is open and in use: URL. Prints what became of it.

Four children append 100 events each through the journal that they inherited; the parent goes on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from runjournal import Journal, RunLeaseHandle, RunLedger, RunStoreError, open_journal

CHILDREN, EVENTS = 4, 100


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except RunStoreError as e:
        return f"{e.code}/{e.reason}"
    return "accepted"


def child(journal: Journal, ledger: RunLedger, leases: list[RunLeaseHandle], number: int) -> None:
    """Append under leases of its own, through the inherited ledger or a new one."""
    refusals = [refusal(lambda lease=lease: lease.save_checkpoint("child")) for lease in leases]
    refusals += [refusal(lease.renew) for lease in leases]
    mine = ledger if number % 2 else journal.ledger()
    lease = mine.acquire(f"child-{number}")
    for step in range(EVENTS - 3):
        lease.save_checkpoint({"step": step})
    lease.complete({"refusals": refusals, "owner": mine.owner})
    if number < 2:
        journal.close()


def fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def reap(pids: list[int], patience: float) -> list[int | str]:
    """The children's exit codes; one that hangs is killed and said to hang."""
    ended: dict[int, int | str] = {}
    end = time.monotonic() + patience
    while len(ended) < len(pids):
        for pid in set(pids) - set(ended):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                ended[pid] = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                ended[pid] = "hung"
        time.sleep(0.005)
    return [ended[pid] for pid in pids]


def main(url: str) -> None:
    with open_journal(url) as journal:
        ledger = journal.ledger(owner="parent", lease_ttl=30)
        quiet = ledger.acquire("quiet")
        quiet.save_checkpoint({"step": 0})
        busy = ledger.acquire("busy")
        stop = threading.Event()
        written: list[Any] = []

        def keep_writing() -> None:
            while not stop.is_set():
                busy.save_checkpoint({"step": len(written)})
                written.append(None)

        # A thread of the parent is within a write of its own, most probably, at each fork.
        writer = threading.Thread(target=keep_writing)
        writer.start()
        while len(written) < 10:
            time.sleep(0.001)
        pids = [fork(lambda n=n: child(journal, ledger, [quiet, busy], n)) for n in range(CHILDREN)]
        codes = reap(pids, 10)
        at_least = len(written) + 10
        while len(written) < at_least and writer.is_alive():
            time.sleep(0.001)
        stop.set()
        writer.join()
        quiet.save_checkpoint({"step": 1})
        quiet.complete()
        busy.complete()
        print(json.dumps({"codes": codes, "written": len(written)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
