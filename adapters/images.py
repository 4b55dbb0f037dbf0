"""What the SQL backends share for checking and rebuilding: images of rows, and their tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from ..domain.delivery import DeliveryRecord
from ..domain.errors import RunStoreError
from ..domain.history_store import Image, Table
from ..domain.record import RunRecord
from .ciphering import Cipher
from .rows import body_of, checkpoint_of, delivery_body_of, plain_form

#: Greater than every key, which has at most 255 bytes.
BEYOND = "\U0010ffff" * 64
#: The last columns of such a row, which hold bytes.
_BYTES: dict[Table, tuple[str, ...]] = {
    "run_records": ("checkpoint", "body"),
    "delivery_outbox": ("body",),
}


def image_of(table: Table, row: tuple[Any, ...], cipher: Cipher | None) -> Image:
    """The image that a row of the statements for images holds behind its key.

    Decrypted, for a value has another form each time it is encrypted. What cannot be decrypted is
    left as it is: it equals nothing.
    """
    key, version, head, status, *rest = row
    for i, column in enumerate(_BYTES[table], start=-len(_BYTES[table])):
        try:
            if rest[i] is not None:
                rest[i] = plain_form(rest[i], cipher, table, key, column)
        except (RunStoreError, ValueError):
            pass
    return Image(version, head, status, tuple(rest))


def unreadable_image(version: int, head: str) -> Image:
    """The image of a row that cannot be read: it equals no other."""
    return Image(version, head, "", None)


def image_of_record(record: RunRecord | DeliveryRecord, moment: Callable[[datetime], Any]) -> Image:
    """The image of the row that is right for this record."""
    version, head, status, *rest = columns_of(record, moment, None)
    return Image(version, head, status, tuple(rest))


def columns_of(
    record: RunRecord | DeliveryRecord, moment: Callable[[datetime], Any], cipher: Cipher | None
) -> tuple[Any, ...]:
    """The columns of such a row behind its key, when it is right; `moment` stores an instant."""
    head = (record.version, record.head, record.status.value)
    if isinstance(record, RunRecord):
        return (
            *head,
            record.kind,
            record.parent_run_id,
            record.fencing_token,
            moment(record.created_at),
            moment(record.updated_at),
            checkpoint_of(record, cipher),
            body_of(record, cipher),
        )
    due = record.next_attempt_at
    return (
        *head,
        record.run_id,
        record.delivery_ref,
        None if due is None else moment(due),
        moment(record.updated_at),
        delivery_body_of(record, cipher),
    )


def key_of(record: RunRecord | DeliveryRecord) -> str:
    """The key of the record's row."""
    return record.run_id if isinstance(record, RunRecord) else record.invocation_id


def creation(table: str, migrations: Sequence[str]) -> Iterator[str]:
    """The statements of the migrations that are about this table, in their order."""
    for migration in migrations:
        for statement in re.sub(r"--[^\n]*", "", migration).split(";"):
            name = re.search(
                r"(?:CREATE TABLE|ALTER TABLE|CREATE (?:UNIQUE )?INDEX \w+ ON|UPDATE|"
                r"CREATE TRIGGER \w+ AFTER INSERT ON)\s+(\w+)",
                statement,
            )
            if name is not None and name[1] == table:
                yield statement.strip()
