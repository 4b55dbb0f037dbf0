"""What the deployment's limits make of decided events: let them pass, refuse them, end the run.

end, cancel, release   always pass: whatever the limits, a run can be let go of and ended
grant                  refused if the run is beyond what this host allows; where attempts or
                       time are used up, the run's end takes its place
everything else        refused if it leads beyond the limit on events
"""

from __future__ import annotations

from datetime import datetime
from typing import NoReturn

from . import commands as c
from . import events as e
from .limits import DeploymentLimits, label_bytes
from .record import RunRecord
from .refusals import Events, common, raise_terminal

#: The outcome of a run that a limit has ended, by the limit.
OUTCOMES = {"attempts": "attempts_exhausted", "run_seconds": "duration_exhausted"}
_ALWAYS_PASS = (c.Complete, c.Fail, c.GiveUp, c.Cancel, c.Release)


def limit(
    record: RunRecord,
    command: c.Command,
    events: Events,
    now: datetime,
    limits: DeploymentLimits,
) -> Events:
    """The events to write, within the limits. `record` is as it was before them."""
    if isinstance(command, _ALWAYS_PASS):
        return events
    if isinstance(command, c.Acquire):
        grant = events[-1]
        assert isinstance(grant, e.LeaseGranted)  # an acquisition ends with one
        ending = _ending(record, command, grant, now, limits)
        if ending is not None:
            return (ending,)
        _check_recovery(record, limits)
    # A version is the number of events, so this is free on the path of a checkpoint.
    version = record.version + len(events)
    if version > limits.events_per_run:
        raise limits.exceeded("events_per_run", version, record.run_id, record)
    if isinstance(command, c.SaveCheckpoint):
        age = (now - record.created_at).total_seconds()
        if age > limits.run_seconds:
            raise limits.exceeded("run_seconds", age, record.run_id, record)
    return events


def raise_ended(record: RunRecord, limits: DeploymentLimits) -> NoReturn:
    """Tell the taker of a run why it has ended instead."""
    code = record.outcome.code if record.outcome else None
    if code == OUTCOMES["attempts"]:
        raise limits.exceeded("attempts", record.attempt + 1, record.run_id, record)
    if code == OUTCOMES["run_seconds"] and record.ended_at is not None:
        age = (record.ended_at - record.created_at).total_seconds()
        raise limits.exceeded("run_seconds", age, record.run_id, record)
    raise_terminal(record)  # its reply was lost, and others were there meanwhile


def _ending(
    record: RunRecord,
    command: c.Acquire,
    grant: e.LeaseGranted,
    now: datetime,
    limits: DeploymentLimits,
) -> e.RunFailed | None:
    """The end of a run that has used up its attempts or its time; None if it may go on."""
    age = (max(now, record.updated_at) - record.created_at).total_seconds()
    if record.attempt <= limits.attempts < grant.attempt:
        used_up, error = "attempts", limits.exceeded("attempts", grant.attempt, record.run_id)
    elif age > limits.run_seconds:
        used_up, error = "run_seconds", limits.exceeded("run_seconds", age, record.run_id)
    else:
        return None
    stamp = common(record, command, now) | {"actor": command.actor or command.owner}
    return e.RunFailed(
        **stamp,
        outcome=e.Outcome(code=OUTCOMES[used_up], message=error.message),
        fencing_token=record.fencing_token + 1,  # a lost holder may still wake up
    )


def _check_recovery(record: RunRecord, limits: DeploymentLimits) -> None:
    """Refuse a run that another host let grow beyond what this one allows."""
    checkpoint = record.checkpoint_ref
    found = {
        "checkpoint_bytes": checkpoint.size if checkpoint else 0,
        "labels": len(record.labels),
        "label_bytes": label_bytes(record.labels),
        "approvals": len(record.approvals),
        "attempts": record.attempt,
    }
    for name, actual in found.items():
        limits.check(name, actual, record.run_id, record)
