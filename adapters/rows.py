"""The bytes of the rows that the SQL backends store: the projections' mappings through orjson."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from ..domain.delivery import DeliveryRecord
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..domain.record import RunRecord
from ..projections import delivery_outbox, run_records

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: What reading a row raises whose columns do not fit.
_MISFITS = (ValidationError, ValueError, TypeError, OverflowError)


def to_microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly: a float of seconds would lose the last digit."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_microseconds(microseconds: int) -> datetime:
    """The instant. Raises OverflowError for one before the year 1 or after the year 9999."""
    return EPOCH + timedelta(microseconds=microseconds)


def _as_it_is(moment: datetime) -> datetime:
    return moment


def _fields(part: Any) -> Any:
    if isinstance(part, BaseModel):
        return part.__dict__
    raise TypeError(f"{type(part).__name__} has no stored form")


def body_of(record: RunRecord) -> bytes:
    """The column `body` of a run's row."""
    return orjson.dumps(run_records.body(record), default=_fields)


def checkpoint_of(record: RunRecord) -> bytes | None:
    """The column `checkpoint` of a run's row: where the last saved state is."""
    ref = record.checkpoint_ref
    return None if ref is None else orjson.dumps(ref.__dict__)


def record_of(
    run_id: str, *columns: Any, instant: Callable[[Any], datetime] = _as_it_is
) -> RunRecord:
    """The record from the columns of its row, in the order of `run_records.from_row`.

    instant  what a stored time means

    Raises RUN_INTEGRITY_ERROR / unreadable_record, naming the run.
    """
    kind, status, version, token, deadline, created, updated, checkpoint, head, body = columns
    try:
        return run_records.from_row(
            run_id,
            kind,
            status,
            version,
            token,
            None if deadline is None else instant(deadline),
            instant(created),
            instant(updated),
            None if checkpoint is None else orjson.loads(checkpoint),
            head,
            orjson.loads(body),
        )
    except _MISFITS as e:
        raise _unreadable(f"run {run_id!r}", e) from e


def delivery_body_of(record: DeliveryRecord) -> bytes:
    """The column `body` of an outbox row."""
    return orjson.dumps(delivery_outbox.body(record), default=_fields)


def delivery_of(
    invocation_id: str, *columns: Any, instant: Callable[[Any], datetime] = _as_it_is
) -> DeliveryRecord:
    """The delivery from the columns of its row, in the order of `delivery_outbox.from_row`.

    instant  what a stored time means

    Raises RUN_INTEGRITY_ERROR / unreadable_record, naming the delivery.
    """
    status, version, due, updated, head, body = columns[2:]
    try:
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
        raise _unreadable(f"delivery {invocation_id!r}", e) from e


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
                if attention is None:
                    set_aside(row[0], e.message)
        if len(rows) < wanted:
            break
        after = rows[-1][0]
    return found


def _unreadable(what: str, e: Exception) -> RunStoreError:
    problem = e.errors()[0]["msg"] if isinstance(e, ValidationError) else str(e)
    return RunStoreError(
        RUN_INTEGRITY_ERROR,
        "unreadable_record",
        f"the stored record of {what} cannot be read: {problem}",
    )
