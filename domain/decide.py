"""decide: what a command does to a run, as pure rules.

    decide(record, command, now) -> events     () means "already so"
    decide(record, command, now) raises RunStoreError when the run does not allow it

Nothing here reads a clock or a store. `now` is the one instant of the command, and `record` must
carry the lease's current deadline in `lease.expires_at`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

from . import commands as c
from . import events as e
from .errors import (
    RUN_ALREADY_TERMINAL,
    RUN_CONFLICT,
    RUN_INVALID_TRANSITION,
    RUN_LEASE_HELD,
    RUN_LEASE_LOST,
    RUN_NOT_FOUND,
    RUN_SUSPENDED,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from .record import Lease, RunRecord
from .status import RunLifecycleStatus as Status

Events = tuple[e.RunEvent, ...]


def decide(record: RunRecord | None, command: c.Command, now: datetime) -> Events:
    """The events that carry out `command`, or () when the run already is as asked.

    Raises RunStoreError with the record it was decided on; the codes are the rules' (errors.py).
    """
    if isinstance(command, c.OperatorCommand) and record and _repeats(record, command):
        return ()
    return _RULES[type(command)](record, command, now)


def require_holder(record: RunRecord, fencing_token: int, now: datetime) -> Lease:
    """The live lease of this token's holder, else the one reason why it is none.

    Expired means now >= expires_at, also when nobody has taken the run over: a lease that has
    expired is dead for its holder (design 4, case 02).
    """
    name = f"run {record.run_id!r}"
    if record.fencing_token != fencing_token:
        if record.status is Status.CANCELLED and record.fencing_token == fencing_token + 1:
            raise _error(
                RUN_LEASE_LOST,
                "cancelled",
                f"{name} was cancelled while token {fencing_token} held it",
                record,
            )
        holder = f" by {record.lease.owner!r}" if record.lease else ""
        raise _error(
            RUN_LEASE_LOST,
            "taken_over",
            f"{name} was taken over{holder}: token {fencing_token} is stale, "
            f"the run is at {record.fencing_token}",
            record,
        )
    if record.lease is None:
        if record.is_terminal:
            _raise_terminal(record)
        raise _error(
            RUN_LEASE_LOST,
            "released",
            f"{name} is {record.status}: token {fencing_token} gave its lease back",
            record,
        )
    if now >= record.lease.expires_at:
        raise _error(
            RUN_LEASE_LOST,
            "expired",
            f"{name}: the lease of {record.lease.owner!r} (token {fencing_token}) expired at "
            f"{record.lease.expires_at.isoformat()}",
            record,
        )
    return record.lease


def _start(record: RunRecord | None, command: c.Start, now: datetime) -> Events:
    if record is not None:
        if record.start_digest == command.digest():
            return ()
        raise _error(
            RUN_CONFLICT,
            "different_arguments",
            f"run {record.run_id!r} exists and was started with different arguments",
            record,
        )
    return (
        e.RunQueued(
            originator_id=e.run_stream(command.run_id),
            originator_version=1,
            timestamp=now,
            actor=command.actor,
            command_id=command.command_id,
            command_digest=command.digest(),
            kind=command.kind,
            input=command.input,
            authority_ref=command.authority_ref,
            delivery_ref=command.delivery_ref,
            labels=command.labels,
            parent_run_id=command.parent_run_id,
            available_at=command.available_at,
            start_digest=command.digest(),
        ),
    )


def _acquire(record: RunRecord | None, command: c.Acquire, now: datetime) -> Events:
    if record is None:
        if command.start is None:
            raise _missing(command)
        (queued,) = _start(None, command.start, now)
        return queued, _grant(command, 2, now, token=1, attempt=1)
    if record.is_terminal:
        _raise_terminal(record)
    opening: Events = ()
    if record.status is Status.SUSPENDED:
        if not command.resume:
            raise _error(
                RUN_SUSPENDED,
                "suspended",
                f"run {record.run_id!r} is suspended, waiting for "
                f"{_waiting_for(record)}, and no resume was requested",
                record,
            )
        opening = (e.ResumeRequested(**_common(record, command, now)),)
    attempt, took_over = record.attempt, None
    if record.lease is not None:
        abandoned = now >= record.lease.expires_at
        if not abandoned and record.lease.owner != command.owner:
            raise _error(
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


def _save_checkpoint(record: RunRecord | None, command: c.SaveCheckpoint, now: datetime) -> Events:
    record = _held(record, command, now)
    last = record.checkpoint_ref
    if last is not None and last.command_id == command.command_id:
        if last.digest == command.state.digest:
            return ()
        raise _reused(record, command)
    return (
        e.CheckpointSaved(
            originator_id=e.run_stream(record.run_id),
            originator_version=record.version + 1,
            timestamp=max(now, record.updated_at),
            actor=command.actor,
            command_id=command.command_id,
            key=command.key,
            snapshot_version=command.snapshot_version,
            state=command.state,
            digest=command.state.digest,
            size=command.state.size,
        ),
    )


def _suspend(record: RunRecord | None, command: c.Suspend, now: datetime) -> Events:
    if record and _mine(record, command) and record.status is Status.SUSPENDED:
        return ()
    record = _held(record, command, now)
    return (
        e.RunSuspended(
            **_common(record, command, now),
            pending_approval_ids=command.pending_approval_ids,
            resume_when_decided=command.resume_when_decided,
        ),
    )


def _release(record: RunRecord | None, command: c.Release, now: datetime) -> Events:
    if record and _mine(record, command) and record.lease is None:
        return ()  # whatever ended the lease under this token, there is nothing to give back
    record = _held(record, command, now)
    return (
        e.LeaseReleased(
            **_common(record, command, now),
            reason=command.reason,
            error=command.error,
            available_at=command.available_at,
        ),
    )


def _complete(record: RunRecord | None, command: c.Complete, now: datetime) -> Events:
    if record and _mine(record, command) and record.status is Status.COMPLETED:
        return ()
    record = _held(record, command, now)
    return (
        e.RunCompleted(
            **_common(record, command, now),
            outcome=e.Outcome(code=command.code, message=command.message),
            result=command.result,
            digest=command.result.digest,
        ),
    )


def _fail(record: RunRecord | None, command: c.Fail, now: datetime) -> Events:
    if record and _mine(record, command) and record.status is Status.FAILED:
        return ()
    record = _held(record, command, now)
    return (
        e.RunFailed(
            **_common(record, command, now),
            outcome=e.Outcome(code=command.code, message=command.message),
            fencing_token=record.fencing_token,
        ),
    )


def _give_up(record: RunRecord | None, command: c.GiveUp, now: datetime) -> Events:
    record = _existing(record, command)
    if record.status is Status.FAILED:
        return ()
    if record.is_terminal:
        _raise_terminal(record)
    if record.lease is not None and now < record.lease.expires_at:
        raise _error(
            RUN_LEASE_HELD,
            "held",
            f"run {record.run_id!r} is being worked on by {record.lease.owner!r}: only its "
            f"holder can fail it (cancel stops it)",
            record,
        )
    # An abandoned holder may still wake up: the bump makes its token stale by itself.
    token = record.fencing_token + (record.lease is not None)
    return (
        e.RunFailed(
            **_common(record, command, now),
            outcome=e.Outcome(code=command.code, message=command.message),
            fencing_token=token,
        ),
    )


def _cancel(record: RunRecord | None, command: c.Cancel, now: datetime) -> Events:
    record = _existing(record, command)
    if record.status is Status.CANCELLED:
        return ()
    if command.fencing_token is not None:
        require_holder(record, command.fencing_token, now)
    if record.is_terminal:
        _raise_terminal(record)
    return (
        e.RunCancelled(
            **_common(record, command, now),
            outcome=e.Outcome(code="cancelled", message=command.message),
            fencing_token=record.fencing_token + 1,
        ),
    )


def _request_resume(record: RunRecord | None, command: c.RequestResume, now: datetime) -> Events:
    record = _existing(record, command)
    if record.is_terminal:
        _raise_terminal(record)
    if record.status is not Status.SUSPENDED:
        return ()  # queued or running: it already is resumed
    return (e.ResumeRequested(**_common(record, command, now)),)


def _record_decision(
    record: RunRecord | None, command: c.RecordDecision, now: datetime
) -> Events:
    record = _existing(record, command)
    decided = record.approvals.get(command.approval_id)
    if decided is not None:
        if decided == command.decision:
            return ()
        raise _error(
            RUN_CONFLICT,
            "different_decision",
            f"run {record.run_id!r}: approval {command.approval_id!r} was decided as {decided!r}, "
            f"not {command.decision!r}",
            record,
        )
    if record.is_terminal:
        _raise_terminal(record)
    if record.suspension is None:
        raise _error(
            RUN_INVALID_TRANSITION,
            "not_suspended",
            f"run {record.run_id!r} is {record.status} and waits for no decision",
            record,
        )
    pending = record.suspension.pending_approval_ids
    if command.approval_id not in pending:
        raise _error(
            RUN_VALIDATION_ERROR,
            "unknown_approval",
            f"run {record.run_id!r} does not wait for approval {command.approval_id!r} but for "
            f"{_waiting_for(record)}",
            record,
        )
    decision = e.ApprovalDecided(
        **_common(record, command, now),
        approval_id=command.approval_id,
        decision=command.decision,
    )
    if not record.suspension.resume_when_decided or pending != (command.approval_id,):
        return (decision,)
    # The last decision queues the run, in the same append: exactly once, whoever decides last.
    resume = e.ResumeRequested(
        originator_id=decision.originator_id,
        originator_version=decision.originator_version + 1,
        timestamp=decision.timestamp,
        actor=command.actor,
        command_id=command.command_id,
        causation_id=command.command_id,
    )
    return decision, resume


_RULES: dict[type[c.Command], Callable[[RunRecord | None, Any, datetime], Events]] = {
    c.Start: _start,
    c.Acquire: _acquire,
    c.SaveCheckpoint: _save_checkpoint,
    c.Suspend: _suspend,
    c.Release: _release,
    c.Complete: _complete,
    c.Fail: _fail,
    c.GiveUp: _give_up,
    c.Cancel: _cancel,
    c.RequestResume: _request_resume,
    c.RecordDecision: _record_decision,
}


def _common(record: RunRecord, command: c.Command, now: datetime) -> dict[str, Any]:
    operator = isinstance(command, c.OperatorCommand)
    return {
        "originator_id": e.run_stream(record.run_id),
        "originator_version": record.version + 1,
        "timestamp": max(now, record.updated_at),  # stamps never run backwards in a stream
        "actor": command.actor,
        "command_id": command.command_id,
        "command_digest": command.digest() if operator else None,  # type: ignore[attr-defined]
    }


def _repeats(record: RunRecord, command: c.OperatorCommand) -> bool:
    """Whether this very command already landed; the same id for something else is refused."""
    applied = record.applied(command.command_id)
    if applied is None:
        return False
    if applied.digest != command.digest():
        raise _reused(record, command)
    return True


def _mine(record: RunRecord, command: c.HolderCommand) -> bool:
    return record.fencing_token == command.fencing_token


def _held(record: RunRecord | None, command: c.HolderCommand, now: datetime) -> RunRecord:
    record = _existing(record, command)
    require_holder(record, command.fencing_token, now)
    return record


def _existing(record: RunRecord | None, command: c.Command) -> RunRecord:
    if record is None:
        raise _missing(command)
    return record


def _missing(command: c.Command) -> RunStoreError:
    return RunStoreError(RUN_NOT_FOUND, "run", f"run {command.run_id!r} does not exist")


def _reused(record: RunRecord, command: c.Command) -> RunStoreError:
    return _error(
        RUN_CONFLICT,
        "command_reused",
        f"run {record.run_id!r}: command id {command.command_id!r} already stands for a "
        f"different command",
        record,
    )


def _raise_terminal(record: RunRecord) -> NoReturn:
    outcome = f" with {record.outcome.code!r}" if record.outcome else ""
    raise _error(
        RUN_ALREADY_TERMINAL,
        str(record.status),
        f"run {record.run_id!r} has already {_ENDED[record.status]}{outcome}",
        record,
    )


_ENDED = {
    Status.COMPLETED: "completed",
    Status.FAILED: "failed",
    Status.CANCELLED: "been cancelled",
}


def _waiting_for(record: RunRecord) -> str:
    pending = record.suspension.pending_approval_ids if record.suspension else ()
    return ", ".join(map(repr, pending)) or "a resume"


def _error(code: str, reason: str, message: str, record: RunRecord) -> RunStoreError:
    return RunStoreError(code, reason, message, record=record)
