"""Removing ended runs, in Postgres: the PruneStore port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import psycopg

from ...domain.delivery import DELIVERY_STREAM, DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.events import RUN_STREAM, run_stream
from ...domain.prune_store import Burial, Burying
from ...domain.pruning import Ended
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone
from ...projections.whole import expected_delivery
from ..ciphering import Cipher
from ..rows import delivery_of, moment_or_first, record_of, tombstone_of, tombstone_row
from . import prune_statements as sql
from .log_statements import INSERT_EVENTS
from .recorder import PostgresProcessRecorder
from .session import Session
from .statements import BEGIN, COMMIT, ROLLBACK
from .wire import Statement

#: Runs a statement, in or outside of a transaction.
Run = Callable[..., list[tuple[Any, ...]]]


class PostgresPruning(PostgresProcessRecorder):
    """What PostgresStore does for pruning."""

    cipher: Cipher | None

    def buried(self, run_id: str) -> RunRecord | None:
        found = self.tombstones_of([run_stream(run_id)])
        return None if not found else found[run_stream(run_id)].record

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        rows = self.database.read(sql.ENDED, before, *(after or (None, None)), limit)
        return self._facts(self.database.read, sql.DELIVERIES_OF, rows)

    def prune(self, run_ids: Sequence[str], bury: Burying) -> bool:
        def work(session: Session) -> None:
            session.run(BEGIN)
            rows = session.run(sql.LOCK_ENDED, run_ids)
            burial = bury(self._facts(session.run, sql.LOCK_DELIVERIES, rows))
            if burial is None:
                session.run(ROLLBACK)
            else:
                _bury(session, burial, self.cipher)

        try:
            self.database.transaction(work)
        except RunStoreError as e:
            if isinstance(e.__cause__, psycopg.errors.UniqueViolation):
                return False  # the audit log has moved on
            raise
        return True

    def tombstones_of(self, streams: Sequence[str]) -> dict[str, Tombstone]:
        rows = self.database.read(sql.TOMBSTONES_OF, streams)
        return {row[0]: tombstone_of(row, self.cipher) for row in rows}

    def tombstones(self, after: tuple[int, str], limit: int) -> list[Tombstone]:
        rows = self.database.read(sql.TOMBSTONES, *after, limit)
        return [tombstone_of(row, self.cipher) for row in rows]

    def add_tombstones(self, tombstones: Sequence[Tombstone]) -> int:
        # Whether it was carried out twice makes no difference but to the count.
        return len(self.database.read(sql.ADD_TOMBSTONES, *_columns(tombstones, self.cipher)))

    def _facts(
        self, run: Run, deliveries: Statement, rows: Sequence[tuple[Any, ...]]
    ) -> list[Ended]:
        """The runs of these rows, with what may hold them back."""
        ids = [row[0] for row in rows]
        children: dict[str, str] = dict(run(sql.LIVE_CHILDREN, ids)) if rows else {}
        records = {row[0]: record for row in rows if (record := self._readable(row)) is not None}
        names = {r.run_id: name for r in records.values() if (name := expected_delivery(r))}
        keys = [name.removeprefix(DELIVERY_STREAM) for name in names.values()]
        sent = {row[0]: self._sent(row) for row in run(deliveries, keys)} if keys else {}
        places = [(run_stream(r.run_id), r.version) for r in records.values()]
        places += [(DELIVERY_STREAM + key, d.version) for key, d in sent.items() if d is not None]
        found: dict[str, int] = (
            dict(run(sql.POSITIONS, *zip(*places, strict=True))) if places else {}
        )

        def ended(row: tuple[Any, ...]) -> Ended:
            # A damaged run stays, and is gone past.
            run_id, updated_at, child = row[0], moment_or_first(row[7]), children.get(row[0])
            record = records.get(run_id)
            if record is None:
                return Ended(run_id, updated_at, None, None, child, None)
            name = names.get(run_id)
            streams = [run_stream(run_id), *([] if name is None else [name])]
            positions = [found[stream] for stream in streams if stream in found]
            position = max(positions) if len(positions) == len(streams) else None
            delivery = None if name is None else sent.get(name.removeprefix(DELIVERY_STREAM))
            return Ended(run_id, updated_at, record, delivery, child, position)

        return [ended(row) for row in rows]

    def _readable(self, row: tuple[Any, ...]) -> RunRecord | None:
        try:
            return record_of(self.cipher, *row)
        except RunStoreError:
            return None

    def _sent(self, row: tuple[Any, ...]) -> DeliveryRecord | None:
        try:
            return delivery_of(self.cipher, *row)
        except RunStoreError:
            return None


def _bury(session: Session, burial: Burial, cipher: Cipher | None) -> None:
    """Write and remove in one round trip, within a transaction, and commit it."""
    stream, version, topic, data, _hash = burial.audit
    names = [t.stream for t in burial.tombstones]
    runs = _versioned(burial, RUN_STREAM)
    deliveries = _versioned(burial, DELIVERY_STREAM)
    _, _, _, removed, sent = session.run_batch(
        (INSERT_EVENTS, ([stream], [version], [topic], [data])),
        (sql.ADD_TOMBSTONES, _columns(burial.tombstones, cipher)),
        (sql.DELETE_EVENTS, (names,)),
        (sql.DELETE_RUNS, runs),
        (sql.DELETE_DELIVERIES, deliveries),
    )
    if len(removed) + len(sent) != len(names):
        raise AssertionError("a row that was locked is not at the version it was read at")
    session.run(COMMIT)


def _versioned(burial: Burial, prefix: str) -> tuple[list[str], list[int]]:
    mine = [t for t in burial.tombstones if t.stream.startswith(prefix)]
    return [t.stream.removeprefix(prefix) for t in mine], [t.version for t in mine]


def _columns(tombstones: Sequence[Tombstone], cipher: Cipher | None) -> tuple[list[Any], ...]:
    tombstones = [tombstone_row(t, cipher) for t in tombstones]
    return (
        [t.stream for t in tombstones],
        [t.audit_version for t in tombstones],
        [t.version for t in tombstones],
        [t.head for t in tombstones],
        [t.body or b"" for t in tombstones],
    )
