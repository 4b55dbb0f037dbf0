"""The specification of a run, as the seeds and the design say it: a plain dict and plain rules.

A rule gets the run, which is empty while there is none, and changes it or raises Refused. What
it appends to `history` are the events that the run's stream must hold.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

Run = dict[str, Any]
Rule = Callable[[Run, datetime], Any]

TTL = timedelta(seconds=10)
#: So many workers may be lost one after another; whoever takes the run next ends it.
ATTEMPTS = 2
ENDED = ("completed", "failed", "cancelled")


class Refused(Exception):  # noqa: N818 - an answer, not an error of the test
    """The command is refused for this cause. What it may have changed first is written."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(code, reason)


def live(run: Run, now: datetime) -> bool:
    """Whether somebody's lease lasts. Expired means now >= deadline, everywhere."""
    return run["owner"] is not None and now < run["deadline"]


def due(run: Run, now: datetime) -> bool:
    """Whether a claim may have it: queued and available, or abandoned."""
    return bool(run) and run["ready_at"] is not None and bool(run["ready_at"] <= now)


def undecided(run: Run) -> list[str]:
    return [a for a, decision in run["approvals"].items() if decision is None]


# From outside the lease.


def operate(run: Run, now: datetime, command_id: str, rule: Any, *args: Any) -> None:
    """An operator's command. Under the id of one that landed: the first result, and no event."""
    asked = (rule.__name__, *args)
    landed = run.get("commands", {}).get(command_id)
    if landed == asked:
        return
    if landed is not None:
        raise Refused("RUN_CONFLICT", "command_reused")
    before = len(run.get("history", ()))
    rule(run, now, *args)
    if len(run["history"]) > before:
        run["commands"][command_id] = asked


def start(run: Run, now: datetime, delivery_ref: str | None, available_at: Any) -> None:
    arguments = (delivery_ref, available_at)
    if run:
        if run["arguments"] != arguments:
            raise Refused("RUN_CONFLICT", "different_arguments")
        return
    run.update(
        status="queued",
        attempt=1,
        token=0,
        owner=None,
        deadline=None,
        granted_at=None,
        ready_at=available_at or now,
        checkpoint=None,
        approvals={},
        resume_when_decided=False,
        failures=0,
        outcome=None,
        arguments=arguments,
        delivery=None,
        commands={},
        history=["queued"],
    )


def cancel(run: Run, now: datetime, message: str | None) -> None:
    _exists(run)
    if run["status"] == "cancelled":
        return
    _not_ended(run)
    _end(run, now, "cancelled", "cancelled")
    run["token"] += 1


def give_up(run: Run, now: datetime, code: str) -> None:
    """An operator fails a run that nobody is working on."""
    _exists(run)
    if run["status"] == "failed":
        return
    _not_ended(run)
    if live(run, now):
        raise Refused("RUN_LEASE_HELD", "held")
    if run["owner"] is not None:
        run["token"] += 1  # whoever abandoned it may still wake up
    _end(run, now, "failed", code)


def request_resume(run: Run, now: datetime) -> None:
    _exists(run)
    _not_ended(run)
    if run["status"] == "suspended":
        _queue(run, now, "resume_requested")


def record_decision(run: Run, now: datetime, approval: str, decision: str) -> None:
    _exists(run)
    decided = run["approvals"].get(approval)
    if decided == decision:
        return
    if decided is not None:
        raise Refused("RUN_CONFLICT", "different_decision")
    _not_ended(run)
    if run["status"] != "suspended":
        raise Refused("RUN_INVALID_TRANSITION", "not_suspended")
    if approval not in run["approvals"]:
        raise Refused("RUN_VALIDATION_ERROR", "unknown_approval")
    run["approvals"][approval] = decision
    run["history"].append("approval_decided")
    if run["resume_when_decided"] and not undecided(run):
        _queue(run, now, "resume_requested")


# Taking the lease.


def acquire(run: Run, now: datetime, owner: str) -> None:
    if not run:
        start(run, now, None, None)
    _take(run, now, owner, resume=False)


def restore(run: Run, now: datetime, owner: str) -> None:
    _exists(run)
    _take(run, now, owner, resume=True)


def _take(run: Run, now: datetime, owner: str, resume: bool) -> None:
    _not_ended(run)
    if run["status"] == "suspended" and not resume:
        raise Refused("RUN_SUSPENDED", "suspended")
    if live(run, now) and run["owner"] != owner:
        raise Refused("RUN_LEASE_HELD", "held")
    abandoned = run["owner"] is not None and not live(run, now)
    if abandoned and run["attempt"] == ATTEMPTS:
        run["token"] += 1
        _end(run, now, "failed", "attempts_exhausted")
        raise Refused("RUN_LIMIT_EXCEEDED", "attempts")
    if run["status"] == "suspended":
        _queue(run, now, "resume_requested")
    run["attempt"] += abandoned
    run.update(status="running", owner=owner, granted_at=now)
    run["token"] += 1
    _prolong(run, now)
    run["history"].append("lease_granted")


