"""Removing ended runs, in memory: the PruneStore port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from eventsourcing.persistence import IntegrityError

from ...domain.delivery import DELIVERY_STREAM, DeliveryRecord
from ...domain.events import RUN_STREAM, run_stream
from ...domain.prune_store import Burying
from ...domain.pruning import Ended
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone
from ...projections.whole import expected_delivery
from .deliveries import MemoryDeliveries
from .recorder import Commit, Tables, library_event

if TYPE_CHECKING:
    from .store import Row


class MemoryPruning(MemoryDeliveries):
    """What MemoryStore does for pruning."""

    rows: dict[str, Row]

    def __init__(self, tables: Tables | None = None) -> None:
        super().__init__(tables)
        #: By stream and audit version.
        self.graves: dict[tuple[str, int], Tombstone] = {}

    def buried(self, run_id: str) -> RunRecord | None:
        with self._open():
            found = self.tombstones_of([run_stream(run_id)])
            return None if not found else found[run_stream(run_id)].record

    def buried_other(self, stream: str, record: RunRecord) -> bool:
        """Whether another run of this name was pruned."""
        one = record.version, record.head
        graves = self.graves.values()
        return any(t.stream == stream and (t.version, t.head) != one for t in graves)

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        with self._open():
            records = [row.record for row in self.rows.values() if row.record.is_terminal]
            places = sorted((r.updated_at, r.run_id.encode(), r) for r in records)
            begin = None if after is None else (after[0], after[1].encode())
            found = [r for at, key, r in places if at < before and (not begin or (at, key) > begin)]
            return self._facts(found[:limit])

    def prune(self, run_ids: Sequence[str], bury: Burying) -> bool:
        with self._open() as tables:
            rows = [self.rows[run_id] for run_id in run_ids if run_id in self.rows]
            burial = bury(self._facts([r.record for r in rows if r.record.is_terminal]))
            if burial is None:
                return True
            audit = burial.audit
            if next(reversed(tables.versions.get(audit.stream, [])), 0) >= audit.version:
                return False
            streams = {t.stream for t in burial.tombstones}
            writes: list[Callable[[], None]] = [partial(self._remove, streams)]
            writes += self._graves(burial.tombstones)
            try:
                tables.publish(Commit((library_event(audit),), None, tuple(writes)))
            except IntegrityError:
                return False
            return True

    def tombstones_of(self, streams: Sequence[str]) -> dict[str, Tombstone]:
        asked = set(streams)
        with self._open():
            # In the order of their audit versions, so the last one of a stream stays.
            return {t.stream: t for _, t in sorted(self.graves.items()) if t.stream in asked}

    def tombstones(self, after: tuple[int, str], limit: int) -> list[Tombstone]:
        with self._open():
            places = sorted((t.audit_version, t.stream.encode(), t) for t in self.graves.values())
            begin = after[0], after[1].encode()
            return [t for version, name, t in places if (version, name) > begin][:limit]

    def add_tombstones(self, tombstones: Sequence[Tombstone]) -> int:
        with self._open() as tables:
            new = [t for t in tombstones if t[:2] not in self.graves]
            tables.publish(Commit(rows=tuple(self._graves(new))))
            return len(new)

    def _graves(self, tombstones: Sequence[Tombstone]) -> list[Callable[[], None]]:
        return [partial(self.graves.__setitem__, t[:2], t) for t in tombstones]

    def _remove(self, streams: set[str]) -> None:
        self.tables.remove(streams)
        for stream in streams:
            if stream.startswith(RUN_STREAM):
                self.rows.pop(stream.removeprefix(RUN_STREAM), None)
            else:
                self.outbox.pop(stream.removeprefix(DELIVERY_STREAM), None)

    def _facts(self, records: Sequence[RunRecord]) -> list[Ended]:
        live = [row.record for row in self.rows.values() if not row.record.is_terminal]
        children = {r.parent_run_id: r.run_id for r in live}
        last: dict[str, int] = {}
        for position, e in enumerate(self.tables.log, start=1):
            if e is not None:
                last[str(e.originator_id)] = position
        return [
            self._ended(r, children.get(r.run_id), last.get(run_stream(r.run_id)), last)
            for r in records
        ]

    def _ended(
        self, record: RunRecord, child: str | None, position: int | None, last: dict[str, int]
    ) -> Ended:
        delivery: DeliveryRecord | None = None
        name = expected_delivery(record)
        if name is not None:
            row = self.outbox.get(name.removeprefix(DELIVERY_STREAM))
            delivery = None if row is None else row.record
            position = None if position is None else max(position, last.get(name, position))
        return Ended(record.run_id, record.updated_at, record, delivery, child, position)
