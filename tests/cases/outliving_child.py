"""A host that forks, and closes its journal while its child still writes: URL.

Prints how many events the child was told are written.
"""

from __future__ import annotations

import os
import sys
import traceback

from runjournal import Journal, open_journal


def child(journal: Journal, to_parent: int, from_parent: int) -> None:
    lease = journal.ledger().acquire("child")
    for step in range(50):
        lease.save_checkpoint({"step": step})
    os.write(to_parent, b"x")
    os.read(from_parent, 1)
    for step in range(50, 100):
        lease.save_checkpoint({"step": step})
    print(lease.complete().version, flush=True)


def main(url: str) -> None:
    journal = open_journal(url)
    journal.ledger().acquire("parent").complete()
    to_parent, to_child = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            child(journal, to_parent[1], to_child[0])
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(to_parent[1])
    os.read(to_parent[0], 1)
    journal.close()
    with open_journal(url) as again:
        again.ledger().start("in between")
    os.write(to_child[1], b"x")
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
