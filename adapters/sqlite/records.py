"""Rows of SQLite as records: instants are kept as microseconds."""

from __future__ import annotations

from typing import Any

from ...domain.delivery import DeliveryRecord
from ...domain.record import RunRecord
from ..ciphering import Cipher
from ..rows import delivery_of, from_microseconds, record_of


def run_of(row: tuple[Any, ...], cipher: Cipher | None) -> RunRecord:
    """A run's record. Raises RUN_INTEGRITY_ERROR / unreadable_record; and as `Cipher.decrypt`."""
    run_id, kind, status, version, token, ready_at, created, updated, checkpoint, head, body = row
    return record_of(
        cipher,
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


def outbox_record_of(row: tuple[Any, ...], cipher: Cipher | None) -> DeliveryRecord:
    """A delivery's record. Raises as `run_of`."""
    *identity, status, version, due, updated, head, body = row
    return delivery_of(
        cipher,
        *identity,
        status,
        version,
        None if due is None else from_microseconds(due),
        from_microseconds(updated),
        head,
        body,
    )
