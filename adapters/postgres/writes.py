"""Which statement writes which changes, and with which values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...domain.delivery import DeliveryRecord
from ...domain.ports import Change, Guard, LeaseRef, Reply
from ...domain.record import RunRecord
from ..rows import body_of, checkpoint_of, delivery_body_of
from . import statements as sql
from .session import Command


def write_command(changes: Sequence[Change], guard: Guard | None, now: datetime | None) -> Command:
    """The statement that writes these changes, and its values."""
    change = changes[0]
    record = change.record
    assert isinstance(record, RunRecord)  # the first change is the run's
    first = change.events[0]
    if (
        guard is not None
        and guard.lease == "live"
        and len(changes) == len(change.events) == 1
        and first.topic == "run.checkpoint_saved"
        and record.lease is not None
    ):
        return sql.SAVE_CHECKPOINT, (
            record.run_id,
            change.expected_version,
            guard.fencing_token,
            now,
            record.updated_at,
            checkpoint_of(record),
            record.head,
            record.lease.ttl,
            first.stream,
            first.topic,
            first.data,
        )
    events = [e for c in changes for e in c.events]
    streams, versions, topics, states, _hashes = zip(*events, strict=True)
    shared = (streams, versions, topics, states, *_delivery(changes), now)
    ttl = None if record.lease is None else record.lease.ttl
    if change.expected_version == 0:
        return sql.CREATE, (
            *shared,
            record.run_id,
            record.kind,
            record.status.value,
            record.version,
            record.fencing_token,
            ttl,
            record.available_at,
            record.created_at,
            record.updated_at,
            checkpoint_of(record),
            record.head,
            body_of(record),
        )
    return sql.ADVANCE, (
        *shared,
        record.run_id,
        change.expected_version,
        record.status.value,
        record.version,
        record.fencing_token,
        ttl,
        record.available_at,
        record.updated_at,
        checkpoint_of(record),
        record.head,
        body_of(record),
        None if guard is None else guard.fencing_token,
        guard is not None and guard.lease == "live",
    )


def _delivery(changes: Sequence[Change]) -> tuple[Any, ...]:
    """The outbox row of the second change; one append has one delivery at most."""
    if len(changes) == 1:
        return (None,) * 9
    record = changes[1].record
    assert len(changes) == 2 and isinstance(record, DeliveryRecord)  # noqa: PT018
    return (
        record.invocation_id,
        record.run_id,
        record.delivery_ref,
        record.status.value,
        record.version,
        record.created_at,
        record.updated_at,
        record.head,
        delivery_body_of(record),
    )


def lease_values(leases: Sequence[LeaseRef]) -> tuple[tuple[Any, ...], ...]:
    """The values of RENEW: a column each of ids, tokens and ttls."""
    return tuple(zip(*leases, strict=True))


def renewals(rows: list[tuple[Any, ...]]) -> dict[str, Reply]:
    """The replies that RENEW's rows hold, by run."""
    return {run_id: Reply(at, ready_at, moved) for run_id, at, ready_at, moved in rows}
