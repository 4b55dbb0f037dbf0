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
from ...projections.run_records import due_at
from ..ciphering import Cipher
from ..images import BEYOND, columns_of, creation, image_of_record, key_of
from ..rows import to_microseconds
from . import history_statements as sql
from .recorder import SQLiteProcessRecorder
from .records import check_key, event_of, head_of, row_image_of
from .statements import INSERT_EVENT, MIGRATIONS


class _LostGuardError(Exception):
    """Rolls a publication back."""


class SQLiteHistory(SQLiteProcessRecorder):
    """What SQLiteStore does for checking and rebuilding."""

    cipher: Cipher | None

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        with self.database.reading() as conn:
            rows = conn.execute(sql.WALK, (*after, limit)).fetchall()
        return [event_of(row) for row in rows]

    def divide(self, events: int) -> list[str]:
        found, last = list[str](), ""
        with self.database.reading() as conn:
            while row := conn.execute(sql.STREAM_AFTER, (last, events - 1)).fetchone():
                last = check_key("events", row[0])
                found.append(last)
        return found

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        with self.database.reading() as conn:
            rows = conn.execute(
                sql.IMAGES[table], (after, BEYOND if upto is None else upto, limit)
            ).fetchall()
        return [row_image_of(table, row, self.cipher) for row in rows]

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        rows = self._rows_of(sql.images_of, table, keys)
        return dict(row_image_of(table, row, self.cipher) for row in rows)

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        return dict(map(head_of, self._rows_of(sql.heads_of, table, keys)))

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
        return image_of_record(record, to_microseconds)

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        with self.database.writing() as conn:
            return [conn.execute(*_repair(*row, self.cipher)).rowcount == 1 for row in rows]

    def recreate(self, table: Table) -> None:
        with self.database.writing() as conn:
            if conn.execute(sql.EXISTS, (sql.NAMES[table],)).fetchone() is None:
                for statement in creation(sql.NAMES[table], MIGRATIONS):
                    conn.execute(statement)

    def publish(self, publications: Sequence[Publication]) -> bool:
        try:
            with self.database.writing() as conn:
                for publication in publications:
                    _publish(conn, publication, self.cipher)
        except _LostGuardError:
            return False
        except RunStoreError as e:
            if isinstance(e.__cause__, sqlite3.IntegrityError):
                return False  # the stream is already past its version
            raise
        return True


def _publish(conn: sqlite3.Connection, publication: Publication, cipher: Cipher | None) -> None:
    stream, stored, events, record, held = publication
    if record is None:
        (last,) = conn.execute(sql.LAST_VERSION, (stream,)).fetchone()
        there = last == stored
    else:
        is_run = isinstance(record, RunRecord)
        columns = columns_of(record, to_microseconds, cipher)
        values = (key_of(record), *columns, _due(record) if is_run else held)
        if stored:
            statement = sql.EXTEND_RUN if is_run else sql.REPAIR_DELIVERY
            values = (*values, stored)
        else:
            statement = sql.INSERT_RUN if is_run else sql.INSERT_DELIVERY
        there = conn.execute(statement, values).rowcount == 1
    if not there:
        raise _LostGuardError
    conn.executemany(INSERT_EVENT, events())


def _repair(
    record: RunRecord | DeliveryRecord, stored: int | None, cipher: Cipher | None
) -> tuple[str, tuple[Any, ...]]:
    is_run = isinstance(record, RunRecord)
    values = (key_of(record), *columns_of(record, to_microseconds, cipher), _due(record))
    if stored is None:
        return (sql.INSERT_RUN if is_run else sql.INSERT_DELIVERY), values
    return (sql.REPAIR_RUN if is_run else sql.REPAIR_DELIVERY), (*values, stored)


def _due(record: RunRecord | DeliveryRecord) -> int | None:
    """The last column of a statement: a run's `ready_at`, or a delivery's mark, which goes."""
    due = due_at(record) if isinstance(record, RunRecord) else None
    return None if due is None else to_microseconds(due)
