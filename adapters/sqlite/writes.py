"""What an append writes in SQLite: the events, and the rows of records and outbox."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...domain.ports import Change, Guard, Reply
from ...domain.record import RunRecord
from ...domain.tokens import is_of
from ..ciphering import Cipher
from ..rows import body_of, checkpoint_of, from_microseconds, to_microseconds
from . import statements as sql
from .deliveries import write_delivery
from .epoch import epoch_of


def write_changes(
    conn: sqlite3.Connection,
    changes: Sequence[Change],
    guard: Guard | None,
    instant: datetime,
    cipher: Cipher | None,
) -> Reply | None:
    """Write the run, then the deliveries; None if a guard is lost: then roll back."""
    reply = _write_run(conn, changes[0], guard, instant, cipher)
    for change in changes[1:]:
        if reply is not None and not write_delivery(conn, change, cipher):
            reply = None
    return reply


def _write_run(
    conn: sqlite3.Connection,
    change: Change,
    guard: Guard | None,
    instant: datetime,
    cipher: Cipher | None,
) -> Reply | None:
    """Guard and write the run's row, then its events; None if a guard is lost."""
    record = change.record
    assert isinstance(record, RunRecord)  # the first change is the run's
    if (
        len(change.events) == 1
        and change.events[0].topic == "run.checkpoint_saved"
        and guard is not None
        and guard.lease == "live"
    ):
        reply = _save_checkpoint(conn, change, record, guard, instant, cipher)
    else:
        reply = _advance(conn, change, record, guard, instant, cipher)
    if reply is not None:
        for stream, version, topic, data, _hash in change.events:
            conn.execute(sql.INSERT_EVENT, (stream, version, topic, data))
    return reply


def _save_checkpoint(
    conn: sqlite3.Connection,
    change: Change,
    record: RunRecord,
    guard: Guard,
    instant: datetime,
    cipher: Cipher | None,
) -> Reply | None:
    if record.lease is None:
        return None
    ttl = int(record.lease.ttl * 1e6)
    at = to_microseconds(instant)
    stamp = to_microseconds(record.updated_at)
    row = (record.version, stamp, checkpoint_of(record, cipher), record.head)
    where = (
        record.run_id,
        change.expected_version,
        change.expected_head,
        guard.fencing_token,
    )
    # The deadline is guarded and looked at in one go; only near its end is it moved.
    far = max(at, at + ttl // 2 - 1)
    if conn.execute(sql.SAVE_CHECKPOINT, (*row, *where, far)).rowcount == 1:
        return Reply(instant, None, False)
    until = at + ttl
    written = conn.execute(sql.SAVE_CHECKPOINT_AND_RENEW, (*row, until, *where, at))
    return Reply(instant, from_microseconds(until), True) if written.rowcount == 1 else None


def _advance(
    conn: sqlite3.Connection,
    change: Change,
    record: RunRecord,
    guard: Guard | None,
    instant: datetime,
    cipher: Cipher | None,
) -> Reply | None:
    at = to_microseconds(instant)
    ready_at = _ready_at(record, at)
    row = (
        record.status.value,
        record.version,
        record.fencing_token,
        ready_at,
        to_microseconds(record.updated_at),
        checkpoint_of(record, cipher),
        record.head,
        body_of(record, cipher),
    )
    if change.expected_version == 0:
        if record.fencing_token and not is_of(record.fencing_token, epoch_of(conn)):
            return None
        created = to_microseconds(record.created_at)
        values = (record.run_id, record.kind, *row[:4], created, *row[4:], record.parent_run_id)
        written = conn.execute(sql.CREATE_RUN, values)
    else:
        where: tuple[Any, ...] = (record.run_id, change.expected_version, change.expected_head)
        if guard is None:
            statement = sql.ADVANCE
        else:
            statement = sql.ADVANCE_LIVE if guard.lease == "live" else sql.ADVANCE_EXPIRED
            where += (guard.fencing_token, at)
        written = conn.execute(statement, (*row, *where))
    if written.rowcount != 1:
        return None
    if record.lease is None or ready_at is None:
        return Reply(instant, None, False)
    return Reply(instant, from_microseconds(ready_at), True)


def _ready_at(record: RunRecord, at: int) -> int | None:
    if record.lease is not None:
        return at + int(record.lease.ttl * 1e6)
    if record.status != "queued":
        return None
    return at if record.available_at is None else to_microseconds(record.available_at)
