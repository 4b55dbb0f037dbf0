"""The bytes of the rows that the SQL backends store: the projections' mappings through orjson.

Then they go through the cipher of the journal, if it has one. A row of a run belongs to the run's
stream, as its events do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from ..domain.delivery import DeliveryRecord, delivery_stream
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..domain.events import run_stream
from ..domain.history_store import Table
from ..domain.record import RunRecord
from ..domain.tombstone import Tombstone
from ..projections import delivery_outbox, run_records
from .ciphering import MARK, Cipher, Place, deciphered, enciphered

_GRAVE = "the tombstone"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: What is wrong with an instant that no datetime is.
NO_DATE = "a time that is no date of ours"
#: What reading a row raises whose columns do not fit.
_MISFITS = (ValidationError, ValueError, TypeError, OverflowError)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly: a float of seconds would lose the last digit."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_microseconds(microseconds: int) -> datetime:
    """The instant. Raises OverflowError for one before the year 1 or after the year 9999."""
    return EPOCH + timedelta(microseconds=microseconds)


def as_it_is(moment: Any) -> datetime:
    """The instant, where the store gives one; raises OverflowError for what is beyond all."""
    if isinstance(moment, datetime):
        return moment
    raise OverflowError(NO_DATE)


def moment_or_first(stored: Any, instant: Callable[[Any], datetime] = as_it_is) -> datetime:
    """The instant, or the first one that can be told for what is beyond all."""
    try:
        return instant(stored)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _fields(part: Any) -> Any:
    if isinstance(part, BaseModel):
        return part.__dict__
    raise TypeError(f"{type(part).__name__} has no stored form")


def stored_form(data: bytes, cipher: Cipher | None, table: Table, key: str, column: str) -> bytes:
    """What a column of bytes holds for these."""
    return data if cipher is None else enciphered(cipher, data, _place(table, key, column))


def plain_form(data: bytes, cipher: Cipher | None, table: Table, key: str, column: str) -> bytes:
    """The bytes that a column holds; raises as `Cipher.decrypt`."""
    if not data.startswith(MARK):
        return data
    return deciphered(cipher, data, _place(table, key, column))


def _place(table: Table, key: str, column: str) -> Place:
    stream = run_stream(key) if table == "run_records" else delivery_stream(key)
    return Place(stream, f"the {column} of the row")


def body_of(record: RunRecord, cipher: Cipher | None) -> bytes:
    """The column `body` of a run's row."""
    data = orjson.dumps(run_records.body(record), default=_fields)
    return stored_form(data, cipher, "run_records", record.run_id, "body")


def checkpoint_of(record: RunRecord, cipher: Cipher | None) -> bytes | None:
    """The column `checkpoint` of a run's row: where the last saved state is."""
    ref = record.checkpoint_ref
    if ref is None:
        return None
    data = orjson.dumps(ref.__dict__)
    return stored_form(data, cipher, "run_records", record.run_id, "checkpoint")


def record_of(
    cipher: Cipher | None,
    run_id: str,
    *columns: Any,
    instant: Callable[[Any], datetime] = as_it_is,
) -> RunRecord:
    """The record from the columns of its row, in the order of `run_records.from_row`.

    instant  what a stored time means

    Raises RUN_INTEGRITY_ERROR / unreadable_record, naming the run; and as `Cipher.decrypt`.
    """
    kind, status, version, token, deadline, created, updated, checkpoint, head, body = columns
    try:
        body = plain_form(body, cipher, "run_records", run_id, "body")
        if checkpoint is not None:
            ref = plain_form(checkpoint, cipher, "run_records", run_id, "checkpoint")
            checkpoint = orjson.loads(ref)
        return run_records.from_row(
            run_id,
            kind,
            status,
            version,
            token,
            None if deadline is None else instant(deadline),
            instant(created),
            instant(updated),
            checkpoint,
            head,
            orjson.loads(body),
        )
    except _MISFITS as e:
        raise unreadable(f"run {run_id!r}", problem_of(e)) from e


def delivery_body_of(record: DeliveryRecord, cipher: Cipher | None) -> bytes:
    """The column `body` of an outbox row."""
    data = orjson.dumps(delivery_outbox.body(record), default=_fields)
    return stored_form(data, cipher, "delivery_outbox", record.invocation_id, "body")


def delivery_of(
    cipher: Cipher | None,
    invocation_id: str,
    *columns: Any,
    instant: Callable[[Any], datetime] = as_it_is,
) -> DeliveryRecord:
    """The delivery from the columns of its row, in the order of `delivery_outbox.from_row`.

    instant  what a stored time means

    Raises RUN_INTEGRITY_ERROR / unreadable_record, naming the delivery; and as `Cipher.decrypt`.
    """
    status, version, due, updated, head, body = columns[2:]
    try:
        body = plain_form(body, cipher, "delivery_outbox", invocation_id, "body")
        return delivery_outbox.from_row(
            invocation_id,
            columns[0],
            columns[1],
            status,
            version,
            None if due is None else instant(due),
            instant(updated),
            head,
            orjson.loads(body),
        )
    except _MISFITS as e:
        raise unreadable(f"delivery {invocation_id!r}", problem_of(e)) from e


def tombstone_row(tombstone: Tombstone, cipher: Cipher | None) -> Tombstone:
    """The row of a tombstone: its body as it is stored."""
    if cipher is None or tombstone.body is None:
        return tombstone
    place = Place(tombstone.stream, _GRAVE)
    return tombstone._replace(body=enciphered(cipher, tombstone.body, place))


def tombstone_of(row: Sequence[Any], cipher: Cipher | None) -> Tombstone:
    """The tombstone of a row; raises as `Cipher.decrypt`."""
    tombstone = Tombstone(*row)
    body = tombstone.body
    if body is None or not body.startswith(MARK):
        return tombstone
    return tombstone._replace(body=deciphered(cipher, body, Place(tombstone.stream, _GRAVE)))


def readable_deliveries(
    fetch: Callable[[str | None, int], Sequence[tuple[Any, ...]]],
    read: Callable[[tuple[Any, ...]], DeliveryRecord],
    set_aside: Callable[[str, str], None],
    after: str | None,
    limit: int,
) -> list[DeliveryRecord]:
    """A page of deliveries without those that cannot be read: each of them is set aside.

    fetch  so many rows after an id, each ending with why it was set aside already
    """
    found: list[DeliveryRecord] = []
    while wanted := limit - len(found):
        rows = fetch(after, wanted)
        for *row, attention in rows:
            try:
                found.append(read(tuple(row)))
            except RunStoreError as e:
                if e.code != RUN_INTEGRITY_ERROR:
                    raise
                if attention is None:
                    set_aside(row[0], e.message)
        if len(rows) < wanted:
            break
        after = rows[-1][0]
    return found


def problem_of(e: Exception) -> str:
    """What is wrong with a stored value, in one line."""
    return e.errors()[0]["msg"] if isinstance(e, ValidationError) else str(e)


def unreadable(what: str, problem: str) -> RunStoreError:
    """The error for the row of a run or a delivery that cannot be read."""
    return RunStoreError(
        RUN_INTEGRITY_ERROR,
        "unreadable_record",
        f"the stored record of {what} cannot be read: {problem}",
    )
