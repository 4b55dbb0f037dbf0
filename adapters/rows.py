"""A run record as columns plus bytes: what every SQL backend stores of it.

What changes with each checkpoint or is searched for is a column; the rest, which a checkpoint
leaves alone, is the body. So a checkpoint writes a few short columns, however much the record
holds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from ..domain.delivery import DeliveryRecord
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..domain.record import RunRecord
from ..domain.status import RunLifecycleStatus

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_BODY = (
    "attempt",
    "lease",
    "outcome",
    "suspension",
    "labels",
    "delivery_ref",
    "authority_ref",
    "parent_run_id",
    "available_at",
    "failures",
    "last_error",
    "approvals",
    "ended_at",
    "start_digest",
    "commands",
)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly: a float of seconds would lose the last digit."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_microseconds(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)


def _fields(part: Any) -> Any:
    if isinstance(part, BaseModel):
        return part.__dict__
    raise TypeError(f"{type(part).__name__} has no stored form")


def body_of(record: RunRecord) -> bytes:
    """The part of the record that only lifecycle changes touch."""
    fields = record.__dict__
    return orjson.dumps({name: fields[name] for name in _BODY if fields[name]}, default=_fields)


def checkpoint_of(record: RunRecord) -> bytes | None:
    ref = record.checkpoint_ref
    return None if ref is None else orjson.dumps(ref.__dict__)


def record_of(
    run_id: str,
    kind: str,
    status: str,
    version: int,
    fencing_token: int,
    deadline: datetime | None,
    created_at: datetime,
    updated_at: datetime,
    checkpoint: bytes | None,
    head: str,
    body: bytes,
) -> RunRecord:
    """The record from its row, the lease's deadline laid over its folded expiry.

    Raises RUN_INTEGRITY_ERROR / unreadable_record, naming the run.
    """
    try:
        record = RunRecord(
            run_id=run_id,
            kind=kind,
            status=RunLifecycleStatus(status),
            version=version,
            fencing_token=fencing_token,
            created_at=created_at,
            updated_at=updated_at,
            checkpoint_ref=None if checkpoint is None else orjson.loads(checkpoint),
            head=head,
            **orjson.loads(body),
        )
    except (ValidationError, ValueError, TypeError) as e:
        problem = e.errors()[0]["msg"] if isinstance(e, ValidationError) else str(e)
        raise RunStoreError(
            RUN_INTEGRITY_ERROR,
            "unreadable_record",
            f"the stored record of run {run_id!r} cannot be read: {problem}",
        ) from e
    return record if deadline is None else record.with_deadline(deadline)


def delivery_body_of(record: DeliveryRecord) -> bytes:
    """The immutable part of an outbox row."""
    return orjson.dumps(
        {"terminal_version": record.terminal_version, "created_at": record.created_at}
    )
