"""Rows of runs and deliveries as values of a Space, with the keys by which they are found."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from pydantic import ValidationError

from ...domain.delivery import DeliveryRecord
from ...domain.ports import Attention
from ...domain.record import RunRecord
from ..rows import from_microseconds, problem_of, to_microseconds, unreadable
from .space import Space, key_of, since_epoch, under


class Row(NamedTuple):
    """A run's row: its record as its events make it, and when it is next due."""

    record: RunRecord
    ready_at: datetime | None


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
        raise unreadable(f"run {run_id!r}", problem_of(e)) from e


def put_row(space: Space, record: RunRecord, ready_at: datetime | None) -> None:
    """Write the run's row: what was set aside is not any more."""
    run_id = record.run_id
    due = b"" if ready_at is None else b"%d" % to_microseconds(ready_at)
    space.put(key_of("run", run_id), due + b"\n" + record.model_dump_json().encode())
    space.put(key_of("aside", run_id), None)
    _index(space, "created", run_id, record.created_at)
    _index(space, "due", run_id, ready_at, record.kind.encode())
    _index(space, "ended", run_id, record.updated_at if record.is_terminal else None)
    if record.parent_run_id is not None:
        child = None if record.is_terminal else run_id.encode()
        space.put(_child_key(record.parent_run_id, run_id), child)


def remove_row(space: Space, run_id: str) -> None:
    """Take the row of an ended run away."""
    for name in ("created", "due", "ended"):
        _index(space, name, run_id, None)
    for name in ("run", "aside"):
        space.put(key_of(name, run_id), None)


def live_child(space: Space, run_id: str) -> str | None:
    """A run that has not ended and names this one as its parent."""
    return next((value.decode() for _, value in under(space, "child", run_id)), None)


def place_in(space: Space, index: str, run_id: str) -> str | None:
    """The key of the run in the index "created", "due" or "ended"."""
    found = space.get(key_of(f"{index}_at", run_id))
    return None if found is None else found.decode()


def set_aside(space: Space, run_id: str, reason: str) -> None:
    """Take a run out of the claims, with the reason."""
    _index(space, "due", run_id, None)
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
        raise unreadable(f"delivery {invocation_id!r}", problem_of(e)) from e


def put_delivery(space: Space, record: DeliveryRecord, held: str | None = None) -> None:
    """Write the outbox row; `held` is why it is set aside."""
    space.put(key_of("delivery", record.invocation_id), record.model_dump_json().encode())
    space.put(key_of("delivery_run", record.invocation_id), record.run_id.encode())
    mark_delivery(space, record.invocation_id, held)


def remove_delivery(space: Space, invocation_id: str) -> None:
    """Take the outbox row away."""
    for name in ("delivery", "delivery_run", "delivery_aside"):
        space.put(key_of(name, invocation_id), None)


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


def _index(
    space: Space, name: str, run_id: str, moment: datetime | None, value: bytes = b""
) -> None:
    """Let the run stand at this moment in an index, and nowhere else in it; None: not at all."""
    back = key_of(f"{name}_at", run_id)
    key = None if moment is None else key_of(name, since_epoch(moment), run_id)
    before = place_in(space, name, run_id)
    if before is not None and before != key:
        space.put(before, None)
    if before != key:
        space.put(back, None if key is None else key.encode())
    if key is not None:
        space.put(key, value)


def _child_key(parent: str, run_id: str) -> str:
    # Two whole ids may be longer than a key can be.
    return key_of("child", parent, sha256(run_id.encode()).hexdigest())
