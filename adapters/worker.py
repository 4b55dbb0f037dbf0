"""Worker: claims one run, hands it to a handler, and writes what became of it.

The seed's runOnce: one run at a time. A handler that does not cooperate is never waited for
longer than the grace period; the worker gives the run up and moves on, and whatever that handler
writes later is fenced.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from ..domain.checks import check_seconds, readable, refuse
from ..domain.errors import (
    RUN_INTEGRITY_ERROR,
    RUN_LEASE_LOST,
    RUN_LIMIT_EXCEEDED,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from ..domain.lease import RunLeaseHandle
from ..domain.record import RunRecord
from .journal import Journal

log = logging.getLogger("runjournal.worker")

#: Seconds between looks at the interrupt and at the lease while a handler works.
LOOK_EVERY = 0.02


class Interrupt(Protocol):
    """What a host hands in to have a worker stop: a threading.Event will do."""

    def is_set(self) -> bool: ...


class RunInterrupted(Exception):  # noqa: N818 - not an error: the handler is asked to stop
    """Raised by `ctx.ensure_held()` when the worker was interrupted: let it pass through."""


class StopSignal:
    """Tells a handler to stop: `reason` is "interrupted", "cancelled" or "lease lost"."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._reason: str | None = None
        self.seen = False

    @property
    def reason(self) -> str | None:
        """Why to stop; None while the handler may go on."""
        return self._reason

    def is_set(self) -> bool:
        """Whether the handler shall stop."""
        self.seen = self.seen or self._set.is_set()
        return self._set.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep up to `timeout` seconds, or until it shall stop; whether it shall."""
        self._set.wait(timeout)
        return self.is_set()

    def set(self, reason: str) -> None:
        """Ask for the stop; the first reason stays."""
        if not self._set.is_set():
            self._reason = reason
            self._set.set()


class WorkerContext:
    """What a handler gets: its run, where to go on from, and when to stop."""

    def __init__(self, lease: RunLeaseHandle, given: Any, checkpoint: Any) -> None:
        self.lease = lease
        self.input = given
        self.checkpoint = checkpoint
        self.stop = StopSignal()

    @property
    def run_id(self) -> str:
        return self.lease.run_id

    @property
    def record(self) -> RunRecord:
        return self.lease.record

    def ensure_held(self) -> None:
        """The gate before the next step.

        Raises RunInterrupted when the worker shall stop, RUN_LEASE_LOST when the run is no longer
        this worker's.
        """
        if self.lease.lost is not None:
            raise self.lease.lost
        if self.stop.is_set():
            raise RunInterrupted(self.stop.reason)
        self.lease.ensure_held()

    def save_checkpoint(
        self, state: Any, key: str = "latest", snapshot_version: int = 1
    ) -> RunRecord:
        """`lease.save_checkpoint`."""
        return self.lease.save_checkpoint(state, key, snapshot_version)

    def invocation_id(self, name: str) -> str:
        """`lease.invocation_id`."""
        return self.lease.invocation_id(name)


Handler = Callable[[WorkerContext], Any]


@dataclass
class _Work:
    """One call of a handler in a thread of its own, and how it ended."""

    ctx: WorkerContext
    handler: Handler
    done: threading.Event = field(default_factory=threading.Event)
    result: Any = None
    error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self.handler(self.ctx)
        except BaseException as e:  # noqa: BLE001 - it is the worker's to judge
            self.error = e
        finally:
            self.done.set()


class Worker:
    """Runs a handler on whichever run is due.

    handler    called with a WorkerContext in a thread of its own. It returns the run's JSON result
               (completed), raises (failed, with type and message, never a traceback), or ends the
               lease itself (suspend, release, complete, fail, cancel)
    lease_ttl  seconds a lease lasts without renewal
    grace      seconds a handler that shall stop is waited for

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
    ) -> None:
        if not callable(handler):
            raise refuse("argument", f"the handler must be callable, not {handler!r}")
        self._handler = handler
        self._grace = 0.0 if grace == 0 else check_seconds(grace, "grace")
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
        if lease is None:
            return None
        try:
            ctx = WorkerContext(lease, lease.input, lease.checkpoint)
        except RunStoreError as e:
            return self._set_aside(lease, e)
        work = _Work(ctx, self._handler)
        threading.Thread(
            target=work.run, name=f"runjournal-handler-{lease.run_id}", daemon=True
        ).start()
        try:
            self._watch(work, interrupt)
        except BaseException:  # KeyboardInterrupt in the worker's own thread
            ctx.stop.set("interrupted")
            work.done.wait(self._grace)
            self._give_back(lease, "interrupted")
            raise
        self._conclude(work)
        return self.ledger.get(lease.run_id)

    def _watch(self, work: _Work, interrupt: Interrupt | None) -> None:
        """Wait for the handler; pass on every reason to stop, then wait no longer than grace."""
        ctx = work.ctx
        while not work.done.wait(LOOK_EVERY):
            lost = ctx.lease.lost
            if lost is not None:
                ctx.stop.set("cancelled" if lost.reason == "cancelled" else "lease lost")
            elif interrupt is not None and interrupt.is_set():
                ctx.stop.set("interrupted")
            elif ctx.record.lease is not None and not ctx.lease.held:
                ctx.stop.set("lease lost")
            if ctx.stop.reason is not None:
                work.done.wait(self._grace)
                return

    def _conclude(self, work: _Work) -> None:
        """Write how it ended, unless the handler or somebody else already has."""
        lease, error = work.ctx.lease, work.error
        if lease.lost is not None:
            self._report_late(work)
            return
        if lease.record.lease is None:
            return
        try:
            if not work.done.is_set():
                self._give_back(lease, f"{work.ctx.stop.reason}, handler did not stop")
            elif error is None and not work.ctx.stop.seen:
                self._complete(lease, work.result)
            elif error is None or _is_interruption(error):
                self._give_back(lease, "interrupted")
            else:  # also the loss of another run's lease: this one is still ours
                lease.fail("handler_error", readable(f"{type(error).__name__}: {error}"))
        except RunStoreError as e:
            if e.code != RUN_LEASE_LOST:
                raise
            self._report_late(work)

    def _complete(self, lease: RunLeaseHandle, result: Any) -> None:
        try:
            lease.complete(result)
        except RunStoreError as e:
            if e.code not in (RUN_VALIDATION_ERROR, RUN_LIMIT_EXCEEDED):
                raise
            lease.fail("invalid_result", e.message)

    def _give_back(self, lease: RunLeaseHandle, reason: str) -> None:
        try:
            lease.release(reason=reason)
        except RunStoreError as e:
            log.warning("run %s could not be released: %s", lease.run_id, e)

    def _report_late(self, work: _Work) -> None:
        """The run is not ours any more: its result is the loss, and an error is kept in the log."""
        lease, error = work.ctx.lease, work.error
        log.warning("run %s: %s", lease.run_id, lease.lost)
        if error is not None and not _is_interruption(error) and not _is_loss(error):
            log.warning(
                "run %s: its handler raised after the loss: %s",
                lease.run_id,
                readable(f"{type(error).__name__}: {error}"),
            )

    def _set_aside(self, lease: RunLeaseHandle, error: RunStoreError) -> RunRecord | None:
        """A run whose input or checkpoint cannot be read: into attention, not round and round."""
        if error.code != RUN_INTEGRITY_ERROR:
            self._give_back(lease, "unreadable")
            raise error
        log.error("run %s was set aside: %s", lease.run_id, error)
        lease.release(reason="set aside", error=error.message)
        self.journal.store.set_aside(lease.run_id, error.message)
        return self.ledger.get(lease.run_id)


def _is_interruption(error: BaseException) -> bool:
    kinds = (RunInterrupted, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
    return isinstance(error, kinds)


def _is_loss(error: BaseException) -> bool:
    return isinstance(error, RunStoreError) and error.code == RUN_LEASE_LOST
