"""The rules of whoever holds the run: checkpoint, suspend, release, complete, fail."""

from __future__ import annotations

from datetime import datetime

from . import commands as c
from . import events as e
from .errors import RUN_LEASE_LOST
from .record import Lease, RunRecord
from .refusals import Events, common, error, existing, missing, raise_terminal, reused
from .status import RunLifecycleStatus as Status
from .tokens import is_next

_CHECKPOINT_FIELDS = set(e.CheckpointSaved.model_fields)
_CHECKPOINT_DEFAULTS = {
    name: field.default
    for name, field in e.CheckpointSaved.model_fields.items()
    if not field.is_required()
}


def require_holder(record: RunRecord, fencing_token: int, now: datetime) -> Lease:
    """The live lease of this token's holder, else the one reason why it is none.

    Expired means now >= expires_at, also when nobody has taken the run over: a lease that has
    expired is dead for its holder (test_case_02).
    """
    name = f"run {record.run_id!r}"
    if record.fencing_token != fencing_token:
        if record.status is Status.CANCELLED and is_next(record.fencing_token, fencing_token):
            raise error(
                RUN_LEASE_LOST,
                "cancelled",
                f"{name} was cancelled while token {fencing_token} held it",
                record,
            )
        holder = f" by {record.lease.owner!r}" if record.lease else ""
        raise error(
            RUN_LEASE_LOST,
            "taken_over",
            f"{name} was taken over{holder}: token {fencing_token} is stale, "
            f"the run is at {record.fencing_token}",
            record,
        )
    if record.lease is None:
        if record.is_terminal:
            raise_terminal(record)
        raise error(
            RUN_LEASE_LOST,
            "released",
            f"{name} is {record.status}: token {fencing_token} gave its lease back",
            record,
        )
    if now >= record.lease.expires_at:
        raise error(
            RUN_LEASE_LOST,
            "expired",
            f"{name}: the lease of {record.lease.owner!r} (token {fencing_token}) expired at "
            f"{record.lease.expires_at.isoformat()}",
            record,
        )
    return record.lease


def save_checkpoint(record: RunRecord | None, command: c.SaveCheckpoint, now: datetime) -> Events:
    if record is None:
        raise missing(command)
    require_holder(record, command.fencing_token, now)
    last = record.checkpoint_ref
    if last is not None and last.command_id == command.command_id:
        if last.digest == command.state.digest:
            return ()
        raise reused(record, command)
    saved = {
        **_CHECKPOINT_DEFAULTS,
        "originator_id": e.RUN_STREAM + record.run_id,
        "originator_version": record.version + 1,
        "timestamp": now if now > record.updated_at else record.updated_at,
        "actor": command.actor,
        "command_id": command.command_id,
        "key": command.key,
        "snapshot_version": command.snapshot_version,
        "state": command.state,
        "digest": command.state.digest,
        "size": len(command.state.data),
    }
    return (e.CheckpointSaved.trusted(saved, _CHECKPOINT_FIELDS),)


def suspend(record: RunRecord | None, command: c.Suspend, now: datetime) -> Events:
    if record and _mine(record, command) and _waits_as_asked(record, command):
        return ()
    record = _held(record, command, now)
    return (
        e.RunSuspended(
            **common(record, command, now),
            pending_approval_ids=command.pending_approval_ids,
            resume_when_decided=command.resume_when_decided,
        ),
    )


def _waits_as_asked(record: RunRecord, command: c.Suspend) -> bool:
    """Another question than the one that was written must not be dropped without a word."""
    return (
        record.suspension is not None
        and record.suspension.resume_when_decided == command.resume_when_decided
        and set(record.approvals) == set(command.pending_approval_ids)
    )


def release(record: RunRecord | None, command: c.Release, now: datetime) -> Events:
    if record and _mine(record, command) and record.lease is None:
        return ()  # whatever ended the lease under this token, there is nothing to give back
    record = _held(record, command, now)
    return (
        e.LeaseReleased(
            **common(record, command, now),
            reason=command.reason,
            error=command.error,
            available_at=command.available_at,
        ),
    )


def complete(record: RunRecord | None, command: c.Complete, now: datetime) -> Events:
    if record and _mine(record, command) and record.status is Status.COMPLETED:
        return ()
    record = _held(record, command, now)
    return (
        e.RunCompleted(
            **common(record, command, now),
            outcome=e.Outcome(code=command.code, message=command.message),
            result=command.result,
            digest=command.result.digest,
        ),
    )


def fail(record: RunRecord | None, command: c.Fail, now: datetime) -> Events:
    if record and _mine(record, command) and record.status is Status.FAILED:
        return ()
    record = _held(record, command, now)
    return (
        e.RunFailed(
            **common(record, command, now),
            outcome=e.Outcome(code=command.code, message=command.message),
            fencing_token=record.fencing_token,
        ),
    )


def _mine(record: RunRecord, command: c.HolderCommand) -> bool:
    return record.fencing_token == command.fencing_token


def _held(record: RunRecord | None, command: c.HolderCommand, now: datetime) -> RunRecord:
    record = existing(record, command)
    require_holder(record, command.fencing_token, now)
    return record
