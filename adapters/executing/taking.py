"""Waiting for a run to be free, and taking its lease."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ...domain.errors import RUN_ALREADY_TERMINAL, RUN_LEASE_HELD, RunStoreError
from ...domain.lease import RunLeaseHandle
from ...domain.ledger import RunLedger
from ...domain.record import RunRecord
from ...domain.status import RunLifecycleStatus as Status
from ..clocks import ticks
from ..journal import Journal

#: Seconds between two looks at a run that is waited for: at first, and at most.
FIRST_LOOK, LAST_LOOK = 0.05, 1.0
#: Seconds between two looks at the interrupt meanwhile.
INTERRUPT_EVERY = 0.2


@dataclass(frozen=True)
class Wanted:
    """The run to take. `arguments` are those of `ledger.start` that were given, for a new run."""

    run_id: str
    arguments: dict[str, Any]


class NotTaken(Exception):  # noqa: N818 - no error: there is nothing to do here, or not now
    """Why there is no lease: the run has completed, it cannot be had now, or a signal came."""

    def __init__(self, why: Literal["completed", "not now", "interrupted"], message: str) -> None:
        super().__init__(message)
        self.why = why


def take(
    journal: Journal,
    ledger: RunLedger,
    wanted: Wanted,
    patience: float,
    interrupted: Callable[[], bool],
) -> RunLeaseHandle:
    """The lease of the wanted run, which is created if it is new.

    patience  seconds to wait while somebody else holds it, it is not due, or the store is busy

    Raises NotTaken; RUN_SUSPENDED; RUN_ALREADY_TERMINAL of a run that failed or was cancelled;
    RUN_CONFLICT when the run exists and was started with other arguments.
    """
    end = ticks() + patience
    pause = FIRST_LOOK
    while True:
        try:
            return _take(journal, ledger, wanted)
        except NotTaken as error:
            if error.why != "not now" or ticks() >= end:
                raise
        except RunStoreError as error:
            if not error.retryable or ticks() >= end:
                raise
        # Many hosts may be waiting for the same run: not all of them in step.
        _sleep(journal, min(pause * random.uniform(0.5, 1), end - ticks()), interrupted)
        pause = min(pause * 2, LAST_LOOK)


def _take(journal: Journal, ledger: RunLedger, wanted: Wanted) -> RunLeaseHandle:
    record = ledger.get(wanted.run_id)
    if record is None or wanted.arguments:
        record = ledger.start(wanted.run_id, **wanted.arguments)
    name = f"run {wanted.run_id!r}"
    if record.status is Status.QUEUED and record.available_at is not None:
        early = (record.available_at - journal.store.now()).total_seconds()
        if early > 0:
            raise NotTaken("not now", f"{name} is not due for another {early:.1f} s")
    try:
        return ledger.acquire(wanted.run_id)
    except RunStoreError as error:
        if (error.code, error.reason) == (RUN_ALREADY_TERMINAL, "completed"):
            raise NotTaken("completed", f"{name} has already completed: nothing to do") from None
        if error.code == RUN_LEASE_HELD and error.record is not None:
            raise NotTaken("not now", f"{name} is {_holder(journal, error.record)}") from None
        raise


def _holder(journal: Journal, record: RunRecord) -> str:
    assert record.lease is not None  # it is held
    left = (record.lease.expires_at - journal.store.now()).total_seconds()
    return f"held by {record.lease.owner!r} for at least {max(0.0, left):.1f} s"


def _sleep(journal: Journal, seconds: float, interrupted: Callable[[], bool]) -> None:
    end = ticks() + seconds
    while (left := end - ticks()) > 0:
        if interrupted():
            raise NotTaken("interrupted", "interrupted while waiting")
        if journal.wait_for_work(min(left, INTERRUPT_EVERY)):
            return
