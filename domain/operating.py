"""The rules from outside the lease: start, give up, cancel, resume, decide."""

from __future__ import annotations

from datetime import datetime

from . import commands as c
from . import events as e
from .errors import (
    RUN_CONFLICT,
    RUN_INVALID_TRANSITION,
    RUN_LEASE_HELD,
    RUN_VALIDATION_ERROR,
)
from .holding import require_holder
from .record import RunRecord
from .refusals import Events, common, error, existing, raise_terminal, reused, waiting_for
from .status import RunLifecycleStatus as Status


def start(record: RunRecord | None, command: c.Start, now: datetime) -> Events:
    digest = command.digest()
    if record is not None:
        if record.start_digest == digest:
            return ()
        if record.pruned_at is not None:
            raise error(
                RUN_CONFLICT,
                "pruned",
                f"run {record.run_id!r} was started with different arguments, ended at "
                f"{record.updated_at.isoformat()} and was pruned at {record.pruned_at.isoformat()}",
                record,
            )
        raise error(
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
            command_digest=digest,
            kind=command.kind,
            input=command.input,
            authority_ref=command.authority_ref,
            delivery_ref=command.delivery_ref,
            labels=command.labels,
            parent_run_id=command.parent_run_id,
            available_at=command.available_at,
            start_digest=digest,
        ),
    )


def give_up(record: RunRecord | None, command: c.GiveUp, now: datetime) -> Events:
    record = existing(record, command)
    if record.status is Status.FAILED:
        return ()
    if record.is_terminal:
        raise_terminal(record)
    if record.lease is not None and now < record.lease.expires_at:
        raise error(
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
            **common(record, command, now),
            outcome=e.Outcome(code=command.code, message=command.message),
            fencing_token=token,
        ),
    )


def cancel(record: RunRecord | None, command: c.Cancel, now: datetime) -> Events:
    record = existing(record, command)
    if record.status is Status.CANCELLED:
        return ()
    if command.fencing_token is not None:
        require_holder(record, command.fencing_token, now)
    if record.is_terminal:
        raise_terminal(record)
    return (
        e.RunCancelled(
            **common(record, command, now),
            outcome=e.Outcome(code="cancelled", message=command.message),
            fencing_token=record.fencing_token + 1,
        ),
    )


def request_resume(record: RunRecord | None, command: c.RequestResume, now: datetime) -> Events:
    record = existing(record, command)
    if record.is_terminal:
        raise_terminal(record)
    if record.status is not Status.SUSPENDED:
        return ()  # queued or running: it already is resumed
    return (e.ResumeRequested(**common(record, command, now)),)


def record_decision(record: RunRecord | None, command: c.RecordDecision, now: datetime) -> Events:
    record = existing(record, command)
    decided = record.approvals.get(command.approval_id)
    if decided is not None:
        if decided == command.decision:
            return ()
        raise error(
            RUN_CONFLICT,
            "different_decision",
            f"run {record.run_id!r}: approval {command.approval_id!r} was decided as {decided!r}, "
            f"not {command.decision!r}",
            record,
        )
    if record.is_terminal:
        raise_terminal(record)
    if record.suspension is None:
        raise error(
            RUN_INVALID_TRANSITION,
            "not_suspended",
            f"run {record.run_id!r} is {record.status} and waits for no decision",
            record,
        )
    pending = record.suspension.pending_approval_ids
    if command.approval_id not in pending:
        raise error(
            RUN_VALIDATION_ERROR,
            "unknown_approval",
            f"run {record.run_id!r} does not wait for approval {command.approval_id!r} but for "
            f"{waiting_for(record)}",
            record,
        )
    decision = e.ApprovalDecided(
        **common(record, command, now),
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


def repeats(record: RunRecord, command: c.OperatorCommand) -> bool:
    """Whether this very command already landed; the same id for something else is refused."""
    applied = record.applied(command.command_id)
    if applied is None:
        return False
    if applied.digest != command.digest():
        raise reused(record, command)
    return True
