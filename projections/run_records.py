"""The current run records as rows: which part of a record is a column, and which is the body.

What changes with each checkpoint or is searched for is a column; the rest, which a checkpoint
leaves alone, is the body. So a checkpoint writes a few short columns, however much the record
holds, and lists never load payloads.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..domain.record import RunRecord
from ..domain.status import RunLifecycleStatus

#: Fields that are columns of their own; `checkpoint_ref` is the column `checkpoint`.
COLUMNS = frozenset(
    {
        "run_id",
        "kind",
        "status",
        "version",
        "fencing_token",
        "created_at",
        "updated_at",
        "checkpoint_ref",
        "head",
    }
)
#: Fields that only what is left of a pruned run has.
NEVER_STORED = frozenset({"schema_", "pruned_at"})
#: The fields of the body, with the defaults that need not be stored.
BODY = {
    name: field.get_default(call_default_factory=True)
    for name, field in RunRecord.model_fields.items()
    if name not in COLUMNS | NEVER_STORED
}


def body(record: RunRecord) -> dict[str, Any]:
    """The part of the record that only lifecycle changes touch."""
    fields = record.__dict__
    return {name: fields[name] for name, default in BODY.items() if fields[name] != default}


def from_row(
    run_id: str,
    kind: str,
    status: str,
    version: int,
    fencing_token: int,
    deadline: datetime | None,
    created_at: datetime,
    updated_at: datetime,
    checkpoint: dict[str, Any] | None,
    head: str,
    body: dict[str, Any],
) -> RunRecord:
    """The record from its row, the lease's deadline laid over its folded expiry.

    Raises pydantic's ValidationError, or ValueError or TypeError, where the row does not fit.
    """
    record = RunRecord(
        run_id=run_id,
        kind=kind,
        status=RunLifecycleStatus(status),
        version=version,
        fencing_token=fencing_token,
        created_at=created_at,
        updated_at=updated_at,
        checkpoint_ref=checkpoint,
        head=head,
        **body,
    )
    return record if deadline is None else record.with_deadline(deadline)


def due_at(record: RunRecord) -> datetime | None:
    """When the run is due as far as its events tell, where no row knows better."""
    if record.lease is not None:
        return record.lease.expires_at
    if record.status is not RunLifecycleStatus.QUEUED:
        return None
    return record.available_at or record.updated_at
