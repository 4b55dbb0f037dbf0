"""Worker: claims runs that are due, hands each to a handler, and writes what became of it.

`run_once` is the seed's runOnce; `run` is the loop for a process of its own. A handler that does
not cooperate is never waited for longer than the grace period: the worker leaves its run to the
lease's expiry and moves on, and whatever that handler writes later is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Protocol

from ..domain.checks import check_integer, check_seconds, refuse
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..domain.lease import RunLeaseHandle
from ..domain.ports import AuthorityResolver
from ..domain.record import RunRecord
from .concluding import SHUTDOWN, Conclusion, abandon, hand_back
from .handling import (
    Handler,
    HandlerCall,
    StopSignal,
    WorkerContext,
    describe,
    is_interruption,
)
from .journal import Journal
from .logs import fields, told
from .retrying import RetryPolicy
from .slots import Slots, WorkerResult
from .stopping import Interrupt, either, stopped_by_signals

log = logging.getLogger("runjournal.worker")


class ResultDelivery(Protocol):
    """What sends the result of a run that has ended to whoever waits for it."""

    def deliver_run(self, record: RunRecord) -> object:
        """Try to deliver; what it raises is logged and changes nothing in the run."""
        ...


class Worker:
    """Runs a handler on whichever run is due.

    handler    called with a WorkerContext in a thread of its own; a coroutine function runs in an
               event loop of its own there. It returns the run's JSON result (completed), raises
               (failed, or tried again by the retry policy; with type and message, never a
               traceback), or ends the lease itself (suspend, release, complete, fail, cancel)
    lease_ttl  seconds a lease lasts without renewal
    grace      seconds a handler that shall stop is waited for
    retry      a RetryPolicy for handlers that raise; without one the first error fails the run
    authority  an AuthorityResolver that is asked about every run; what it gives is
               `ctx.authority`. Where it gives None or raises, the handler is not called and the
               run is put off: queued again for later, which is no failure
    delivery   told of every run that ended and has a delivery_ref

    An interrupt is a detach, never a cancel: the run is released and goes on elsewhere from its
    last checkpoint. So is a handler that raises CancelledError, KeyboardInterrupt or SystemExit.
    A handler that has seen the stop and returns has stopped, not finished: to finish all the
    same it calls `ctx.lease.complete(...)`. A run that was cancelled stays cancelled whatever its
    handler does; an error it raises afterwards is logged.
    """

    def __init__(
        self,
        journal: Journal,
        handler: Handler,
        owner: str | None = None,
        lease_ttl: float | timedelta = 60.0,
        grace: float | timedelta = 10.0,
        *,
        retry: RetryPolicy | None = None,
        authority: AuthorityResolver | None = None,
        delivery: ResultDelivery | None = None,
    ) -> None:
        if not callable(handler):
            raise refuse("argument", f"the handler must be callable, not {handler!r}")
        self._handler = handler
        self._grace = 0.0 if grace == 0 else check_seconds(grace, "grace")
        self._authority = authority
        self._delivery = delivery
        self._conclusion = Conclusion(journal, retry, self._grace)
        self.ledger = journal.ledger(owner=owner, lease_ttl=lease_ttl)
        self.journal = journal

    def run_once(
        self, kinds: Sequence[str] | None = None, interrupt: Interrupt | None = None
    ) -> RunRecord | None:
        """Claim one due run and work on it; the run's record afterwards, None if none was due.

        kinds      only runs of these kinds
        interrupt  an event that, once set, has the run released

        Raises RunStoreError when the store fails; a run it lost meanwhile is no error.
        """
        if interrupt is not None and interrupt.is_set():
            return None
        lease = self.ledger.claim(kinds=kinds)
        return None if lease is None else self._work(lease, StopSignal(), interrupt)

    def run(
        self,
        concurrency: int = 1,
        kinds: Sequence[str] | None = None,
        interrupt: Interrupt | None = None,
        *,
        poll: float | timedelta = 1.0,
        signals: bool = False,
        on_record: Callable[[RunRecord], None] | None = None,
    ) -> WorkerResult:
        """Claim and work on runs until told to stop; what was done, and what was left behind.

        concurrency  how many handlers work at once, 1 to 1000
        kinds        only runs of these kinds
        interrupt    an event that, once set, ends it; None: only signals do
        poll         the longest pause in seconds between two looks for a due run. The first are
                     shorter, and a NOTIFY on Postgres cuts each short
        signals      whether SIGTERM and SIGINT end it; a second one kills the process. Only in
                     the main thread
        on_record    called in this thread with each run's record once it was worked on

        When it ends it claims no more, has every handler told to stop, and returns once each run
        was released, with the reason `shutdown`, or left to its lease's expiry. A store that is
        busy or away for a while is asked again, ever more rarely; it never ends it. Any other
        failure of the store does: RunStoreError, after the handlers were stopped.
        """
        check_integer(concurrency, "concurrency", least=1, most=1000)
        longest = check_seconds(poll, "poll")
        with stopped_by_signals() if signals else nullcontext() as signal_came:
            slots = Slots(
                self.journal,
                claim=lambda limit: self.ledger.claim(kinds, limit=limit),
                work=self._work,
                concurrency=concurrency,
                interrupt=either(interrupt, signal_came),
                poll=longest,
                grace=self._grace,
                on_record=on_record,
            )
            return slots.run()

    def _work(
        self, lease: RunLeaseHandle, stop: StopSignal, interrupt: Interrupt | None = None
    ) -> RunRecord | None:
        with self.journal.observer.handling(self.journal, lease) as ended:
            record = self._work_on(lease, stop, interrupt)
            ended(record)
            if record is not None:
                self._deliver(record)
            return record

    def _work_on(
        self, lease: RunLeaseHandle, stop: StopSignal, interrupt: Interrupt | None
    ) -> RunRecord | None:
        """Call the handler on a claimed run and write how it ended; the record afterwards.

        However it is left, the lease is not renewed any more.
        """
        call = None
        try:
            call = self._begin(lease, stop)
            if call is not None:
                self._see_through(call, interrupt)
        except BaseException as e:
            if is_interruption(e) and call is not None and call.done.is_set():
                hand_back(lease, SHUTDOWN)
            abandon(lease, describe(e))
            raise
        return lease.record if lease.lost is None else self.ledger.get(lease.run_id)

    def _begin(self, lease: RunLeaseHandle, stop: StopSignal) -> HandlerCall | None:
        """Start the handler; None for a run that cannot be read and was set aside."""
        try:
            ctx = WorkerContext(lease, lease.input, lease.checkpoint, stop)
        except RunStoreError as e:
            if e.code != RUN_INTEGRITY_ERROR:
                hand_back(lease, "unreadable")
                raise
            # Into attention, not round and round.
            log.error("run %s was set aside: %s", lease.run_id, e, extra=fields(lease, e))
            lease.release(reason="set aside", error=e.message)
            self.journal.store.set_aside(lease.run_id, e.message)
            return None
        call = HandlerCall(ctx, self._handler, self._authority)
        call.start()
        return call

    def _see_through(self, call: HandlerCall, interrupt: Interrupt | None) -> None:
        try:
            call.watch(self._grace, interrupt)
        except BaseException:  # KeyboardInterrupt in the worker's own thread
            call.ctx.stop.set("interrupted")
            call.done.wait(self._grace)
            raise
        self._conclusion.write(call)

    def _deliver(self, record: RunRecord) -> None:
        if self._delivery is None or record.delivery_ref is None or not record.is_terminal:
            return
        try:
            self._delivery.deliver_run(record)
        except Exception as e:  # noqa: BLE001 - the run has ended, whatever becomes of its result
            about = fields(error=e, run_id=record.run_id, kind=record.kind, version=record.version)
            text = told(describe(e))
            log.warning(
                "run %s: its result was not delivered: %s", record.run_id, text, extra=about
            )
