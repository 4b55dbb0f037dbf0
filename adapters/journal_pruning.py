"""JournalPruning: removing runs that ended long ago from a Journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..domain.checks import (
    check_identifiers,
    check_integer,
    check_optional,
    check_text,
    check_time,
    refuse,
)
from .pruning.result import Pruned, Wanted

if TYPE_CHECKING:
    from .codec import OrjsonCodec
    from .pruning.pruner import Pruner
    from .stopping import Interrupt

#: The clocks of two hosts may differ by so much; a cut further ahead is a mistake.
AHEAD = timedelta(minutes=5)


class JournalPruning:
    """prune, once and until nothing is left."""

    _store: Any
    _codec: OrjsonCodec

    def prune(
        self,
        terminal_before: datetime,
        limit: int = 500,
        dry_run: bool = False,
        archive: str | Path | None = None,
        ignore_projections: Iterable[str] = (),
        actor: str | None = None,
        reason: str | None = None,
    ) -> Pruned:
        """Remove runs that ended before a time, the longest ended first, in one transaction.

        terminal_before  an aware time; only what had ended before it goes, whenever it was created
        limit            at most so many runs, 1 to 10,000; fewer where they have very many events
        dry_run          find out what would go, and change nothing
        archive          a file to which they are exported first; `import_from` reads it. It is
                         created where it is not there, and gone on with where it is
        ignore_projections  the names of projections that need not have seen the events
        actor, reason    who asks for it and why; kept in `journal/audit`

        A run is held back while its result is undelivered, while a run that names it as its parent
        has not ended, and while a projection has not passed its events. All events of a run go,
        with its record and its delivery, or none. A tombstone stays: the id cannot be used for
        anything else, and repeated commands are answered.

        Raises RUN_VALIDATION_ERROR / time, argument or export_file before anything is written,
        RUN_CONFLICT / already_running while another prune writes to the archive, and OSError.
        After RUN_OUTCOME_UNKNOWN call it again: what is gone is gone.
        """
        with self._pruner(
            terminal_before, limit, dry_run, archive, ignore_projections, actor, reason
        ) as pruner:
            return pruner.batch()

    def prune_all(
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
        """`prune` again and again until nothing is left; what it came to in all.

        progress   called with what each batch came to
        interrupt  once it is set, it stops between two batches

        Runs that are held back are looked at once, and not again for each batch.
        """
        with self._pruner(
            terminal_before, limit, dry_run, archive, ignore_projections, actor, reason
        ) as pruner:
            total = Pruned(torn=pruner.torn)
            while not total.done:
                batch = pruner.batch()
                total.add(batch)
                if progress is not None:
                    progress(batch)
                if interrupt is not None and interrupt.is_set():
                    break
            return total

    @contextmanager
    def _pruner(
        self,
        terminal_before: datetime,
        limit: int,
        dry_run: bool,
        archive: str | Path | None,
        ignore_projections: Iterable[str],
        actor: str | None,
        reason: str | None,
    ) -> Iterator[Pruner]:
        """What carries out a prune, once all that was asked for was checked."""
        from .pruning.archive import Archive  # who prunes pays for it, not every worker
        from .pruning.pruner import Pruner

        before = check_time(terminal_before, "terminal_before")
        if before > self._store.now() + AHEAD:
            raise refuse("argument", f"terminal_before {before.isoformat()} is in the future")
        wanted = Wanted(
            before,
            check_integer(limit, "limit", least=1, most=10_000),
            check_identifiers(ignore_projections, "projection"),
            check_optional(actor, "actor"),
            check_text(reason, "reason"),
        )
        if archive is None or dry_run:
            yield Pruner(
                self._store, self._codec, wanted, readable=archive is not None, dry_run=dry_run
            )
            return
        pruner = Pruner(self._store, self._codec, wanted, readable=True)
        with Archive(Path(archive), self._store.tombstones_of) as pruner.archive:
            yield pruner
