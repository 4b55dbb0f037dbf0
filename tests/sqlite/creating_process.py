"""Open one new journal after the other together with others: NAME. Each line on stdin is a URL.

Says for each what became of it.
"""

from __future__ import annotations

import sys

from runjournal import RunStoreError, open_journal


def main(name: str) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            with open_journal(line.strip()) as journal:
                journal.ledger().start(name)
        except RunStoreError as e:
            print(repr(e), flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
