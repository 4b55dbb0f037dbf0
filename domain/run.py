"""evolve and fold: the one definition of what a run's events mean.

Total: on a known event evolve never raises. Whether something was allowed was decided before it
was written; reading back must not be able to fail for that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from .events import (
    ApprovalDecided,
    CheckpointSaved,
    Event,
    LeaseGranted,
    LeaseReleased,
    ResumeRequested,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunQueued,
    RunSuspended,
)
from .frozen import FrozenDict
from .record import AppliedCommand, CheckpointRef, Lease, RunRecord, Suspension
from .status import RunLifecycleStatus as Status

#: How many operator commands a record remembers.
COMMANDS_KEPT = 32
# What is made for every event is made of validated values, and not validated once more.
_REF_FIELDS = set(CheckpointRef.model_fields)
_LEASE_FIELDS = set(Lease.model_fields)
_APPLIED_FIELDS = set(AppliedCommand.model_fields)
_DEFAULTS = {
    name: field.get_default(call_default_factory=True)
    for name, field in RunRecord.model_fields.items()
    if not field.is_required()
}


def evolve(record: RunRecord | None, event: Event, head: str) -> RunRecord:
    """The record after `event`, whose hash is `head`. `record` is None before the first event."""
    if record is None:
        return _created(event, head)
    return record.changed(_changes(record, event, head))


def _changes(record: RunRecord, event: Event, head: str) -> dict[str, Any]:
    changes = _CHANGES[type(event)](record, event)
    changes["version"] = event.originator_version
    changes["updated_at"] = event.timestamp
    changes["head"] = head
    if event.command_digest is not None:
        changes["commands"] = _remember(record.commands, event)
    return changes


def advance(record: RunRecord | None, event: Event, head: str) -> RunRecord:
    """`evolve` for a fold that owns its record: the one it is given is changed, and is the answer.

    A new record for each of a million events would cost more than everything else about them.
    """
    if record is None:
        return _created(event, head)
    record.__dict__.update(_changes(record, event, head))
    return record


def fold(record: RunRecord | None, events: Iterable[Event]) -> RunRecord | None:
    """The record after all `events`, which carry their hashes as they do when read from a store."""
    own = None if record is None else record.changed({})
    for event in events:
        own = advance(own, event, event.hash)
    return own


def _remember(commands: tuple[AppliedCommand, ...], event: Event) -> tuple[AppliedCommand, ...]:
    if event.command_id is None or event.command_digest is None:
        return commands
    applied = {
        "command_id": event.command_id,
        "version": event.originator_version,
        "digest": event.command_digest,
    }
    return (*commands, AppliedCommand.trusted(applied, _APPLIED_FIELDS))[-COMMANDS_KEPT:]


def _created(event: Event, head: str) -> RunRecord:
    # Only RunQueued opens a stream; anything else is kept readable for verify to name.
    first = event if isinstance(event, RunQueued) else None
    fields = {
        "run_id": event.originator_id.removeprefix("run/"),
        "version": event.originator_version,
        "status": Status.QUEUED,
        "created_at": event.timestamp,
        "updated_at": event.timestamp,
        "start_digest": "",
        "commands": _remember((), event),
        "head": head,
    }
    if first is not None:
        fields |= {
            "kind": first.kind,
            "labels": first.labels,
            "delivery_ref": first.delivery_ref,
            "authority_ref": first.authority_ref,
            "parent_run_id": first.parent_run_id,
            "available_at": first.available_at,
            "start_digest": first.start_digest,
        }
    return RunRecord.trusted(_DEFAULTS | fields, set(fields))


def _queued_again(_record: RunRecord, _event: RunQueued) -> dict[str, Any]:
    return {}


def _granted(_record: RunRecord, event: LeaseGranted) -> dict[str, Any]:
    lease = {
        "owner": event.owner,
        "acquired_at": event.timestamp,
        "expires_at": event.timestamp + timedelta(seconds=event.ttl),
        "ttl": event.ttl,
    }
    return {
        "status": Status.RUNNING,
        "attempt": event.attempt,
        "fencing_token": event.fencing_token,
        "available_at": None,
        "suspension": None,
        "lease": Lease.trusted(lease, _LEASE_FIELDS),
    }


def _checkpointed(_record: RunRecord, event: CheckpointSaved) -> dict[str, Any]:
    ref = {
        "key": event.key,
        "snapshot_version": event.snapshot_version,
        "saved_at": event.timestamp,
        "version": event.originator_version,
        "digest": event.digest,
        "size": event.size,
        "command_id": event.command_id,
    }
    return {"checkpoint_ref": CheckpointRef.trusted(ref, _REF_FIELDS)}


def _suspended(_record: RunRecord, event: RunSuspended) -> dict[str, Any]:
    return {
        "status": Status.SUSPENDED,
        "lease": None,
        "approvals": FrozenDict(dict.fromkeys(event.pending_approval_ids)),
        "suspension": Suspension(
            suspended_at=event.timestamp,
            pending_approval_ids=event.pending_approval_ids,
            resume_when_decided=event.resume_when_decided,
        ),
    }


def _decided(record: RunRecord, event: ApprovalDecided) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "approvals": FrozenDict(record.approvals | {event.approval_id: event.decision})
    }
    if record.suspension is not None:
        pending = record.suspension.pending_approval_ids
        changes["suspension"] = record.suspension.model_copy(
            update={"pending_approval_ids": tuple(a for a in pending if a != event.approval_id)}
        )
    return changes


def _resumable(_record: RunRecord, _event: ResumeRequested) -> dict[str, Any]:
    return {"status": Status.QUEUED, "suspension": None, "available_at": None}


def _released(record: RunRecord, event: LeaseReleased) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "status": Status.QUEUED,
        "lease": None,
        "available_at": event.available_at,
    }
    if event.error is not None:
        changes["failures"] = record.failures + 1
        changes["last_error"] = event.error
    return changes


def _ended(event: RunCompleted | RunFailed | RunCancelled, status: Status) -> dict[str, Any]:
    return {
        "status": status,
        "lease": None,
        "suspension": None,
        "available_at": None,
        "outcome": event.outcome,
        "ended_at": event.timestamp,
    }


def _completed(_record: RunRecord, event: RunCompleted) -> dict[str, Any]:
    return _ended(event, Status.COMPLETED)  # always under the holder's token


def _failed(_record: RunRecord, event: RunFailed) -> dict[str, Any]:
    return _ended(event, Status.FAILED) | {"fencing_token": event.fencing_token}


def _cancelled(_record: RunRecord, event: RunCancelled) -> dict[str, Any]:
    return _ended(event, Status.CANCELLED) | {"fencing_token": event.fencing_token}


_CHANGES: dict[type[Event], Callable[[RunRecord, Any], dict[str, Any]]] = {
    RunQueued: _queued_again,
    LeaseGranted: _granted,
    CheckpointSaved: _checkpointed,
    RunSuspended: _suspended,
    ApprovalDecided: _decided,
    ResumeRequested: _resumable,
    LeaseReleased: _released,
    RunCompleted: _completed,
    RunFailed: _failed,
    RunCancelled: _cancelled,
}
