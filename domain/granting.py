"""The rules of granting a lease: acquire, take over, restore, claim."""

from __future__ import annotations

from datetime import datetime

from . import commands as c
from . import events as e
from .errors import RUN_LEASE_HELD, RUN_SUSPENDED
from .operating import start
from .record import RunRecord
from .refusals import Events, common, error, missing, raise_terminal, waiting_for
from .status import RunLifecycleStatus as Status


def acquire(record: RunRecord | None, command: c.Acquire, now: datetime) -> Events:
    if record is None:
        if command.start is None:
            raise missing(command)
        (queued,) = start(None, command.start, now)
        return queued, _grant(command, 2, now, token=1, attempt=1)
    if record.is_terminal:
        raise_terminal(record)
    opening: Events = ()
    if record.status is Status.SUSPENDED:
        if not command.resume:
            raise error(
                RUN_SUSPENDED,
                "suspended",
                f"run {record.run_id!r} is suspended, waiting for "
                f"{waiting_for(record)}, and no resume was requested",
                record,
            )
        opening = (e.ResumeRequested(**common(record, command, now)),)
    attempt, took_over = record.attempt, None
    if record.lease is not None:
        abandoned = now >= record.lease.expires_at
        if not abandoned and record.lease.owner != command.owner:
            raise error(
                RUN_LEASE_HELD,
                "held",
                f"run {record.run_id!r} is held by {record.lease.owner!r} until "
                f"{record.lease.expires_at.isoformat()}",
                record,
            )
        took_over = e.TookOver(owner=record.lease.owner, fencing_token=record.fencing_token)
        attempt += abandoned
    grant = _grant(
        command,
        record.version + len(opening) + 1,
        max(now, record.updated_at),
        token=record.fencing_token + 1,
        attempt=attempt,
        took_over=took_over,
    )
    return (*opening, grant)


def _grant(
    command: c.Acquire,
    version: int,
    timestamp: datetime,
    *,
    token: int,
    attempt: int,
    took_over: e.TookOver | None = None,
) -> e.LeaseGranted:
    return e.LeaseGranted(
        originator_id=e.run_stream(command.run_id),
        originator_version=version,
        timestamp=timestamp,
        actor=command.actor,
        command_id=command.command_id,
        owner=command.owner,
        fencing_token=token,
        attempt=attempt,
        ttl=command.ttl,
        took_over=took_over,
    )
