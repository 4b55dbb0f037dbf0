"""Rows of SQLite as records: instants are kept as microseconds."""

from __future__ import annotations

from typing import Any

from ...domain.delivery import DeliveryRecord
from ...domain.record import RunRecord
from ..rows import delivery_of, from_microseconds, record_of


def run_of(row: tuple[Any, ...]) -> RunRecord:
    """A run's record. Raises RUN_INTEGRITY_ERROR / unreadable_record."""
    run_id, kind, status, version, token, ready_at, created, updated, checkpoint, head, body = row
    return record_of(
        run_id,
        kind,
        status,
        version,
        token,
        None if ready_at is None else from_microseconds(ready_at),
        from_microseconds(created),
        from_microseconds(updated),
        checkpoint,
        head,
        body,
    )


def outbox_record_of(row: tuple[Any, ...]) -> DeliveryRecord:
    """A delivery's record. Raises RUN_INTEGRITY_ERROR / unreadable_record."""
    *identity, status, version, due, updated, head, body = row
    return delivery_of(
        *identity,
        status,
        version,
        None if due is None else from_microseconds(due),
        from_microseconds(updated),
        head,
        body,
    )
