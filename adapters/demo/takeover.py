"""The demo's course: start the run, kill its worker in the middle, let another one carry on.

Nothing here depends on timing. The kill waits for a checkpoint in the journal, the takeover for
the lease to expire, and the end for the run's last event.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from ...domain.checks import refuse
from ...domain.delivery import DeliveryStatus, delivery_invocation_id
from ...domain.events import (
    TERMINAL_EVENTS,
    CheckpointSaved,
    Event,
    LeaseGranted,
    RunCompleted,
)
from ...projections.timeline_parts import Holding
from ..delivery_service import DeliveryService
from ..gateways.json_lines import JsonLinesGateway
from ..journal import Journal
from ..opening import open_journal
from .index import Comparison, Listing, Summary, combine, compare, list_files, summarize
from .worker_process import batches_of

#: Seconds a lease lasts: how long the second worker waits after the kill.
LEASE_TTL = 2.0
#: Seconds between two looks into the journal.
LOOK_EVERY = 0.05
#: Seconds without any news from the journal after which the demo gives up.
PATIENCE = 300.0

Watcher = Callable[[Event], None]


class DemoError(Exception):
    """The demo could not be carried through; the message says why."""


@dataclass(frozen=True)
class Setting:
    """Where the demo takes place: in `db`, or (None) in a temporary file; and with how many.

    pages  the folder for the audit page; None: the system's for temporary files
    """

    db: str | None = None
    schema: str = "public"
    pooler: bool = False
    workers: int = 2
    pages: Path | None = None


@dataclass(frozen=True)
class Delivered:
    """How the result reached the file it was to be delivered to."""

    invocation_id: str
    attempts: int
    lines: int


@dataclass(frozen=True)
class Demonstration:
    """What the demo came to."""

    run_id: str
    root: str
    total: Summary
    workers: tuple[str, ...]
    holdings: tuple[Holding, ...]
    delivered: Delivered
    comparison: Comparison
    page: str


def demonstrate(
    listing: Listing, setting: Setting, watch: Watcher, told: Callable[[str], None]
) -> Demonstration:
    """Carry the demo through.

    watch  called with every event of the run, as it appears in the journal
    told   called with a sentence at each turn of the story
    """
    run_id = f"demo-{uuid4().hex[:8]}"
    workers = tuple(f"worker-{number}" for number in range(1, setting.workers + 1))
    with tempfile.TemporaryDirectory(prefix="runjournal-demo-") as folder:
        url = setting.db or f"sqlite:///{folder}/demo.db"
        digest = listing.save(Path(folder) / "listing.json")
        with open_journal(url, schema=setting.schema, pooler=setting.pooler) as journal:
            journal.ledger(require="cross-process").start(
                run_id,
                kind=run_id,
                input={"listing": f"{folder}/listing.json", "digest": digest},
                delivery_ref=run_id,  # the demo's alone, in whosever journal it runs
                actor="demo",
            )
            # Not as arguments: the list of processes would show everybody the password.
            place = {
                "RUNJOURNAL_DB": url,
                "RUNJOURNAL_SCHEMA": setting.schema,
                "RUNJOURNAL_POOLER": "1" if setting.pooler else "",
            }
            stage = _Stage(journal, place, run_id, watch)
            _kill_and_take_over(stage, workers, listing, told)
            end = list(journal.events(run_id))[-1]
            delivered = _deliver(journal, run_id, Path(folder) / "results.jsonl")
            line, page = journal.timeline(run_id), journal.report([run_id])
    if not isinstance(end, RunCompleted):
        outcome = getattr(end, "outcome", None)
        raise DemoError(f"the run did not complete: {end.topic}, {outcome}")
    told("Indexing once more, uninterrupted and without a journal, to compare.")
    journalled = batches_of(end.result)
    uninterrupted = [summarize(listing.root, batch) for batch in listing.batches]
    return Demonstration(
        run_id,
        listing.root,
        combine(journalled),
        workers,
        line.holdings,
        delivered,
        compare(listing, journalled, uninterrupted),
        page,
    )


def _deliver(journal: Journal, run_id: str, sink: Path) -> Delivered:
    """Deliver the result to a file, by two passes of which the second finds nothing to do."""
    service = DeliveryService(journal, {run_id: JsonLinesGateway(sink)}, leave_others=True)
    service.deliver_due()
    service.deliver_due()
    record = journal.delivery(delivery_invocation_id(run_id, run_id))
    if record is None or record.status is not DeliveryStatus.DELIVERED:
        raise DemoError(f"the result was not delivered: {record and record.error}")
    lines = sink.read_text(encoding="utf-8").splitlines()
    return Delivered(record.invocation_id, record.attempts, len(lines))


def _kill_and_take_over(
    stage: _Stage, workers: Sequence[str], listing: Listing, told: Callable[[str], None]
) -> None:
    first_owner, *others = workers
    pause_after = len(listing.batches) // 2
    with ExitStack() as waiting:
        with stage.worker(first_owner, pause_after) as first:
            stage.wait_until(lambda: stage.held, first)
            # From here on they try again and again, and get nothing.
            rest = [waiting.enter_context(stage.worker(owner)) for owner in others]
            stage.wait_until(lambda: stage.checkpoints >= pause_after, first, *rest)
            first.kill()
            first.wait()
        told(
            f"Killed {first_owner} with SIGKILL after {stage.checkpoints} of "
            f"{len(listing.batches)} checkpoints; {_listed(others)} "
            f"{'wait' if others[1:] else 'waits'} for its lease of {LEASE_TTL:g} s to expire."
        )
        stage.wait_until(lambda: stage.ended, *rest)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


class _Stage:
    """The run as the journal shows it, and the worker processes that act on it."""

    def __init__(
        self, journal: Journal, place: dict[str, str], run_id: str, watch: Watcher
    ) -> None:
        self._journal = journal
        self._place = place
        self._run_id = run_id
        self._watch = watch
        self._version = 0
        self.held = False
        self.checkpoints = 0
        self.ended = False

    @contextmanager
    def worker(
        self, owner: str, pause_after: int | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A worker process; however the block is left, it does not outlive it."""
        command = [
            *(sys.executable, "-m", "runjournal.adapters.demo.worker_process"),
            *("--run", self._run_id, "--owner", owner, "--ttl", str(LEASE_TTL)),
        ]
        if pause_after is not None:
            command += ["--pause-after", str(pause_after)]
        # In a session of its own: Ctrl-C is for the demo alone, which then ends its workers.
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | self._place,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def wait_until(
        self, condition: Callable[[], bool], *processes: subprocess.Popen[bytes]
    ) -> None:
        """Follow the journal until the condition holds; DemoError if it never will."""
        patient_until = time.monotonic() + PATIENCE
        while True:
            # Asked before the journal: what a process wrote before it ended is then seen.
            ended = [p.returncode for p in processes if p.poll() is not None]
            if self._look():
                patient_until = time.monotonic() + PATIENCE
            if condition():
                return
            if ended:
                raise DemoError(f"a worker process ended early, with code {ended[0]}")
            if time.monotonic() > patient_until:
                raise DemoError(f"nothing happened for {PATIENCE:g} s")
            time.sleep(LOOK_EVERY)

    def _look(self) -> bool:
        before = self._version
        for event in self._journal.events(self._run_id, after_version=before):
            self._version = event.originator_version
            self.held = self.held or isinstance(event, LeaseGranted)
            self.checkpoints += isinstance(event, CheckpointSaved)
            self.ended = isinstance(event, TERMINAL_EVENTS)
            self._watch(event)
        return self._version > before


def list_tree(path: Path, limit: int | None) -> Listing:
    """The files to index; RUN_VALIDATION_ERROR when there are none."""
    if not path.is_dir():
        raise refuse("argument", f"{str(path)!r} is not a directory")
    listing = list_files(path.resolve(), limit)
    if not listing.entries:
        raise refuse("argument", f"{str(path)!r} has no files that can be listed")
    return listing
