"""What a store that judges in Python makes of a write: the guards of the port, and deadlines.

A SQL backend says the same in its statements.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from ..domain.delivery import DeliveryRecord
from ..domain.history_store import Image
from ..domain.ports import Change, Guard, LeaseRef, Reply
from ..domain.record import RunRecord
from ..domain.status import RunLifecycleStatus
from ..domain.tokens import is_of
from ..projections.run_records import due_at


class Row(Protocol):
    """A run's row: its record as its events make it, and when it is next due."""

    @property
    def record(self) -> RunRecord: ...

    @property
    def ready_at(self) -> datetime | None: ...


def overlaid(row: Row) -> RunRecord:
    """The record with the current deadline laid over the folded expiry."""
    return row.record if row.ready_at is None else row.record.with_deadline(row.ready_at)


def is_lost(
    row: Row | None, change: Change, guard: Guard | None, instant: datetime, epoch: int
) -> bool:
    """Whether the run's row loses a guard of `RunStore.append`; streams and tombstones apart."""
    record = change.record
    assert isinstance(record, RunRecord)  # the first change is the run's
    if (row.record.version if row else 0) != change.expected_version:
        return True
    if row is not None and change.expected_head not in (None, row.record.head):
        return True
    if guard is not None and (row is None or not holds(row, guard, instant)):
        return True
    by_holder = guard is not None and guard.lease == "live"
    new_token = record.fencing_token != (row.record.fencing_token if row else 0)
    return new_token and not by_holder and not is_of(record.fencing_token, epoch)


def holds(row: Row, guard: Guard, instant: datetime) -> bool:
    """Whether the row is still what the guard says."""
    if row.record.lease is None or row.record.fencing_token != guard.fencing_token:
        return False
    live = row.ready_at is not None and row.ready_at > instant
    return live if guard.lease == "live" else not live


def ready_after(
    row: Row | None, record: RunRecord, guard: Guard | None, instant: datetime
) -> tuple[datetime | None, bool]:
    """When the run is next due after this write, and whether its deadline moved."""
    if record.lease is None:
        if record.status is RunLifecycleStatus.QUEUED:
            return record.available_at or instant, False
        return None, False
    ttl = timedelta(seconds=record.lease.ttl)
    by_holder = guard is not None and guard.lease == "live"
    if by_holder and row is not None and row.ready_at and row.ready_at - instant >= ttl / 2:
        return row.ready_at, False
    return instant + ttl, True


def renewed(row: Row | None, lease: LeaseRef, instant: datetime) -> Reply | None:
    """What a renewal of this lease answers, with the new deadline; None: it is not renewed."""
    if row is None or row.record.status is not RunLifecycleStatus.RUNNING:
        return None
    if not holds(row, Guard(lease.fencing_token, "live"), instant):
        return None
    assert row.ready_at is not None  # a live guard holds
    until = instant + timedelta(seconds=lease.ttl)
    return Reply(instant, max(row.ready_at, until), until > row.ready_at)


def ready_as_repaired(row: Row | None, record: RunRecord) -> datetime | None:
    """When the run is due once its row is put right: as before, where it was due at all."""
    ready_at = due_at(record)
    if ready_at is not None and row is not None and row.ready_at is not None:
        return row.ready_at
    return ready_at


def image_of(record: RunRecord | DeliveryRecord) -> Image:
    """The image of a row that holds whole records."""
    plain = record
    if isinstance(record, RunRecord) and record.lease is not None:
        plain = record.with_deadline(record.lease.acquired_at)
    return Image(record.version, record.head, record.status.value, plain)
