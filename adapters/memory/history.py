"""Reading everything in order and putting rows right, in memory: the HistoryStore port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from eventsourcing.persistence import IntegrityError

from ...domain.delivery import DeliveryRecord
from ...domain.history_store import Head, Image, Publication, Repair, Table
from ...domain.ports import StoredEvent
from ...domain.record import RunRecord
from ...projections.run_records import due_at
from ..judging import image_of, ready_as_repaired
from .deliveries import DeliveryRow, MemoryDeliveries, put
from .recorder import Commit, library_event

if TYPE_CHECKING:
    from .store import Row


class MemoryHistory(MemoryDeliveries):
    """What MemoryStore does for checking and rebuilding."""

    rows: dict[str, Row]

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        begin = after[0].encode(), after[1]
        found: list[StoredEvent] = []
        with self._open() as tables:
            for stream in sorted(tables.streams, key=str.encode):
                found += [
                    StoredEvent(stream, version, event.topic, event.state)
                    for version, event in sorted(tables.streams[stream].items())
                    if (stream.encode(), version) > begin
                ]
                if len(found) >= limit:
                    break
        return found[:limit]

    def divide(self, events: int) -> list[str]:
        with self._open() as tables:
            ordered = sorted(tables.streams, key=str.encode)
            streams = [s for s in ordered for _ in tables.streams[s]]
        return list(dict.fromkeys(streams[events - 1 :: events]))

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        with self._open():
            keys = sorted(self._table(table), key=str.encode)
            wanted = [
                k
                for k in keys
                if k.encode() > after.encode() and (upto is None or k.encode() <= upto.encode())
            ]
            return [(k, self.image(self._table(table)[k].record)) for k in wanted[:limit]]

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        with self._open():
            rows = self._table(table)
            return {k: self.image(rows[k].record) for k in keys if k in rows}

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        return {key: Head(*image[:3]) for key, image in self.images_of(table, keys).items()}

    def image(self, record: RunRecord | DeliveryRecord) -> Image:
        return image_of(record)

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        with self._open():
            return [self._repair(record, stored) for record, stored in rows]

    def buried_other(self, stream: str, record: RunRecord) -> bool:
        raise NotImplementedError

    def _repair(self, record: RunRecord | DeliveryRecord, stored: int | None) -> bool:
        if isinstance(record, DeliveryRecord):
            if not _is_at(self.outbox.get(record.invocation_id), stored):
                return False
            self.outbox[record.invocation_id] = DeliveryRow(record)
            return True
        row = self.rows.get(record.run_id)
        if not _is_at(row, stored):
            return False
        self.rows[record.run_id] = self.row_of(record, ready_as_repaired(row, record))
        return True

    def recreate(self, table: Table) -> None:
        """A dictionary is always there."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        events, writes = [], list[Callable[[], None]]()
        with self._open() as tables:
            for stream, stored, read, record, held in publications:
                last = next(reversed(tables.versions.get(stream, [])), 0)
                if isinstance(record, RunRecord):
                    there = _is_at(self.rows.get(record.run_id), stored or None)
                    there = there and (stored > 0 or not self.buried_other(stream, record))
                    row = self.row_of(record, due_at(record))
                    writes.append(put(self.rows, record.run_id, row))
                elif isinstance(record, DeliveryRecord):
                    there = _is_at(self.outbox.get(record.invocation_id), stored or None)
                    sent = DeliveryRow(record, held)
                    writes.append(put(self.outbox, record.invocation_id, sent))
                else:
                    there = True
                if not there or last != stored:
                    return False
                events += [library_event(e) for e in read()]
            try:
                tables.publish(Commit(tuple(events), None, tuple(writes)))
            except IntegrityError:
                return False  # two publications of one stream
            return True

    def row_of(self, record: RunRecord, ready_at: datetime | None) -> Row:
        raise NotImplementedError

    def _table(self, table: Table) -> dict[str, Any]:
        return self.rows if table == "run_records" else self.outbox


def _is_at(row: Any, stored: int | None) -> bool:
    return (None if row is None else row.record.version) == stored
