"""A process that opens journals: for each address on stdin, "opened" or what was wrong."""

from __future__ import annotations

import sys

from runjournal import RunStoreError, open_journal


def main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            with open_journal(line.strip()) as journal:
                journal.ledger().start("run")
            print("opened", flush=True)
        except RunStoreError as error:
            print(repr(error), flush=True)


if __name__ == "__main__":
    main()