# Under the lease. `token` is the caller's.


def holds(run: Run, now: datetime, token: int) -> None:
    """Why the caller is not the holder, if it is not."""
    if token != run["token"]:
        cancelled = run["status"] == "cancelled" and run["token"] == token + 1
        raise Refused("RUN_LEASE_LOST", "cancelled" if cancelled else "taken_over")
    if run["owner"] is None:
        _not_ended(run)
        raise Refused("RUN_LEASE_LOST", "released")
    if not live(run, now):
        raise Refused("RUN_LEASE_LOST", "expired")


def renew(run: Run, now: datetime, token: int) -> None:
    holds(run, now, token)
    _prolong(run, now)  # no event: a renewal is no fact worth keeping


def save_checkpoint(run: Run, now: datetime, token: int, state: Any) -> None:
    holds(run, now, token)
    run["checkpoint"] = state
    run["history"].append("checkpoint_saved")
    if run["deadline"] - now < TTL / 2:
        _prolong(run, now)


def suspend(run: Run, now: datetime, token: int, approvals: list[str], by_itself: bool) -> None:
    asked = (set(approvals), by_itself)
    waits_for = (set(run["approvals"]), run["resume_when_decided"])
    if token == run["token"] and run["status"] == "suspended" and waits_for == asked:
        return
    holds(run, now, token)
    run["approvals"] = dict.fromkeys(approvals)
    run.update(status="suspended", resume_when_decided=by_itself, ready_at=None)
    _let_go(run)
    run["history"].append("suspended")


def release(run: Run, now: datetime, token: int, error: str | None, available_at: Any) -> None:
    if token == run["token"] and run["owner"] is None:
        return
    holds(run, now, token)
    run["failures"] += error is not None
    _let_go(run)
    _queue(run, now, "lease_released", available_at)


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


def _finish(run: Run, now: datetime, token: int, status: str) -> None:
    if token == run["token"] and run["status"] == status:
        return
    holds(run, now, token)
    _end(run, now, status, "code")


# The delivery of the result: a stream of its own, which never touches the run.


def attempt(run: Run, now: datetime, sender: str) -> bool:
    """Whether the next attempt is the sender's."""
    delivery = _delivery(run)
    if delivery["status"] == "delivered":
        return False
    if delivery["sender"] is not None:
        if now < delivery["due_at"]:
            return False
        raise Refused("RUN_INVALID_TRANSITION", "unreported")
    delivery["attempts"] += 1
    delivery.update(sender=sender, due_at=now + TTL)
    delivery["history"].append("attempted")
    return True


def succeeded(run: Run, now: datetime) -> None:
    """Also from a sender that was given up meanwhile: that the receiver has it is true."""
    delivery = _delivery(run)
    if delivery["status"] != "delivered":
        delivery.update(status="delivered", sender=None, due_at=None)
        delivery["history"].append("succeeded")


def doubted(run: Run, now: datetime, number: int, next_at: datetime | None) -> None:
    delivery = _delivery(run)
    if delivery["sender"] is not None and delivery["attempts"] == number:
        delivery.update(status="unknown", sender=None, due_at=next_at)
        delivery["history"].append("unknown")


def expire(run: Run, now: datetime, next_at: datetime | None) -> None:
    delivery = _delivery(run)
    if delivery["sender"] is not None and now >= delivery["due_at"]:
        doubted(run, now, delivery["attempts"], next_at)


def _delivery(run: Run) -> dict[str, Any]:
    if not run or run["delivery"] is None:
        raise Refused("RUN_NOT_FOUND", "delivery")
    delivery: dict[str, Any] = run["delivery"]
    return delivery


# What the rules share.


def _exists(run: Run) -> None:
    if not run:
        raise Refused("RUN_NOT_FOUND", "run")


def _not_ended(run: Run) -> None:
    if run["status"] in ENDED:
        raise Refused("RUN_ALREADY_TERMINAL", run["status"])


def _prolong(run: Run, now: datetime) -> None:
    run["deadline"] = run["ready_at"] = max(run["deadline"] or now, now + TTL)


def _let_go(run: Run) -> None:
    run.update(owner=None, deadline=None)


def _queue(run: Run, now: datetime, event: str, available_at: Any = None) -> None:
    run.update(status="queued", ready_at=available_at or now)
    run["history"].append(event)


def _end(run: Run, now: datetime, status: str, code: str) -> None:
    _let_go(run)
    run.update(status=status, outcome=code, ready_at=None)
    run["history"].append(status)
    if run["arguments"][0] is not None:
        run["delivery"] = {
            "status": "pending",
            "attempts": 0,
            "sender": None,
            "due_at": now,
            "history": ["requested"],
        }
