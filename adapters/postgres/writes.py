"""Which statement writes which changes, and with which values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...domain.delivery import DeliveryRecord
from ...domain.ports import Change, Guard, LeaseRef, Reply
from ...domain.record import RunRecord
from ..ciphering import Cipher
from ..rows import body_of, checkpoint_of, delivery_body_of
from . import append_statements as sql
from .session import Command
from .wire import Beyond


def write_command(
    changes: Sequence[Change], guard: Guard | None, now: datetime | None, cipher: Cipher | None
) -> Command:
    """The statement that writes these changes, and its values."""
    change = changes[0]
    record = change.record
    assert isinstance(record, RunRecord)  # the first change is the run's
    one_event = len(changes) == len(change.events) == 1
    if (
        one_event
        and guard is not None
        and guard.lease == "live"
        and change.events[0].topic == "run.checkpoint_saved"
        and record.lease is not None
    ):
        return sql.SAVE_CHECKPOINT, (
            record.run_id,
            change.expected_version,
            change.expected_head,
            record.version,
            guard.fencing_token,
            now,
            record.updated_at,
            checkpoint_of(record, cipher),
            record.head,
            record.lease.ttl,
            *_event(change),
        )
    values = _run(record, now, cipher)
    events = _event(change) if one_event else _events(changes, cipher)
    if change.expected_version == 0:
        statement = sql.CREATE if one_event else sql.CREATE_MANY
        return statement, (*values, record.kind, record.created_at, record.parent_run_id, *events)
    token = None if guard is None else guard.fencing_token
    live = guard is not None and guard.lease == "live"
    statement = sql.ADVANCE if one_event else sql.ADVANCE_MANY
    expected = change.expected_version, change.expected_head
    return statement, (*values, *expected, token, live, *events)


def grant_command(
    changes: Sequence[Change], now: datetime | None, cipher: Cipher | None
) -> Command:
    """The statement that grants or ends a run inside the claim that has locked its row."""
    change = changes[0]
    assert isinstance(change.record, RunRecord)  # the first change is the run's
    if len(changes) > 1 or len(change.events) > 1:
        return write_command(changes, None, now, cipher)
    values = _run(change.record, now, cipher)
    return sql.GRANT, (*values, change.expected_version, *_event(change))


def _run(record: RunRecord, now: datetime | None, cipher: Cipher | None) -> tuple[Any, ...]:
    return (
        now,
        record.run_id,
        record.status.value,
        record.version,
        record.fencing_token,
        None if record.lease is None else record.lease.ttl,
        record.available_at,
        record.updated_at,
        checkpoint_of(record, cipher),
        record.head,
        body_of(record, cipher),
    )


def _event(change: Change) -> tuple[Any, ...]:
    event = change.events[0]
    return event.stream, event.topic, event.data


def _events(changes: Sequence[Change], cipher: Cipher | None) -> tuple[Any, ...]:
    """A column each of the events, and the outbox row of the second change: one at most."""
    streams, versions, topics, states, _hashes = zip(
        *[e for c in changes for e in c.events], strict=True
    )
    events = streams, versions, topics, states
    if len(changes) == 1:
        return (*events, *(None,) * 8)
    record = changes[1].record
    assert len(changes) == 2 and isinstance(record, DeliveryRecord)  # noqa: PT018
    return (
        *events,
        record.invocation_id,
        record.delivery_ref,
        record.status.value,
        record.version,
        record.next_attempt_at,
        record.updated_at,
        record.head,
        delivery_body_of(record, cipher),
    )


def lease_values(leases: Sequence[LeaseRef]) -> tuple[tuple[Any, ...], ...]:
    """The values of RENEW: a column each of ids, tokens and ttls."""
    return tuple(zip(*leases, strict=True))


def renewals(rows: list[tuple[Any, ...]]) -> dict[str, Reply]:
    """The replies that RENEW's rows hold, by run."""
    return {
        run_id: Reply(at, ready_at, moved)
        for run_id, at, ready_at, moved in rows
        if not isinstance(ready_at, Beyond)  # a damaged one: what became of the lease is not known
    }
