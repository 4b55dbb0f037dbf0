"""Rows of SQLite as records: instants are kept as microseconds."""

from __future__ import annotations

from typing import Any

from ...domain.delivery import DeliveryRecord
from ...domain.record import RunRecord
from ..ciphering import Cipher
from ..rows import delivery_of, from_microseconds, record_of


def run_of(row: tuple[Any, ...], cipher: Cipher | None) -> RunRecord:
    """A run's record. Raises RUN_INTEGRITY_ERROR / unreadable_record; and as `Cipher.decrypt`."""
    return record_of(cipher, *row, instant=from_microseconds)


def outbox_record_of(row: tuple[Any, ...], cipher: Cipher | None) -> DeliveryRecord:
    """A delivery's record. Raises as `run_of`."""
    return delivery_of(cipher, *row, instant=from_microseconds)
