"""Rows of runs and deliveries as values of a Space, with the keys by which they are found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from pydantic import ValidationError

from ...domain.delivery import DeliveryRecord
from ...domain.ports import Attention
from ...domain.record import RunRecord
from ..rows import from_microseconds, to_microseconds
from .space import Space, key_of, since_epoch, under, unreadable


class Row(NamedTuple):
    """A run's row: its record as its events make it, and when it is next due."""

    record: RunRecord
    ready_at: datetime | None

    @property
    def overlaid(self) -> RunRecord:
        """The record with the deadline laid over the folded expiry."""
        return self.record if self.ready_at is None else self.record.with_deadline(self.ready_at)


def read_row(space: Space, run_id: str) -> Row | None:
    """The run's row. Raises RUN_INTEGRITY_ERROR / unreadable_record, naming the run."""
    value = space.get(key_of("run", run_id))
    return None if value is None else row_of(run_id, value)


def row_of(run_id: str, value: bytes) -> Row:
    """The row of a stored value. Raises as `read_row`."""
    ready_at, _, record = value.partition(b"\n")
    try:
        due = from_microseconds(int(ready_at)) if ready_at else None
        return Row(RunRecord.model_validate_json(record), due)
    except (ValidationError, ValueError, OverflowError) as e:
        raise unreadable(f"run {run_id!r}", e) from e


def put_row(space: Space, record: RunRecord, ready_at: datetime | None) -> None:
    """Write the run's row: what was set aside is not any more."""
    clear_due(space, record.run_id)
    space.put(key_of("aside", record.run_id), None)
    due = b"" if ready_at is None else b"%d" % to_microseconds(ready_at)
    value = due + b"\n" + record.model_dump_json().encode()
    space.put(key_of("run", record.run_id), value)
    created = key_of("created", since_epoch(record.created_at), record.run_id)
    before = space.get(key_of("created_at", record.run_id))
    if before != created.encode():
        if before is not None:
            space.put(before.decode(), None)
        space.put(created, b"")
        space.put(key_of("created_at", record.run_id), created.encode())
    if ready_at is not None:
        key = key_of("due", since_epoch(ready_at), record.run_id)
        space.put(key, record.kind.encode())
        space.put(key_of("due_at", record.run_id), key.encode())


def clear_due(space: Space, run_id: str) -> None:
    """Take the run out of what is due."""
    due = space.get(key_of("due_at", run_id))
    if due is not None:
        space.put(due.decode(), None)
        space.put(key_of("due_at", run_id), None)


def set_aside(space: Space, run_id: str, reason: str) -> None:
    """Take a run out of the claims, with the reason."""
    clear_due(space, run_id)
    space.put(key_of("aside", run_id), reason.encode())


def read_delivery(space: Space, invocation_id: str) -> DeliveryRecord | None:
    """The outbox row. Raises RUN_INTEGRITY_ERROR / unreadable_record, naming the delivery."""
    value = space.get(key_of("delivery", invocation_id))
    return None if value is None else delivery_of(invocation_id, value)


def delivery_of(invocation_id: str, value: bytes) -> DeliveryRecord:
    """The record of a stored value. Raises as `read_delivery`."""
    try:
        return DeliveryRecord.model_validate_json(value)
    except ValidationError as e:
        raise unreadable(f"delivery {invocation_id!r}", e) from e


def put_delivery(space: Space, record: DeliveryRecord, held: str | None = None) -> None:
    """Write the outbox row; `held` is why it is set aside."""
    space.put(key_of("delivery", record.invocation_id), record.model_dump_json().encode())
    space.put(key_of("delivery_run", record.invocation_id), record.run_id.encode())
    mark_delivery(space, record.invocation_id, held)


def mark_delivery(space: Space, invocation_id: str, reason: str | None) -> None:
    """Set the row aside, or put it back: None."""
    mark = None if reason is None else reason.encode()
    space.put(key_of("delivery_aside", invocation_id), mark)


def marked_deliveries(space: Space) -> list[Attention]:
    """The runs whose delivery was set aside, whether its row can be read or not."""
    marks = ((parts[1], mark.decode()) for parts, mark in under(space, "delivery_aside"))
    runs = ((space.get(key_of("delivery_run", key)), why) for key, why in marks)
    return [Attention((run_id or b"").decode(), why) for run_id, why in runs]


def deliveries_in(space: Space, after: str | None = None) -> Iterator[tuple[str, bytes]]:
    """The ids of all deliveries after one, in order, and their rows as stored."""
    begin = None if after is None else key_of("delivery", after)
    for parts, value in under(space, "delivery", after=begin):
        yield parts[1], value
