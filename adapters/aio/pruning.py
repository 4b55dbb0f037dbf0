"""AsyncJournalPruning: the async twin of JournalPruning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ..journal import Journal
from ..pruning.result import Pruned
from ..stopping import either
from .threads import Threads
from .twins import like

if TYPE_CHECKING:
    from ..stopping import Interrupt


class AsyncJournalPruning:
    """prune, once and until nothing is left."""

    _journal: Journal
    _threads: Threads

    @like(Journal.prune)
    async def prune(
        self,
        terminal_before: datetime,
        limit: int = 500,
        dry_run: bool = False,
        archive: str | Path | None = None,
        ignore_projections: Iterable[str] = (),
        actor: str | None = None,
        reason: str | None = None,
    ) -> Pruned:
        asked = (terminal_before, limit, dry_run, archive, ignore_projections, actor, reason)
        return await self._threads.call(self._journal.prune, *asked)

    @like(Journal.prune_all)
    async def prune_all(
        self,
        terminal_before: datetime,
        limit: int = 500,
        dry_run: bool = False,
        archive: str | Path | None = None,
        ignore_projections: Iterable[str] = (),
        actor: str | None = None,
        reason: str | None = None,
        progress: Callable[[Pruned], object] | None = None,
        interrupt: Interrupt | None = None,
    ) -> Pruned:
        asked = (terminal_before, limit, dry_run, archive, ignore_projections, actor, reason)

        def work(stop: threading.Event) -> Pruned:
            return self._journal.prune_all(*asked, progress, either(interrupt, stop))

        return await self._threads.long(work)
