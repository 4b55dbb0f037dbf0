"""ThreadBeat: renews all leases of one ledger in the background, in one statement a beat."""

from __future__ import annotations

import logging
import threading
import weakref
from math import inf

from ..domain.errors import RunStoreError
from ..domain.lease import RunLeaseHandle
from ..domain.ledger import RunLedger
from .clocks import ticks
from .logs import fields

log = logging.getLogger("runjournal.beat")

#: Seconds the thread stays when there is nothing to renew.
LINGER = 10.0


class ThreadBeat:
    """One daemon thread a ledger, alive while there is a lease to renew and a little longer.

    A thread of its own, so that a handler that blocks its own thread does not lose its lease. A
    beat that fails changes nothing: whether the lease was renewed is unknown then, and the handle
    trusts it no longer than the last answer allowed.
    """

    def __init__(self) -> None:
        self._ledger: weakref.ref[RunLedger] | None = None
        self._handles: dict[RunLeaseHandle, float] = {}
        self._warned: set[RunLeaseHandle] = set()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def attach(self, ledger: RunLedger) -> None:
        """Say whose leases these are; the ledger and its beat know each other."""
        self._ledger = weakref.ref(ledger)

    def watch(self, handle: RunLeaseHandle) -> None:
        ledger = self._ledger() if self._ledger else None
        if ledger is None:
            return
        with self._changed:
            # No need to wake the thread: it looks again within `heartbeat_every` in any case.
            self._handles[handle] = ticks() + ledger.heartbeat_every
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"runjournal-beat-{ledger.owner}", daemon=True
                )
                self._thread.start()

    def unwatch(self, handle: RunLeaseHandle) -> None:
        with self._changed:
            self._handles.pop(handle, None)
            self._warned.discard(handle)

    def stop(self) -> None:
        """Renew nothing any more and end the thread."""
        with self._changed:
            self._handles.clear()
            self._warned.clear()
            self._ledger = None
            self._changed.notify()

    def forget_thread(self) -> None:
        """After a fork: the thread is the parent's, and so are the leases."""
        self._handles = {}
        self._warned = set()
        self._changed = threading.Condition()
        self._thread = None

    def _run(self) -> None:
        idle_since = ticks()
        while True:
            ledger = self._ledger() if self._ledger else None
            with self._changed:
                if self._handles:
                    idle_since = ticks()
                # A worker goes from run to run: starting a thread for each would cost more than
                # the beat itself, so it stays for a while when there is nothing to renew.
                if ledger is None or ticks() - idle_since > LINGER:
                    self._thread = None
                    return
                pause = min(self._handles.values(), default=inf) - ticks()
                if pause > 0:
                    every = ledger.heartbeat_every
                    del ledger
                    self._changed.wait(min(pause, every))
                    continue
                now = ticks()
                due = [h for h, at in self._handles.items() if at <= now]
                self._warn_of_lag({h: now - self._handles[h] for h in due}, ledger.heartbeat_every)
            self._beat(ledger, due)
            del ledger

    def _warn_of_lag(self, lags: dict[RunLeaseHandle, float], bound: float) -> None:
        """Say once of each lease that its beat came a whole interval late, or more."""
        for handle, lag in lags.items():
            if lag > bound and handle not in self._warned:
                self._warned.add(handle)
                log.warning(
                    "run %s: its lease of %g s was due for renewal %.1f s ago: the process stood "
                    "still, a call held the interpreter's lock (GIL), or the store was slow",
                    handle.run_id,
                    handle.ttl,
                    lag,
                    extra=fields(handle),
                )

    def _beat(self, ledger: RunLedger, due: list[RunLeaseHandle]) -> None:
        try:
            ledger.beat_once(due)
        except RunStoreError as e:
            about = fields(error=e, owner=ledger.owner)
            log.warning(
                "renewing %d leases of %s failed: %s", len(due), ledger.owner, e, extra=about
            )
        except Exception as e:
            # The beat must outlive whatever a store does: a dead beat loses every lease.
            about = fields(error=e, owner=ledger.owner)
            log.exception("renewing %d leases of %s failed", len(due), ledger.owner, extra=about)
        with self._changed:
            for handle in due:
                if handle in self._handles:
                    self._handles[handle] = ticks() + ledger.heartbeat_every
