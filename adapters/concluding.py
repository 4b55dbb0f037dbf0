"""What becomes of a run when its handler has ended, or did not end when it was told to."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from math import inf

from ..domain.checks import readable
from ..domain.errors import (
    RUN_LEASE_LOST,
    RUN_LIMIT_EXCEEDED,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from ..domain.events import LeaseReleased
from ..domain.lease import RunLeaseHandle
from .clocks import ticks
from .handling import AuthorityUnavailable, HandlerCall, describe, is_interruption
from .journal import Journal
from .logs import fields, told
from .retrying import Pauses, RetryPolicy, growing

log = logging.getLogger("runjournal.worker")

#: Seconds between two tries to write a run's end while the store is away, at first and at most.
WRITE_PAUSES = (0.05, 2.0)
#: The longest pauses of a run whose authority is unavailable, in seconds: the first and the last.
AUTHORITY_PAUSES = (2.0, 600.0)
#: Such releases in a row that are counted, at most: each has two events to read.
AUTHORITY_LOOKS_BACK = 9
NO_AUTHORITY = "authority unavailable"
#: The reason of a release because the worker was told to stop.
SHUTDOWN = "shutdown"


class Conclusion:
    """Writes how handlers ended. `grace` bounds the tries once the worker was told to stop."""

    def __init__(self, journal: Journal, retry: RetryPolicy | None, grace: float) -> None:
        self._journal = journal
        self._retry = retry
        self._grace = grace

    def write(self, call: HandlerCall) -> None:
        """Write how it ended, unless the handler or somebody else already has.

        A store that is away is asked again for as long as the lease can be trusted: hours of work
        must not be lost to a moment's outage. Raises RunStoreError when that was in vain.
        """
        lease, until = call.ctx.lease, inf
        pauses = Pauses(*WRITE_PAUSES)
        while _is_ours(lease):
            try:
                self._write(call)
            except RunStoreError as e:
                if not _is_ours(lease):
                    break
                if call.ctx.stop.reason is not None:
                    until = min(until, ticks() + self._grace)
                if not e.retryable or not lease.held or ticks() >= until:
                    raise
                log.warning(
                    "run %s: its end could not be written yet: %s",
                    lease.run_id,
                    e,
                    extra=fields(lease, e),
                )
                time.sleep(pauses.next())
        if lease.lost is not None:
            _report_late(call, lease.lost)

    def _write(self, call: HandlerCall) -> None:
        ctx, error = call.ctx, call.error
        lease, stop = ctx.lease, ctx.stop
        if not call.done.is_set():
            abandon(lease, f"its handler was told to stop and did not within {self._grace:g} s")
        elif error is None and not stop.seen:
            _complete(lease, call.result)
        elif error is None or is_interruption(error):
            lease.release(reason=SHUTDOWN if stop.reason == "interrupted" else "interrupted")
        elif isinstance(error, AuthorityUnavailable):
            self._put_off(lease, error)
        else:  # also the loss of another run's lease: this one is still ours
            self._failed(lease, error)

    def _failed(self, lease: RunLeaseHandle, error: BaseException) -> None:
        retry, text = self._retry, describe(error)
        failures = lease.record.failures + 1
        if retry is None or isinstance(error, retry.give_up_on):
            lease.fail("handler_error", text)
        elif failures >= retry.max_attempts:
            times = f"{failures} failed attempts" if failures > 1 else "1 failed attempt"
            lease.fail("handler_error", readable(f"gave up after {times}: {text}"))
        else:
            self._release(lease, "handler error", retry.pause(failures), text)

    def _put_off(self, lease: RunLeaseHandle, error: AuthorityUnavailable) -> None:
        text = str(error)
        longest = growing(*AUTHORITY_PAUSES, self._put_off_before(lease) + 1)
        pause = timedelta(seconds=Pauses(longest, longest).next())
        self._release(lease, readable(f"{NO_AUTHORITY}: {text}" if text else NO_AUTHORITY), pause)

    def _put_off_before(self, lease: RunLeaseHandle) -> int:
        """How often in a row, right before this grant, the run was put off: at most so many."""
        after = max(0, lease.record.version - 1 - 2 * AUTHORITY_LOOKS_BACK)
        events = [
            event
            for event in self._journal.events(lease.run_id, after)
            if event.topic != "run.lease_granted"
        ]
        count = 0
        for event in reversed(events):
            reason = event.reason if isinstance(event, LeaseReleased) else None
            if reason is None or not reason.startswith(NO_AUTHORITY):
                break
            count += 1
        return count

    def _release(
        self, lease: RunLeaseHandle, reason: str, pause: timedelta, error: str | None = None
    ) -> None:
        # On the store's clock, for that is what it is judged by.
        available_at = self._journal.store.now() + pause
        lease.release(reason=reason, error=error, available_at=available_at)


def hand_back(lease: RunLeaseHandle, reason: str) -> None:
    """Release the run, or else abandon it. For ways out that must not raise."""
    try:
        lease.release(reason=reason)
    except RunStoreError as e:
        abandon(lease, f"it could not be released: {e}")


def abandon(lease: RunLeaseHandle, why: str) -> None:
    """Leave the run to its lease's expiry, unless it has ended: nothing renews it any more.

    Handing it back would have a second handler start beside the first. What the first writes
    through this lease is refused from now on; a late checkpoint would make the lease last longer.
    """
    term = lease.record.lease
    if lease.lost is not None or term is None:
        return
    until = term.expires_at.isoformat()
    message = f"run {lease.run_id!r} is left to its lease, which expires at {until}: {why}"
    lease.lose(RunStoreError(RUN_LEASE_LOST, "abandoned", message, record=lease.record))


def _is_ours(lease: RunLeaseHandle) -> bool:
    return lease.lost is None and lease.record.lease is not None


def _complete(lease: RunLeaseHandle, result: object) -> None:
    try:
        lease.complete(result)
    except RunStoreError as e:
        if e.code not in (RUN_VALIDATION_ERROR, RUN_LIMIT_EXCEEDED):
            raise
        lease.fail("invalid_result", e.message)


def _report_late(call: HandlerCall, loss: RunStoreError) -> None:
    """The run is not ours any more: its result is the loss, and an error is kept in the log."""
    lease, error = call.ctx.lease, call.error
    log.warning("run %s: %s", lease.run_id, loss, extra=fields(lease, loss))
    if error is not None and not is_interruption(error) and not _is_loss(error):
        text, about = told(describe(error)), fields(lease, error)
        log.warning(
            "run %s: its handler raised after the loss: %s", lease.run_id, text, extra=about
        )


def _is_loss(error: BaseException) -> bool:
    return isinstance(error, RunStoreError) and error.code == RUN_LEASE_LOST
