"""decide: what a command does to a run, as pure rules.

    decide(record, command, now, limits, epoch) -> events     () means "already so"
    decide(record, command, now, limits, epoch) raises RunStoreError when the run does not allow it

Nothing here reads a clock or a store. `now` is the one instant of the command, and `record` must
carry the lease's current deadline in `lease.expires_at`. An acquisition may be answered with the
run's end, where the deployment's limits leave no more. `epoch` is the journal's token epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from . import commands as c
from . import granting, holding, operating
from .limiting import limit
from .limits import DeploymentLimits
from .record import RunRecord
from .refusals import Events
from .tokens import in_epoch

_RULES: dict[type[c.Command], Callable[[RunRecord | None, Any, datetime], Events]] = {
    c.Start: operating.start,
    c.Acquire: granting.acquire,
    c.SaveCheckpoint: holding.save_checkpoint,
    c.Suspend: holding.suspend,
    c.Release: holding.release,
    c.Complete: holding.complete,
    c.Fail: holding.fail,
    c.GiveUp: operating.give_up,
    c.Cancel: operating.cancel,
    c.RequestResume: operating.request_resume,
    c.RecordDecision: operating.record_decision,
}
_GENEROUS = DeploymentLimits()


def decide(
    record: RunRecord | None,
    command: c.Command,
    now: datetime,
    limits: DeploymentLimits = _GENEROUS,
    epoch: int = 0,
) -> Events:
    """The events that carry out `command`, or () when the run already is as asked.

    Raises RunStoreError with the record it was decided on; the codes are the rules' (errors.py).
    """
    if isinstance(command, c.OperatorCommand) and record and operating.repeats(record, command):
        return ()
    events = _RULES[type(command)](record, command, now)
    if record is not None and events:
        events = limit(record, command, events, now, limits)
    return in_epoch(record, events, epoch)
