"""The loop of a worker: claims runs up to its free slots, and waits between two looks.

One thread claims, and each claimed run has a slot: a thread that watches its handler (which runs
in yet another one), writes how it ended and delivers its result. So nothing that one run does
holds up the claims or another run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from ..domain.errors import RunStoreError
from ..domain.lease import RunLeaseHandle
from ..domain.record import RunRecord
from .clocks import ticks
from .concluding import abandon
from .handling import StopSignal, describe
from .journal import Journal
from .logs import fields
from .retrying import Pauses
from .stopping import LOOK_EVERY, Interrupt, idle

log = logging.getLogger("runjournal.worker")

#: Seconds that an idle worker waits at first; it doubles up to `poll`.
FIRST_PAUSE = 0.05
#: Seconds between two claims after the store failed, at first and at most.
FAILURE_PAUSES = (0.1, 10.0)
#: Seconds beyond twice the grace in which a slot must have ended once it was told to stop.
LAST_WRITES = 1.0


@dataclass(frozen=True)
class WorkerResult:
    """What `Worker.run` did.

    runs       how many runs it worked on; a run that came back counts each time
    abandoned  ids of the runs that were left to their lease's expiry when it ended, because the
               handler did not stop within the grace period, or the store was away
    """

    runs: int
    abandoned: tuple[str, ...]


@dataclass(eq=False)
class _Slot:
    """One claimed run, and what came of it."""

    lease: RunLeaseHandle
    stop: StopSignal = field(default_factory=StopSignal)
    record: RunRecord | None = None
    error: RunStoreError | None = None


class Slots:
    """One call of `Worker.run`."""

    def __init__(
        self,
        journal: Journal,
        *,
        claim: Callable[[int], list[RunLeaseHandle]],
        work: Callable[[RunLeaseHandle, StopSignal], RunRecord | None],
        concurrency: int,
        interrupt: Interrupt,
        poll: float,
        grace: float,
        on_record: Callable[[RunRecord], None] | None,
    ) -> None:
        self._journal = journal
        self._claim = claim
        self._work = work
        self._concurrency = concurrency
        self._interrupt = interrupt
        self._grace = grace
        self._on_record = on_record
        self._idle_pauses = Pauses(min(FIRST_PAUSE, poll), poll)
        self._failure_pauses = Pauses(*FAILURE_PAUSES)
        self._taken: set[_Slot] = set()
        self._ended: SimpleQueue[_Slot] = SimpleQueue()
        self._failure: RunStoreError | None = None
        self._runs = 0

    def run(self) -> WorkerResult:
        """Claim and work until the interrupt is set; raises what is no passing failure."""
        try:
            while not self._interrupt.is_set():
                self._collect()
                if self._failure is None:
                    self._take()
                else:
                    self._wait_after(self._failure)
        except BaseException:
            self._on_record = None  # it may be what has failed
            self._stop()
            raise
        return WorkerResult(self._runs, self._stop())

    def _take(self) -> None:
        """Claim up to the free slots in one trip, and wait where there was too little to do."""
        free = self._concurrency - len(self._taken)
        if free == 0:
            self._collect(wait=LOOK_EVERY)
            return
        try:
            leases = self._claim(free)
        except RunStoreError as e:
            if not e.retryable:
                raise
            self._failure = e
            return
        for lease in leases:
            self._start(lease)
        if leases:
            self._idle_pauses.reset()
        else:
            self._failure_pauses.reset()
        if len(leases) < free:
            self._wait_for_work()

    def _start(self, lease: RunLeaseHandle) -> None:
        slot = _Slot(lease)
        self._taken.add(slot)
        self._runs += 1
        name = f"runjournal-slot-{lease.run_id}"
        threading.Thread(target=self._fill, args=[slot], name=name, daemon=True).start()

    def _fill(self, slot: _Slot) -> None:
        """The slot's thread. One run's trouble ends neither the worker nor another run."""
        try:
            slot.record = self._work(slot.lease, slot.stop)
        except RunStoreError as e:
            slot.error = e
        except BaseException as e:
            log.exception("run %s", slot.lease.run_id, extra=fields(slot.lease, e))
            abandon(slot.lease, describe(e))
        finally:
            self._ended.put(slot)

    def _collect(self, wait: float = 0.0) -> list[_Slot]:
        """The slots that have ended, waiting up to `wait` seconds for the first."""
        ended: list[_Slot] = []
        while True:
            try:
                slot = self._ended.get(block=wait > 0, timeout=wait)
            except Empty:
                return ended
            wait = 0.0
            ended.append(slot)
            self._taken.discard(slot)
            # Not reset by a claim that found something: what follows it may fail time and again.
            self._failure = slot.error
            if slot.error is None:
                self._failure_pauses.reset()
            if slot.record is not None and self._on_record is not None:
                self._on_record(slot.record)

    # Waiting.

    def _wait_for_work(self) -> None:
        """Wait for the next look, or until one is worth it."""
        end = ticks() + self._idle_pauses.next()
        while (left := end - ticks()) > 0 and not self._interrupt.is_set():
            told = self._journal.wait_for_work(min(left, LOOK_EVERY))
            if told or not self._ended.empty():
                self._idle_pauses.reset()
                return

    def _wait_after(self, failure: RunStoreError) -> None:
        self._failure = None
        pause = self._failure_pauses.next()
        log.warning(
            "the store failed, trying again in %.1f s: %s/%s: %s",
            pause,
            failure.code,
            failure.reason,
            failure,
            extra=fields(error=failure, pause=pause),
        )
        idle(self._interrupt, pause)

    # Ending.

    def _stop(self) -> tuple[str, ...]:
        """Have every handler stop; the ids of the runs that had to be abandoned."""
        self._collect()
        for slot in self._taken:
            slot.stop.set("interrupted")
        end = ticks() + 2 * self._grace + LAST_WRITES
        ended: list[_Slot] = []
        try:
            while self._taken and (left := end - ticks()) > 0:
                ended += self._collect(wait=left)
        finally:
            for slot in self._taken:
                abandon(slot.lease, "its end could not be written in time")
                log.warning(
                    "run %s: its slot was left behind",
                    slot.lease.run_id,
                    extra=fields(slot.lease),
                )
        lost = ((slot.lease.run_id, slot.lease.lost) for slot in [*ended, *self._taken])
        return tuple(sorted(name for name, loss in lost if loss and loss.reason == "abandoned"))
