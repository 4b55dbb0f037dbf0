"""One digest over all files of a folder. Kill it at any time, start it again, and it goes on.

python checksum.py RUN_ID FOLDER
"""

from __future__ import annotations

import hashlib
import sys
import time
from pathlib import Path

from runjournal import RunLeaseHandle, RunLedger, RunStoreError, open_journal

#: Seconds that a killed process keeps the run from the next one. Renewed while it lives.
LEASE_TTL = 3.0


def main(run_id: str, folder: str) -> None:
    with open_journal("sqlite:///runjournal.db") as journal:
        ledger = journal.ledger(lease_ttl=LEASE_TTL)
        # The same arguments again change nothing, so every start of the script says this.
        ledger.start(run_id, kind="checksum", input={"folder": folder})
        lease = take(ledger, run_id)
        if lease is not None:
            with lease:
                work(lease)
        print(journal.result(run_id))


def take(ledger: RunLedger, run_id: str) -> RunLeaseHandle | None:
    """The run's lease as soon as nobody else has it; None when the run has ended."""
    while True:
        try:
            return ledger.acquire(run_id)
        except RunStoreError as error:
            if error.code == "RUN_ALREADY_TERMINAL":
                return None
            if error.code != "RUN_LEASE_HELD":
                raise
            time.sleep(0.2)


def work(lease: RunLeaseHandle) -> None:
    state = lease.checkpoint or {"last": "", "files": 0, "digest": ""}
    print("going on after", state["last"] or "nothing", flush=True)
    folder = Path(lease.input["folder"])
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    for name in names:
        if name > state["last"]:
            lease.ensure_held()
            digest = hashlib.sha256(f"{state['digest']} {name} ".encode())
            digest.update((folder / name).read_bytes())
            state = {"last": name, "files": state["files"] + 1, "digest": digest.hexdigest()}
            lease.save_checkpoint(state)
            print(name, flush=True)
    lease.complete({"files": state["files"], "digest": state["digest"]})


if __name__ == "__main__":
    main(*sys.argv[1:])
