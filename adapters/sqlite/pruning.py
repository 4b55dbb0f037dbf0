"""Removing ended runs, in SQLite: the PruneStore port."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...domain.delivery import DELIVERY_STREAM, DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.events import RUN_STREAM, run_stream
from ...domain.prune_store import Burial, Burying
from ...domain.pruning import Ended
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone
from ...projections.whole import expected_delivery
from ..ciphering import Cipher
from ..rows import from_microseconds, moment_or_first, to_microseconds, tombstone_row
from . import prune_statements as sql
from .recorder import SQLiteProcessRecorder
from .records import check_key, outbox_record_of, run_of, tombstone_row_of
from .statements import GET_DELIVERY, INSERT_EVENT


class SQLitePruning(SQLiteProcessRecorder):
    """What SQLiteStore does for pruning."""

    cipher: Cipher | None

    def buried(self, run_id: str) -> RunRecord | None:
        found = self.tombstones_of([run_stream(run_id)])
        return None if not found else found[run_stream(run_id)].record

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        at, run_id = (None, None) if after is None else (to_microseconds(after[0]), after[1])
        with self.database.reading() as conn:
            rows = conn.execute(sql.ENDED, (to_microseconds(before), at, run_id, limit)).fetchall()
            return [self._ended(conn, row) for row in rows]

    def prune(self, run_ids: Sequence[str], bury: Burying) -> bool:
        try:
            with self.database.writing() as conn:
                rows = (conn.execute(sql.ENDED_RUN, (run_id,)).fetchone() for run_id in run_ids)
                burial = bury([self._ended(conn, row) for row in rows if row is not None])
                if burial is not None:
                    self._bury(conn, burial)
        except RunStoreError as e:
            if isinstance(e.__cause__, sqlite3.IntegrityError):
                return False  # the audit log has moved on
            raise
        return True

    def tombstones_of(self, streams: Sequence[str]) -> dict[str, Tombstone]:
        with self.database.reading() as conn:
            rows = (conn.execute(sql.TOMBSTONE, (stream,)).fetchone() for stream in streams)
            found = (tombstone_row_of(row, self.cipher) for row in rows if row is not None)
            return {tombstone.stream: tombstone for tombstone in found}

    def tombstones(self, after: tuple[int, str], limit: int) -> list[Tombstone]:
        with self.database.reading() as conn:
            rows = conn.execute(sql.TOMBSTONES, (*after, limit)).fetchall()
        return [tombstone_row_of(row, self.cipher) for row in rows]

    def add_tombstones(self, tombstones: Sequence[Tombstone]) -> int:
        with self.database.writing() as conn:
            stored = (tombstone_row(t, self.cipher) for t in tombstones)
            return sum(conn.execute(sql.ADD_TOMBSTONE, t).rowcount for t in stored)

    def _ended(self, conn: sqlite3.Connection, row: tuple[Any, ...]) -> Ended:
        """A run that has ended, with what may hold it back."""
        run_id = check_key("runs", row[0])
        # A damaged run stays, and is gone past.
        ended_at = moment_or_first(row[7], from_microseconds)
        (child,) = conn.execute(sql.LIVE_CHILD, (run_id,)).fetchone() or (None,)
        try:
            record = run_of(row, self.cipher)
        except RunStoreError:
            return Ended(run_id, ended_at, None, None, child, None)
        position = _position(conn, run_stream(run_id), record.version)
        delivery: DeliveryRecord | None = None
        name = expected_delivery(record)
        if name is not None:
            delivery = self._delivery(conn, name)
            sent = _position(conn, name, delivery.version) if delivery else None
            position = None if position is None or sent is None else max(position, sent)
        return Ended(run_id, ended_at, record, delivery, child, position)

    def _delivery(self, conn: sqlite3.Connection, name: str) -> DeliveryRecord | None:
        row = conn.execute(GET_DELIVERY, (name.removeprefix(DELIVERY_STREAM),)).fetchone()
        try:
            return None if row is None else outbox_record_of(row, self.cipher)
        except RunStoreError:
            return None

    def _bury(self, conn: sqlite3.Connection, burial: Burial) -> None:
        # The audit event first: the event with the highest position must stay, and now that is it.
        stream, version, topic, data, _hash = burial.audit
        conn.execute(INSERT_EVENT, (stream, version, topic, data))
        for tombstone in burial.tombstones:
            conn.execute(sql.ADD_TOMBSTONE, tombstone_row(tombstone, self.cipher))
            conn.execute(sql.DELETE_EVENTS, (tombstone.stream,))
            is_run = tombstone.stream.startswith(RUN_STREAM)
            key = tombstone.stream.removeprefix(RUN_STREAM if is_run else DELIVERY_STREAM)
            statement = sql.DELETE_RUN if is_run else sql.DELETE_DELIVERY
            if conn.execute(statement, (key, tombstone.version)).rowcount != 1:
                raise AssertionError(f"{tombstone.stream} is not at the version it was read at")


def _position(conn: sqlite3.Connection, stream: str, version: int) -> int | None:
    row = conn.execute(sql.POSITION, (stream, version)).fetchone()
    return None if row is None else int(row[0])
