"""The outbox in Postgres: the DeliveryStore port."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import psycopg

from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.delivery_store import DeliveryReading, DueDelivery
from ...domain.errors import RunStoreError
from ...domain.ports import Change
from ..ciphering import Cipher
from ..rows import delivery_body_of, delivery_of, readable_deliveries
from . import delivery_statements as sql
from .recorder import PostgresProcessRecorder


class PostgresDeliveries(PostgresProcessRecorder):
    """What PostgresStore does for deliveries."""

    cipher: Cipher | None

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        ((*row, server),) = self.database.read(sql.GET_DELIVERY, invocation_id)
        record = None if row[0] is None else delivery_of(self.cipher, *row)
        return DeliveryReading(record, now or server)

    def advance_delivery(self, change: Change) -> bool:
        record = change.record
        assert isinstance(record, DeliveryRecord)  # a delivery's change
        streams, versions, topics, states, _hashes = zip(*change.events, strict=True)
        try:
            rows = self.database.write(
                sql.ADVANCE_DELIVERY,
                record.invocation_id,
                change.expected_version,
                change.expected_head,
                record.status.value,
                record.version,
                record.next_attempt_at,
                record.updated_at,
                record.head,
                delivery_body_of(record, self.cipher),
                streams,
                versions,
                topics,
                states,
            )
        except RunStoreError as e:
            if isinstance(e.__cause__, psycopg.errors.UniqueViolation):
                return False  # the stream is already past its expected version
            raise
        return bool(rows)

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        wanted = None if refs is None else list(refs)
        rows = self.database.read(sql.DUE_DELIVERIES, status.value, now, wanted, list(but), limit)
        return [DueDelivery(*row) for row in rows]

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
            return self.database.read(statement, value, after, wanted)

        def read(row: tuple[Any, ...]) -> DeliveryRecord:
            return delivery_of(self.cipher, *row)

        return readable_deliveries(fetch, read, self.set_aside_delivery, after, limit)

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        self.database.write(sql.SET_ASIDE_DELIVERY, invocation_id, reason)
