"""AsyncJournalTransfer: exports and imports of an AsyncJournal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...projections.verify import quiet
from ..journal import Journal
from .iterating import AsyncPages
from .threads import Threads, reporting
from .twins import like

if TYPE_CHECKING:
    from ..transfer.lines import Exported
    from ..transfer.publishing import Imported


class AsyncJournalTransfer:
    """Runs with all their events, out to a file and in from one."""

    _journal: Journal
    _threads: Threads

    @like(Journal.export_run)
    async def export_run(self, run_id: str) -> dict[str, Any]:
        return await self._threads.call(self._journal.export_run, run_id)

    @like(Journal.export)
    def export(
        self, run_ids: Iterable[str] | None = None, progress: Callable[[int], object] = quiet
    ) -> AsyncPages[bytes]:
        return AsyncPages(self._threads, lambda: self._journal.export(run_ids, progress))

    @like(Journal.export_to)
    async def export_to(
        self,
        path: str | Path,
        run_ids: Iterable[str] | None = None,
        progress: Callable[[int], object] = quiet,
    ) -> Exported:
        return await self._threads.long(
            lambda stop: self._journal.export_to(path, run_ids, reporting(stop, progress))
        )

    @like(Journal.import_from)
    async def import_from(
        self,
        path: str | Path,
        send_deliveries: bool = False,
        progress: Callable[[int], object] = quiet,
    ) -> Imported:
        return await self._threads.long(
            lambda stop: self._journal.import_from(path, send_deliveries, reporting(stop, progress))
        )
