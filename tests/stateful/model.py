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
#: Tokens of each epoch; the next epoch's are all above them.
EPOCH = 2**32


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


def in_epoch(before: Run, after: Run, epoch: int) -> None:
    """A token that is new is of the journal's epoch, or of one that the run had already.

    Nobody is granted the one that a holder's own cancellation makes: there it may be either.
    """
    by_holder = after.pop("by_holder", False)
    if after.get("token", 0) != before.get("token", 0):
        if by_holder:
            after["token_or"] = after["token"]
        after["token"] = max(after["token"], epoch * EPOCH + 1)


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


def start(
    run: Run, now: datetime, delivery_ref: str | None, available_at: Any, parent: str | None
) -> None:
    arguments = (delivery_ref, available_at, parent)
    if run:
        if run["arguments"] != arguments:
            raise Refused("RUN_CONFLICT", "pruned" if run["pruned"] else "different_arguments")
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
        parent=parent,
        delivery=None,
        pruned=False,
        commands={},
        stamp=now,
        history=["queued"],
    )


def cancel(run: Run, now: datetime, message: str | None) -> None:
    exists(run)
    if run["status"] == "cancelled":
        return
    not_ended(run)
    end(run, now, "cancelled", "cancelled")
    run["token"] += 1


def give_up(run: Run, now: datetime, code: str) -> None:
    """An operator fails a run that nobody is working on."""
    exists(run)
    if run["status"] == "failed":
        return
    not_ended(run)
    if live(run, now):
        raise Refused("RUN_LEASE_HELD", "held")
    if run["owner"] is not None:
        run["token"] += 1  # whoever abandoned it may still wake up
    end(run, now, "failed", code)


def request_resume(run: Run, now: datetime) -> None:
    exists(run)
    not_ended(run)
    if run["status"] == "suspended":
        queue(run, now, "resume_requested")


def record_decision(run: Run, now: datetime, approval: str, decision: str) -> None:
    exists(run)
    decided = run["approvals"].get(approval)
    if decided == decision:
        return
    if decided is not None:
        raise Refused("RUN_CONFLICT", "different_decision")
    not_ended(run)
    if run["status"] != "suspended":
        raise Refused("RUN_INVALID_TRANSITION", "not_suspended")
    if approval not in run["approvals"]:
        raise Refused("RUN_VALIDATION_ERROR", "unknown_approval")
    run["approvals"][approval] = decision
    note(run, now, "approval_decided")
    if run["resume_when_decided"] and not undecided(run):
        queue(run, now, "resume_requested")


# Taking the lease.


def acquire(run: Run, now: datetime, owner: str) -> None:
    if not run:
        start(run, now, None, None, None)
    _take(run, now, owner, resume=False)


def restore(run: Run, now: datetime, owner: str) -> None:
    exists(run)
    _take(run, now, owner, resume=True)


def _take(run: Run, now: datetime, owner: str, resume: bool) -> None:
    not_ended(run)
    if run["status"] == "suspended" and not resume:
        raise Refused("RUN_SUSPENDED", "suspended")
    if live(run, now) and run["owner"] != owner:
        raise Refused("RUN_LEASE_HELD", "held")
    abandoned = run["owner"] is not None and not live(run, now)
    if abandoned and run["attempt"] == ATTEMPTS:
        run["token"] += 1
        end(run, now, "failed", "attempts_exhausted")
        raise Refused("RUN_LIMIT_EXCEEDED", "attempts")
    if run["status"] == "suspended":
        queue(run, now, "resume_requested")
    run["attempt"] += abandoned
    run["token"] += 1
    note(run, now, "lease_granted")
    # A new lease: what was left of an older one does not count, wherever the clock was set to.
    run.update(status="running", owner=owner, granted_at=run["stamp"])
    run["deadline"] = run["ready_at"] = now + TTL


# What the rules share.


def exists(run: Run) -> None:
    if not run:
        raise Refused("RUN_NOT_FOUND", "run")


def not_ended(run: Run) -> None:
    if run["status"] in ENDED:
        raise Refused("RUN_ALREADY_TERMINAL", run["status"])


def note(run: Run, now: datetime, event: str) -> None:
    """Stamps never run backwards in a stream, whatever the clock does."""
    run["history"].append(event)
    run["stamp"] = max(now, run["stamp"])


def prolong(run: Run, now: datetime) -> None:
    run["deadline"] = run["ready_at"] = max(run["deadline"], now + TTL)


def let_go(run: Run) -> None:
    run.update(owner=None, deadline=None)


def queue(run: Run, now: datetime, event: str, available_at: Any = None) -> None:
    run.update(status="queued", ready_at=available_at or now)
    note(run, now, event)


def end(run: Run, now: datetime, status: str, code: str) -> None:
    let_go(run)
    run.update(status=status, outcome=code, ready_at=None)
    note(run, now, status)
    if run["arguments"][0] is not None:
        run["delivery"] = {
            "status": "pending",
            "attempts": 0,
            "sender": None,
            "due_at": run["stamp"],
            "stamp": run["stamp"],
            "history": ["requested"],
        }
