"""Reading everything in order and putting rows right, in SQLite: the HistoryStore port."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from ...domain.delivery import DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.history_store import Head, Image, Publication, Repair, Table
from ...domain.ports import StoredEvent
from ...domain.record import RunRecord
from ..rows import body_of, checkpoint_of, delivery_body_of, to_microseconds
from . import history_statements as sql
from .recorder import SQLiteProcessRecorder
from .statements import INSERT_EVENT, MIGRATIONS


class _LostGuardError(Exception):
    """Rolls a publication back."""


class SQLiteHistory(SQLiteProcessRecorder):
    """What SQLiteStore does for checking and rebuilding."""

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        with self.database.reading() as conn:
            rows = conn.execute(sql.WALK, (*after, limit)).fetchall()
        return [StoredEvent(*row) for row in rows]

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        with self.database.reading() as conn:
            rows = conn.execute(sql.IMAGES[table], (after, upto, limit)).fetchall()
        return [(row[0], _image(row)) for row in rows]

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        return {row[0]: _image(row) for row in self._rows_of(sql.images_of, table, keys)}

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        return {row[0]: Head(*row[1:]) for row in self._rows_of(sql.heads_of, table, keys)}

    def _rows_of(
        self, statement: Callable[[Table, int], str], table: Table, keys: Sequence[str]
    ) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with self.database.reading() as conn:
            for begin in range(0, len(keys), sql.KEYS):
                some = keys[begin : begin + sql.KEYS]
                rows += conn.execute(statement(table, len(some)), some).fetchall()
        return rows

    def image(self, record: RunRecord | DeliveryRecord) -> Image:
        return Image(record.version, record.head, record.status.value, _rest(record))

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        with self.database.writing() as conn:
            return [conn.execute(*_repair(*row)).rowcount == 1 for row in rows]

    def recreate(self, table: Table) -> None:
        with self.database.writing() as conn:
            if conn.execute(sql.EXISTS, (sql.NAMES[table],)).fetchone() is None:
                for statement in sql.creation(table, MIGRATIONS):
                    conn.execute(statement)

    def publish(self, publications: Sequence[Publication]) -> bool:
        try:
            with self.database.writing() as conn:
                for publication in publications:
                    _publish(conn, publication)
        except _LostGuardError:
            return False
        except RunStoreError as e:
            if isinstance(e.__cause__, sqlite3.IntegrityError):
                return False  # the stream is already past its version
            raise
        return True


def _publish(conn: sqlite3.Connection, publication: Publication) -> None:
    stream, stored, events, record, held = publication
    if record is None:
        (last,) = conn.execute(sql.LAST_VERSION, (stream,)).fetchone()
        there = last == stored
    else:
        is_run = isinstance(record, RunRecord)
        image = (record.version, record.head, record.status.value, *_rest(record))
        values = (_key(record), *image, _due(record) if is_run else held)
        if stored:
            statement = sql.EXTEND_RUN if is_run else sql.REPAIR_DELIVERY
            values = (*values, stored)
        else:
            statement = sql.INSERT_RUN if is_run else sql.INSERT_DELIVERY
        there = conn.execute(statement, values).rowcount == 1
    if not there:
        raise _LostGuardError
    conn.executemany(INSERT_EVENT, events())


def _key(record: RunRecord | DeliveryRecord) -> str:
    return record.run_id if isinstance(record, RunRecord) else record.invocation_id


def _repair(record: RunRecord | DeliveryRecord, stored: int | None) -> tuple[str, tuple[Any, ...]]:
    is_run = isinstance(record, RunRecord)
    image = (record.version, record.head, record.status.value, *_rest(record))
    values = (_key(record), *image, _due(record))
    if stored is None:
        return (sql.INSERT_RUN if is_run else sql.INSERT_DELIVERY), values
    return (sql.REPAIR_RUN if is_run else sql.REPAIR_DELIVERY), (*values, stored)


def _image(row: tuple[Any, ...]) -> Image:
    _key, version, head, status, *rest = row
    return Image(version, head, status, tuple(rest))


def _rest(record: RunRecord | DeliveryRecord) -> tuple[Any, ...]:
    """The columns of an image behind its status, in the order of the statements."""
    if isinstance(record, RunRecord):
        return (
            record.kind,
            record.fencing_token,
            to_microseconds(record.created_at),
            to_microseconds(record.updated_at),
            checkpoint_of(record),
            body_of(record),
        )
    due = record.next_attempt_at
    return (
        record.run_id,
        record.delivery_ref,
        None if due is None else to_microseconds(due),
        to_microseconds(record.updated_at),
        delivery_body_of(record),
    )


def _due(record: RunRecord | DeliveryRecord) -> int | None:
    """What a run's `ready_at` is when nothing better is known."""
    if isinstance(record, DeliveryRecord):
        return None
    if record.lease is not None:
        return to_microseconds(record.lease.expires_at)
    if record.status != "queued":
        return None
    return to_microseconds(record.available_at or record.updated_at)
