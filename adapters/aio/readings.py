"""AsyncJournalReadings: everything that an AsyncJournal can be asked, changing nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.events import Event
from ...domain.ports import Attention
from ...domain.record import RunRecord
from ...domain.status import RunLifecycleStatus
from ..journal import Journal
from .iterating import AsyncPages
from .threads import Threads
from .twins import like

if TYPE_CHECKING:
    from ...projections.stats import JournalStats
    from ...projections.timeline_parts import Timeline


class AsyncJournalReadings:
    """Events, records, the outbox, and what was set aside."""

    def __init__(self, journal: Journal, threads: Threads) -> None:
        self._journal = journal
        self._threads = threads

    @like(Journal.events)
    def events(self, run_id: str, after_version: int = 0) -> AsyncPages[Event]:
        return AsyncPages(self._threads, partial(self._journal.events, run_id, after_version))

    @like(Journal.get)
    async def get(
        self, run_id: str, version: int | None = None, as_of: datetime | None = None
    ) -> RunRecord | None:
        return await self._threads.call(self._journal.get, run_id, version, as_of)

    @like(Journal.runs)
    async def runs(
        self,
        status: RunLifecycleStatus | str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        return await self._threads.call(self._journal.runs, status, kind, limit, after)

    @like(Journal.deliveries)
    async def deliveries(
        self,
        status: DeliveryStatus | str | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        return await self._threads.call(self._journal.deliveries, status, attention, limit, after)

    @like(Journal.delivery)
    async def delivery(self, invocation_id: str) -> DeliveryRecord | None:
        return await self._threads.call(self._journal.delivery, invocation_id)

    @like(Journal.delivery_events)
    def delivery_events(self, invocation_id: str) -> AsyncPages[Event]:
        return AsyncPages(self._threads, partial(self._journal.delivery_events, invocation_id))

    @like(Journal.timeline)
    async def timeline(self, run_id: str) -> Timeline:
        return await self._threads.call(self._journal.timeline, run_id)

    @like(Journal.report)
    async def report(self, run_ids: Iterable[str], payloads: bool = True) -> str:
        return await self._threads.call(self._journal.report, run_ids, payloads)

    @like(Journal.stats)
    async def stats(self) -> JournalStats:
        return await self._threads.call(self._journal.stats)

    @like(Journal.attention)
    async def attention(self) -> list[Attention]:
        return await self._threads.call(self._journal.attention)
