"""One worker process of the demo: it waits until it gets the run, and does what is left of it.

python -m runjournal.adapters.demo.worker_process --run ID --owner NAME --ttl SECONDS

The journal is the one that RUNJOURNAL_DB, RUNJOURNAL_SCHEMA and RUNJOURNAL_POOLER name.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from pathlib import Path
from typing import Any

from ..handling import WorkerContext
from ..opening import open_journal
from ..worker import Worker
from .index import Listing, Summary, summarize

#: Seconds between two tries to get the run.
TRY_EVERY = 0.1


def index_tree(ctx: WorkerContext, pause_after: int | None = None) -> dict[str, Any]:
    """Summarise the batches that the last checkpoint lacks, and save a checkpoint after each."""
    listing = Listing.load(Path(ctx.input["listing"]), ctx.input["digest"])
    done: list[dict[str, Any]] = ctx.checkpoint or []
    batches = listing.batches
    while len(done) < len(batches):
        if len(done) == pause_after:
            # This worker is there to be killed in the middle of the job. If it went on, a fast
            # machine could be done before the kill lands; so it stops here, with its lease held
            # and renewed, until it is killed or told to stop.
            ctx.stop.wait()
        ctx.ensure_held()
        done = [*done, summarize(listing.root, batches[len(done)]).to_json()]
        ctx.save_checkpoint(done)
    return {"batches": done}


def batches_of(result: dict[str, Any]) -> list[Summary]:
    """The summaries in a run's result."""
    return [Summary(**batch) for batch in result["batches"]]


def _interrupt_when_orphaned(interrupt: threading.Event) -> None:
    """The demo holds the other end of stdin: when it is gone, however it went, stop as well."""
    sys.stdin.read()
    interrupt.set()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", required=True)
    parser.add_argument("--owner", required=True)
    parser.add_argument("--ttl", type=float, required=True)
    parser.add_argument("--pause-after", type=int)
    given = parser.parse_args()

    interrupt = threading.Event()
    threading.Thread(target=_interrupt_when_orphaned, args=(interrupt,), daemon=True).start()

    def handler(ctx: WorkerContext) -> dict[str, Any]:
        return index_tree(ctx, given.pause_after)

    with open_journal(
        os.environ["RUNJOURNAL_DB"],
        schema=os.environ["RUNJOURNAL_SCHEMA"],
        pooler=bool(os.environ["RUNJOURNAL_POOLER"]),
    ) as journal:
        worker = Worker(journal, handler, owner=given.owner, lease_ttl=given.ttl)
        # The demo's run is the only one of its kind, so that nobody else's run is taken.
        while not interrupt.is_set() and worker.run_once([given.run], interrupt) is None:
            interrupt.wait(TRY_EVERY)


if __name__ == "__main__":
    main()
