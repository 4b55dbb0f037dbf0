"""The specification of a result's delivery: a stream of its own, which never touches the run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from .model import TTL, Refused, Run


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
    _note(delivery, now, "attempted")
    delivery.update(sender=sender, due_at=delivery["stamp"] + TTL)
    return True


def succeeded(run: Run, now: datetime) -> None:
    """Also from a sender that was given up meanwhile: that the receiver has it is true."""
    delivery = _delivery(run)
    if delivery["status"] != "delivered":
        delivery.update(status="delivered", sender=None, due_at=None)
        _note(delivery, now, "succeeded")


def doubted(run: Run, now: datetime, number: int, next_at: datetime | None) -> None:
    delivery = _delivery(run)
    if delivery["sender"] is not None and delivery["attempts"] == number:
        delivery.update(status="unknown", sender=None, due_at=next_at)
        _note(delivery, now, "unknown")


def expire(run: Run, now: datetime, next_at: datetime | None) -> None:
    delivery = _delivery(run)
    if delivery["sender"] is not None and now >= delivery["due_at"]:
        doubted(run, now, delivery["attempts"], next_at)


def _delivery(run: Run) -> dict[str, Any]:
    if not run or run["delivery"] is None:
        raise Refused("RUN_NOT_FOUND", "delivery")
    delivery: dict[str, Any] = run["delivery"]
    return delivery


def _note(delivery: dict[str, Any], now: datetime, event: str) -> None:
    delivery["history"].append(event)
    delivery["stamp"] = max(now, delivery["stamp"])
