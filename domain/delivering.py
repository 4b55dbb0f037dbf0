"""The rules of a delivery: who may try, and what an attempt's end means. Pure, as `decide` is.

    decide_delivery(record, command, now) -> events     () means "already so"

Nothing that is sent is lost from sight: an attempt whose sender never reported becomes `unknown`
before anybody tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from .delivery import (
    DeliveryAttempted,
    DeliveryEvent,
    DeliveryRecord,
    DeliveryStatus,
    DeliverySucceeded,
    DeliveryUnknown,
    delivery_stream,
)
from .errors import RUN_INVALID_TRANSITION, RUN_LEASE_HELD, RunStoreError


@dataclass(slots=True, kw_only=True)
class DeliveryCommand:
    command_id: str
    actor: str | None = None


@dataclass(slots=True, kw_only=True)
class Attempt(DeliveryCommand):
    """Claim the next attempt for `ttl` seconds."""

    owner: str
    ttl: float


@dataclass(slots=True, kw_only=True)
class Succeed(DeliveryCommand):
    """The receiver has it, says the sender of this attempt."""

    attempt: int


@dataclass(slots=True, kw_only=True)
class Doubt(DeliveryCommand):
    """This attempt failed, or nobody knows what became of it; fields as for DeliveryUnknown."""

    attempt: int
    error: str
    definite: bool
    next_attempt_at: datetime | None


def decide_delivery(
    record: DeliveryRecord, command: DeliveryCommand, now: datetime
) -> tuple[DeliveryEvent, ...]:
    """The events that carry out `command`, or () when the delivery already is as asked.

    Raises RUN_LEASE_HELD / held while somebody else is sending it, RUN_INVALID_TRANSITION /
    unreported while an attempt that ran out has not been recorded as unknown.
    """
    return _RULES[type(command)](record, command, now)


def _attempt(record: DeliveryRecord, command: Attempt, now: datetime) -> tuple[DeliveryEvent, ...]:
    if record.status is DeliveryStatus.DELIVERED:
        return ()
    if record.sending is not None:
        owner, until = record.sending.owner, record.sending.expires_at
        if now < until:
            raise RunStoreError(
                RUN_LEASE_HELD,
                "held",
                f"delivery {record.invocation_id} of run {record.run_id!r} is being sent by "
                f"{owner!r} until {until.isoformat()}",
            )
        raise RunStoreError(
            RUN_INVALID_TRANSITION,
            "unreported",
            f"delivery {record.invocation_id} of run {record.run_id!r}: {owner!r} did not report "
            f"on attempt {record.attempts}",
        )
    stamp = max(now, record.updated_at)
    return (
        DeliveryAttempted(
            **_common(record, command, now),
            attempt=record.attempts + 1,
            owner=command.owner,
            expires_at=stamp + timedelta(seconds=command.ttl),
        ),
    )


def _succeed(record: DeliveryRecord, command: Succeed, now: datetime) -> tuple[DeliveryEvent, ...]:
    # Also from a sender whose attempt was given up meanwhile: that the receiver has it is true.
    if record.status is DeliveryStatus.DELIVERED:
        return ()
    return (DeliverySucceeded(**_common(record, command, now), attempt=command.attempt),)


def _doubt(record: DeliveryRecord, command: Doubt, now: datetime) -> tuple[DeliveryEvent, ...]:
    if record.sending is None or record.attempts != command.attempt:
        return ()  # delivered, or this attempt's end is already on record
    return (
        DeliveryUnknown(
            **_common(record, command, now),
            attempt=command.attempt,
            error=command.error,
            definite=command.definite,
            next_attempt_at=command.next_attempt_at,
        ),
    )


_RULES: dict[
    type[DeliveryCommand], Callable[[DeliveryRecord, Any, datetime], tuple[DeliveryEvent, ...]]
] = {Attempt: _attempt, Succeed: _succeed, Doubt: _doubt}


def _common(record: DeliveryRecord, command: DeliveryCommand, now: datetime) -> dict[str, Any]:
    return {
        "originator_id": delivery_stream(record.invocation_id),
        "originator_version": record.version + 1,
        "timestamp": max(now, record.updated_at),  # stamps never run backwards in a stream
        "actor": command.actor,
        "command_id": command.command_id,
    }
