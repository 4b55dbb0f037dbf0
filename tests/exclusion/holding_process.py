"""A process that holds a name until it is told or killed: URL NAME [fork].

`fork`: a child that was forked meanwhile outlives it. Says "held" and the child's process id.
"""

from __future__ import annotations

import os
import sys
import time

from runjournal import RunStoreError, open_journal


def main(url: str, name: str, fork: bool) -> None:
    with open_journal(url) as journal, journal.store.exclusive(name) as hold:
        child = os.fork() if fork else 0
        if fork and not child:
            try:
                hold.check()
            except RunStoreError as e:
                os.write(1, f"child {e.reason}\n".encode())
            time.sleep(60)
            os._exit(0)
        hold.check()
        os.write(1, f"held {child}\n".encode())
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "fork" in sys.argv[3:])
