"""Reading everything in order and putting rows right, in Postgres: the HistoryStore port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg.sql import Identifier

from ...domain.delivery import DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.history_store import Head, Image, Publication, Repair, Table
from ...domain.ports import StoredEvent
from ...domain.record import RunRecord
from ...projections.run_records import due_at
from ..ciphering import Cipher
from ..images import (
    BEYOND,
    columns_of,
    creation,
    image_of,
    image_of_record,
    key_of,
    unreadable_image,
)
from . import history_statements as sql
from .delivery_statements import SET_ASIDE_DELIVERY
from .log_statements import INSERT_EVENTS
from .recorder import PostgresProcessRecorder
from .schema import MIGRATIONS
from .session import Command, Session
from .statements import BEGIN, COMMIT, ROLLBACK

#: Of a publication, so many events and bytes at most are sent in one statement.
EVENTS_SENT = 1000
BYTES_SENT = 4 << 20


class PostgresHistory(PostgresProcessRecorder):
    """What PostgresStore does for checking and rebuilding."""

    cipher: Cipher | None

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        return [StoredEvent(*row) for row in self.database.read(sql.WALK, *after, limit)]

    def divide(self, events: int) -> list[str]:
        found, last = list[str](), ""
        while rows := self.database.read(sql.STREAM_AFTER, last, events - 1):
            ((last,),) = rows
            found.append(last)
        return found

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        rows = self.database.read(sql.IMAGES[table], after, BEYOND if upto is None else upto, limit)
        return [self._image(table, row) for row in rows]

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        if not keys:
            return {}
        rows = self.database.read(sql.IMAGES_OF[table], keys)
        return dict(self._image(table, row) for row in rows)

    def _image(self, table: Table, row: tuple[Any, ...]) -> tuple[str, Image]:
        if row[-1]:  # whether it can be read
            return row[0], image_of(table, row[:-1], self.cipher)
        return row[0], unreadable_image(row[1], row[2])

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        rows = self.database.read(sql.HEADS_OF[table], keys)
        return {key: Head(*head) for key, *head in rows}

    def image(self, record: RunRecord | DeliveryRecord) -> Image:
        return image_of_record(record, _as_it_is)

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        commands = [_repair(*row, self.cipher) for row in rows]

        def work(session: Session) -> list[bool]:
            _, *written, _ = session.run_batch((BEGIN, ()), *commands, (COMMIT, ()))
            return [bool(answer) for answer in written]

        return self.database.transaction(work)

    def recreate(self, table: Table) -> None:
        schema = self.database.schema
        ((exists,),) = self.database.read(sql.EXISTS, schema, sql.NAMES[table])
        if exists:
            return

        def work(session: Session) -> None:
            with session.connection.transaction():
                path = Identifier(schema).as_string(None)
                session.connection.execute(f"SET LOCAL search_path TO {path}".encode())
                for statement in creation(sql.NAMES[table], MIGRATIONS):
                    session.connection.execute(statement.encode())

        self.database.transaction(work)

    def publish(self, publications: Sequence[Publication]) -> bool:
        def work(session: Session) -> bool:
            session.run(BEGIN)
            for publication in publications:
                if not _publish(session, publication, self.cipher):
                    session.run(ROLLBACK)
                    return False
            session.run(COMMIT)
            return True

        try:
            return self.database.transaction(work)
        except RunStoreError as e:
            if isinstance(e.__cause__, psycopg.errors.UniqueViolation):
                return False  # the stream is already past its version
            raise


def _publish(session: Session, publication: Publication, cipher: Cipher | None) -> bool:
    """Write one stream within a transaction: its row first, as an append locks it first."""
    stream, stored, events, record, held = publication
    if record is None:
        ((last,),) = session.run(sql.LAST_VERSION, stream)
        there = bool(last == stored)
    else:
        is_run = isinstance(record, RunRecord)
        statement, values = _repair(record, stored or None, cipher)
        if is_run and stored:
            statement = sql.EXTEND_RUN
        there = bool(session.run(statement, *values))
        if there and held is not None and not is_run:
            session.run(SET_ASIDE_DELIVERY, publication.stream.partition("/")[2], held)
    if there:
        for rows in _in_batches(events()):
            session.run(INSERT_EVENTS, *zip(*rows, strict=True))
    return there


def _in_batches(events: Iterator[StoredEvent]) -> Iterator[list[StoredEvent]]:
    batch, size = list[StoredEvent](), 0
    for event in events:
        batch.append(event)
        size += len(event.data)
        if len(batch) >= EVENTS_SENT or size >= BYTES_SENT:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _repair(
    record: RunRecord | DeliveryRecord, stored: int | None, cipher: Cipher | None
) -> Command:
    values = (key_of(record), *columns_of(record, _as_it_is, cipher))
    guard = () if stored is None else (stored,)
    if isinstance(record, RunRecord):
        statement = sql.INSERT_RUN if stored is None else sql.REPAIR_RUN
        return statement, (*values, due_at(record), *guard)
    statement = sql.INSERT_DELIVERY if stored is None else sql.REPAIR_DELIVERY
    return statement, (*values, *guard)


def _as_it_is(moment: datetime) -> datetime:
    return moment
