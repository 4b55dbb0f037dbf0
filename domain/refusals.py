"""What the rules share: the stamp of an event, and the refusals that more than one rule makes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NoReturn

from . import commands as c
from . import events as e
from .errors import RUN_ALREADY_TERMINAL, RUN_CONFLICT, RUN_NOT_FOUND, RunStoreError
from .record import RunRecord
from .status import RunLifecycleStatus as Status

Events = tuple[e.RunEvent, ...]


def common(record: RunRecord, command: c.Command, now: datetime) -> dict[str, Any]:
    operator = isinstance(command, c.OperatorCommand)
    return {
        "originator_id": e.run_stream(record.run_id),
        "originator_version": record.version + 1,
        "timestamp": max(now, record.updated_at),  # stamps never run backwards in a stream
        "actor": command.actor,
        "command_id": command.command_id,
        "command_digest": command.digest() if operator else None,  # type: ignore[attr-defined]
    }


def existing(record: RunRecord | None, command: c.Command) -> RunRecord:
    if record is None:
        raise missing(command)
    return record


def missing(command: c.Command) -> RunStoreError:
    return RunStoreError(RUN_NOT_FOUND, "run", f"run {command.run_id!r} does not exist")


def pruned(record: RunRecord) -> RunStoreError:
    return error(
        RUN_NOT_FOUND,
        "pruned",
        f"run {record.run_id!r} ended at {record.updated_at.isoformat()} and was pruned at "
        f"{record.pruned_at and record.pruned_at.isoformat()}",
        record,
    )


def reused(record: RunRecord, command: c.Command) -> RunStoreError:
    return error(
        RUN_CONFLICT,
        "command_reused",
        f"run {record.run_id!r}: command id {command.command_id!r} already stands for a "
        f"different command",
        record,
    )


def raise_terminal(record: RunRecord) -> NoReturn:
    outcome = f" with {record.outcome.code!r}" if record.outcome else ""
    raise error(
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


def waiting_for(record: RunRecord) -> str:
    pending = record.suspension.pending_approval_ids if record.suspension else ()
    return ", ".join(map(repr, pending)) or "a resume"


def error(code: str, reason: str, message: str, record: RunRecord) -> RunStoreError:
    return RunStoreError(code, reason, message, record=record)
