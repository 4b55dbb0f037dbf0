"""Rows of SQLite as what they stand for: instants are kept as microseconds."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ...domain.delivery import DeliveryRecord
from ...domain.history_store import Head, Image, Table
from ...domain.ports import StoredEvent
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone
from ..ciphering import Cipher
from ..images import image_of, unreadable_image
from ..rows import delivery_of, from_microseconds, record_of, tombstone_of, unreadable
from .shapes import Shape, damaged

_EVENT = Shape("stream TEXT, version INTEGER, topic TEXT, state BLOB")
_RUN = Shape(
    "run_id TEXT, kind TEXT, status TEXT, version INTEGER, fencing_token INTEGER,"
    " ready_at INTEGER?, created_at INTEGER, updated_at INTEGER, checkpoint BLOB?, head TEXT,"
    " body BLOB"
)
_DELIVERY = Shape(
    "invocation_id TEXT, run_id TEXT, delivery_ref TEXT, status TEXT, version INTEGER,"
    " next_attempt_at INTEGER?, updated_at INTEGER, head TEXT, body BLOB"
)
_TOMBSTONE = Shape("stream TEXT, audit_version INTEGER, version INTEGER, head TEXT, body BLOB?")
_IMAGES: Final[dict[Table, Shape]] = {
    "run_records": Shape(
        "run_id TEXT, version INTEGER, head TEXT, status TEXT, kind TEXT, parent_run_id TEXT?,"
        " fencing_token INTEGER, created_at INTEGER, updated_at INTEGER, checkpoint BLOB?,"
        " body BLOB"
    ),
    "delivery_outbox": Shape(
        "invocation_id TEXT, version INTEGER, head TEXT, status TEXT, run_id TEXT,"
        " delivery_ref TEXT, next_attempt_at INTEGER?, updated_at INTEGER, body BLOB"
    ),
}
#: Stands for a version that is no number: lower than every other.
_NO_VERSION = -1


def event_of(row: tuple[Any, ...]) -> StoredEvent:
    """A stored event.

    A topic or state of another type is passed on as what nothing can be read from, so that it is
    that event which is named as unreadable. Where its place is of another type, which event it is
    cannot be told: RUN_INTEGRITY_ERROR / damaged_database.
    """
    if _EVENT.fits(row):
        return StoredEvent(*row)
    stream, version, topic, state = row
    if type(stream) is not str or type(version) is not int:
        raise damaged(f"event {version!r} of stream {stream!r}: {_EVENT.misfit(row)}")
    return StoredEvent(
        stream,
        version,
        topic if type(topic) is str else f"no topic: {topic!r}",
        state if type(state) is bytes else f"no bytes: {state!r}".encode(),
    )


def run_of(row: tuple[Any, ...], cipher: Cipher | None) -> RunRecord:
    """A run's record. Raises RUN_INTEGRITY_ERROR / unreadable_record; and as `Cipher.decrypt`."""
    if not _RUN.fits(row):
        raise unreadable(f"run {row[0]!r}", _RUN.misfit(row))
    return record_of(cipher, *row, instant=from_microseconds)


def outbox_record_of(row: tuple[Any, ...], cipher: Cipher | None) -> DeliveryRecord:
    """A delivery's record. Raises as `run_of`."""
    if not _DELIVERY.fits(row):
        raise unreadable(f"delivery {row[0]!r}", _DELIVERY.misfit(row))
    return delivery_of(cipher, *row, instant=from_microseconds)


def tombstone_row_of(row: tuple[Any, ...], cipher: Cipher | None) -> Tombstone:
    """What is left of a stream. Raises RUN_INTEGRITY_ERROR / damaged_database; as `run_of` too."""
    _TOMBSTONE.check(row, f"the tombstone of {row[0]!r}")
    return tombstone_of(row, cipher)


def row_image_of(table: Table, row: tuple[Any, ...], cipher: Cipher | None) -> tuple[str, Image]:
    """The key and the image of a row that ends with whether its other columns can be read.

    One that cannot be read equals no other. Raises RUN_INTEGRITY_ERROR / damaged_database where
    not even the key says which row it is.
    """
    columns, readable = row[:-1], row[-1]
    key, version, head = check_key(table, row[0]), row[1], row[2]
    if readable and _IMAGES[table].fits(columns):
        return key, image_of(table, columns, cipher)
    version, head = _known(version, head)
    return key, unreadable_image(version, head)


def head_of(row: tuple[Any, ...]) -> tuple[Any, Head]:
    """The key of a row, and what it says of its stream."""
    key, version, head, status = row
    return key, Head(*_known(version, head), str(status))


def check_key(table: str, key: Any) -> str:
    """The key of a row. Raises RUN_INTEGRITY_ERROR / damaged_database where it is no text."""
    if type(key) is not str:
        raise damaged(f"a key of the table {table} is {key!r}")
    return key


def moment_of(microseconds: Any, what: str) -> datetime:
    """The instant that a column holds; raises RUN_INTEGRITY_ERROR / damaged_database."""
    try:
        return from_microseconds(microseconds)
    except (TypeError, OverflowError) as e:
        raise damaged(f"{what} has the time {microseconds!r}") from e


def _known(version: Any, head: Any) -> tuple[int, str]:
    return (
        version if type(version) is int else _NO_VERSION,
        head if type(head) is str else repr(head),
    )
