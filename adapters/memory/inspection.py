"""Looking at a whole journal in memory: the InspectionStore port."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ...domain.delivery import DeliveryStatus
from ...projections.inspection import Check, DeliveryGroup, RunGroup, Survey
from .deliveries import DeliveryRow, MemoryDeliveries

if TYPE_CHECKING:
    from .store import Row


class MemoryInspection(MemoryDeliveries):
    """What MemoryStore does for a look at the whole."""

    rows: dict[str, Any]

    def survey(self) -> Survey:
        with self._open() as tables:
            now = self.now()
            runs = defaultdict[tuple[str, str], "list[Row]"](list)
            for row in self.rows.values():
                runs[row.record.kind, row.record.status.value].append(row)
            deliveries = defaultdict[str, list[DeliveryRow]](list)
            for sent in self.outbox.values():
                deliveries[sent.record.status.value].append(sent)
            groups = []
            for (kind, status), some in runs.items():
                due = [r.ready_at for r in some if r.ready_at is not None and r.ready_at <= now]
                aside = sum(row.attention is not None for row in some)
                oldest = min(row.record.updated_at for row in some)
                events = sum(row.record.version for row in some)
                since = min(due, default=None)
                groups.append(
                    RunGroup(kind, status, len(some), len(due), since, aside, oldest, events)
                )
            return Survey(
                now,
                groups,
                [self._delivery_group(status, some) for status, some in deliveries.items()],
                len(tables.log),
                sum(len(event.state) for event in tables.log if event is not None),
            )

    def _delivery_group(self, status: str, some: list[DeliveryRow]) -> DeliveryGroup:
        undelivered = status != DeliveryStatus.DELIVERED
        return DeliveryGroup(
            status,
            len(some),
            sum(row.record.version for row in some),
            sum(row.record.needs_attention and row.attention is None for row in some),
            sum(row.attention is not None for row in some),
            min(row.record.created_at for row in some) if undelivered else None,
        )

    def undelivered_refs(self, limit: int) -> list[str]:
        with self._open():
            return sorted(
                {
                    row.record.delivery_ref
                    for row in self.outbox.values()
                    if row.record.status is not DeliveryStatus.DELIVERED
                }
            )[:limit]

    def settings(self) -> list[Check]:
        message = "the journal is in this process's memory and ends with it"
        fix = "use SQLite or Postgres for what shall last"
        return [Check("durability", "warn", message, fix)]
