"""The outbox in SQLite: the DeliveryStore port."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import orjson

from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.delivery_store import DeliveryReading, DueDelivery
from ...domain.errors import RunStoreError
from ...domain.ports import Change
from ..ciphering import Cipher
from ..rows import (
    delivery_body_of,
    readable_deliveries,
    to_microseconds,
)
from . import statements as sql
from .recorder import SQLiteProcessRecorder
from .records import outbox_record_of
from .shapes import Shape

_DUE = Shape("invocation_id TEXT, delivery_ref TEXT")


class SQLiteDeliveries(SQLiteProcessRecorder):
    """What SQLiteStore does for deliveries."""

    cipher: Cipher | None

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        with self.database.reading() as conn:
            row = conn.execute(sql.GET_DELIVERY, (invocation_id,)).fetchone()
        return DeliveryReading(
            None if row is None else outbox_record_of(row, self.cipher), now or datetime.now(UTC)
        )

    def advance_delivery(self, change: Change) -> bool:
        record = change.record
        assert isinstance(record, DeliveryRecord)  # a delivery's change
        where = record.invocation_id, change.expected_version, change.expected_head
        values = (*_columns(record, self.cipher), *where)
        try:
            with self.database.writing() as conn:
                if conn.execute(sql.ADVANCE_DELIVERY, values).rowcount != 1:
                    return False
                for stream, version, topic, data, _hash in change.events:
                    conn.execute(sql.INSERT_EVENT, (stream, version, topic, data))
        except RunStoreError as e:
            if isinstance(e.__cause__, sqlite3.IntegrityError):
                return False  # the stream is already past its expected version
            raise
        return True

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        at = to_microseconds(now or datetime.now(UTC))
        values = (status.value, at, None if refs is None else _array(refs), _array(but), limit)
        with self.database.reading() as conn:
            rows = conn.execute(sql.DUE_DELIVERIES, values).fetchall()
        return [DueDelivery(*_DUE.check(row, f"delivery {row[0]!r}")) for row in rows]

    def deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        statement = sql.DELIVERIES_FOR_ATTENTION if attention else sql.LIST_DELIVERIES
        value = None if status is None else status.value

        def fetch(after: str | None, wanted: int) -> list[tuple[Any, ...]]:
            with self.database.reading() as conn:
                return conn.execute(statement, (value, after, wanted)).fetchall()

        read = partial(outbox_record_of, cipher=self.cipher)
        return readable_deliveries(fetch, read, self.set_aside_delivery, after, limit)

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        with self.database.writing() as conn:
            conn.execute(sql.SET_ASIDE_DELIVERY, (reason, invocation_id))


def write_delivery(conn: sqlite3.Connection, change: Change, cipher: Cipher | None) -> bool:
    """Write a new delivery's events and its row; False if its stream exists already."""
    record = change.record
    assert isinstance(record, DeliveryRecord)  # further changes are deliveries
    try:
        for stream, version, topic, data, _hash in change.events:
            conn.execute(sql.INSERT_EVENT, (stream, version, topic, data))
        identity = (record.invocation_id, record.run_id, record.delivery_ref)
        conn.execute(sql.INSERT_DELIVERY, (*identity, *_columns(record, cipher)))
    except sqlite3.IntegrityError:
        return False  # the version guard is lost
    return True


def _array(names: Sequence[str]) -> str:
    return orjson.dumps(list(names)).decode()


def _columns(record: DeliveryRecord, cipher: Cipher | None) -> tuple[Any, ...]:
    due = record.next_attempt_at
    return (
        record.status.value,
        record.version,
        None if due is None else to_microseconds(due),
        to_microseconds(record.updated_at),
        record.head,
        delivery_body_of(record, cipher),
    )
