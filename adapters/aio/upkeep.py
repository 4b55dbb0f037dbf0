"""AsyncJournalUpkeep: checking, rebuilding and backing up an AsyncJournal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, overload

from ...projections.findings import Finding
from ...projections.projector import Projector
from ...projections.rebuild import Repaired
from ...projections.verify import quiet
from ..backup import BackedUp, Restored
from ..checking import Verification
from ..journal import Journal
from ..projecting.rebuilding import RebuildProgress, Rebuilt
from ..stopping import either
from .iterating import AsyncPages
from .threads import Threads, reporting
from .twins import like

if TYPE_CHECKING:
    from ..part_processes import PartProcesses
    from ..stopping import Interrupt


class AsyncJournalUpkeep:
    """verify and anchor, rebuild, backup."""

    _journal: Journal
    _threads: Threads

    @like(Journal.verify)
    async def verify(
        self,
        anchor: str | Path | None = None,
        progress: Callable[[int], None] = quiet,
        processes: PartProcesses | None = None,
    ) -> Verification:
        return await self._threads.long(
            lambda stop: self._journal.verify(anchor, reporting(stop, progress), processes)
        )

    @like(Journal.anchor)
    def anchor(self) -> AsyncPages[str]:
        return AsyncPages(self._threads, self._journal.anchor)

    @like(Journal.acknowledge)
    async def acknowledge(self, findings: Iterable[Finding], actor: str, reason: str) -> None:
        await self._threads.call(self._journal.acknowledge, findings, actor, reason)

    @like(Journal.backup)
    async def backup(self, path: str | Path, progress: Callable[[int], None] = quiet) -> BackedUp:
        return await self._threads.long(
            lambda stop: self._journal.backup(path, reporting(stop, progress))
        )

    @like(Journal.restore_check)
    async def restore_check(
        self, actor: str, reason: str, progress: Callable[[int], None] = quiet
    ) -> Restored:
        return await self._threads.long(
            lambda stop: self._journal.restore_check(actor, reason, reporting(stop, progress))
        )

    @overload
    async def rebuild(
        self,
        projection: str,
        progress: Callable[[RebuildProgress], object] | None = None,
        interrupt: Interrupt | None = None,
        processes: PartProcesses | None = None,
    ) -> Repaired: ...

    @overload
    async def rebuild(
        self,
        projection: Projector,
        progress: Callable[[RebuildProgress], object] | None = None,
        interrupt: Interrupt | None = None,
        processes: PartProcesses | None = None,
    ) -> Rebuilt: ...

    @like(Journal.rebuild)
    async def rebuild(
        self,
        projection: str | Projector,
        progress: Callable[[RebuildProgress], object] | None = None,
        interrupt: Interrupt | None = None,
        processes: PartProcesses | None = None,
    ) -> Repaired | Rebuilt:
        def work(stop: threading.Event) -> Repaired | Rebuilt:
            both = either(interrupt, stop)
            return self._journal.rebuild(projection, progress, both, processes)

        return await self._threads.long(work)
