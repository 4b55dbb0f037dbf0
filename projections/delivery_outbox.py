"""The delivery outbox as rows: one per delivery, beside the columns that are searched for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ..domain.delivery import DeliveryRecord, DeliveryStatus

#: Fields that are columns of their own.
COLUMNS = frozenset(
    {
        "invocation_id",
        "run_id",
        "delivery_ref",
        "status",
        "version",
        "next_attempt_at",
        "updated_at",
        "head",
    }
)
#: The fields of the body, with the defaults that need not be stored.
BODY = {
    name: field.get_default(call_default_factory=True)
    for name, field in DeliveryRecord.model_fields.items()
    if name not in COLUMNS
}


def body(record: DeliveryRecord) -> dict[str, Any]:
    """What of an outbox row is not searched for."""
    fields = record.__dict__
    return {name: fields[name] for name, default in BODY.items() if fields[name] != default}


def from_row(
    invocation_id: str,
    run_id: str,
    delivery_ref: str,
    status: str,
    version: int,
    next_attempt_at: datetime | None,
    updated_at: datetime,
    head: str,
    body: dict[str, Any],
) -> DeliveryRecord:
    """The record from its row.

    Raises pydantic's ValidationError, or ValueError or TypeError, where the row does not fit.
    """
    return DeliveryRecord(
        invocation_id=invocation_id,
        run_id=run_id,
        delivery_ref=delivery_ref,
        status=DeliveryStatus(status),
        version=version,
        next_attempt_at=next_attempt_at,
        updated_at=updated_at,
        head=head,
        **body,
    )
