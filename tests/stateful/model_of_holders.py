"""The specification of what a holder may do under its lease. `token` is the caller's."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .model import (
    EPOCH,
    TTL,
    Refused,
    Run,
    cancel,
    end,
    exists,
    let_go,
    live,
    not_ended,
    note,
    prolong,
    queue,
)


def holds(run: Run, now: datetime, token: int) -> None:
    """Why the caller is not the holder, if it is not."""
    if token != run["token"]:
        cancelled = run["status"] == "cancelled" and _is_next(run["token"], token)
        raise Refused("RUN_LEASE_LOST", "cancelled" if cancelled else "taken_over")
    if run["owner"] is None:
        not_ended(run)
        raise Refused("RUN_LEASE_LOST", "released")
    if not live(run, now):
        raise Refused("RUN_LEASE_LOST", "expired")


def follow(run: Run, now: datetime, token: int, grant: Any, version: int) -> None:
    """Why a holder may not go on whose own last write, at `version`, is not the run's last."""
    if not run or len(run["history"]) < version:
        raise Refused("RUN_LEASE_LOST", "rewound")
    holds(run, now, token)
    if len(run["history"]) == version or grant_of(run) != grant:
        raise Refused("RUN_CONFLICT", "unexpected_version")


def grant_of(run: Run) -> Any:
    """What tells one grant from another, also where a token came twice."""
    return run["owner"], run["granted_at"]


def adopt(run: Run, now: datetime, token: int) -> None:
    exists(run)
    holds(run, now, token)


def renew(run: Run, now: datetime, token: int) -> None:
    holds(run, now, token)
    prolong(run, now)  # no event: a renewal is no fact worth keeping


def save_checkpoint(run: Run, now: datetime, token: int, state: Any) -> None:
    holds(run, now, token)
    run["checkpoint"] = state
    note(run, now, "checkpoint_saved")
    if run["deadline"] - now < TTL / 2:
        prolong(run, now)


def suspend(run: Run, now: datetime, token: int, approvals: list[str], by_itself: bool) -> None:
    asked = (set(approvals), by_itself)
    waits_for = (set(run["approvals"]), run["resume_when_decided"])
    if token == run["token"] and run["status"] == "suspended" and waits_for == asked:
        return
    holds(run, now, token)
    run["approvals"] = dict.fromkeys(approvals)
    run.update(status="suspended", resume_when_decided=by_itself, ready_at=None)
    let_go(run)
    note(run, now, "suspended")


def release(run: Run, now: datetime, token: int, error: str | None, available_at: Any) -> None:
    if token == run["token"] and run["owner"] is None:
        return
    holds(run, now, token)
    run["failures"] += error is not None
    let_go(run)
    queue(run, now, "lease_released", available_at)


def complete(run: Run, now: datetime, token: int) -> None:
    _finish(run, now, token, "completed")


def fail(run: Run, now: datetime, token: int) -> None:
    _finish(run, now, token, "failed")


def cancel_own(run: Run, now: datetime, token: int, again: bool) -> None:
    """`again`: this very holder did it before."""
    if again and run["status"] == "cancelled":
        return
    holds(run, now, token)
    cancel(run, now, None)
    run["by_holder"] = True


def _finish(run: Run, now: datetime, token: int, status: str) -> None:
    if token == run["token"] and run["status"] == status:
        return
    holds(run, now, token)
    end(run, now, status, "code")


def _is_next(token: int, last: int) -> bool:
    return token == last + 1 or (token > last and token % EPOCH == 1)
