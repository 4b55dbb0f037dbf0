"""PruneStore: what removing ended runs needs from a store. Part of the JournalStore port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .pruning import Ended
from .tombstone import Tombstone

if TYPE_CHECKING:
    from .ports import SealedEvent


class Burial(NamedTuple):
    """What a prune writes: tombstones of the streams that go, and the audit event about it.

    Whole runs only: with each run its delivery, where it has one.
    """

    tombstones: tuple[Tombstone, ...]
    audit: SealedEvent


#: Given the runs that are locked now: what to do with them; None: nothing.
Burying = Callable[[Sequence[Ended]], Burial | None]


class PruneStore(Protocol):
    """Storage of tombstones, and the removal of streams.

    Errors every method may raise: as for RunStore.
    """

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        """Runs that ended before an instant, by (when they ended, id), after that place.

        The run at `after` is not among them. Reads in short transactions, and locks nothing.
        """
        ...

    def prune(self, run_ids: Sequence[str], bury: Burying) -> bool:
        """Remove what `bury` says, and write its tombstones and its event, in one transaction.

        `bury` is given those of the runs that have ended, are there and are not locked by anybody
        else, as they are under the lock; it may be called again. Of each stream that it names, the
        events and the row go. The positions are never handed out again.
        Guard of the store: `journal/audit` is not yet at the event's version. False if it is lost.
        """
        ...

    def tombstones_of(self, streams: Sequence[str]) -> dict[str, Tombstone]:
        """The last tombstone of each of these streams that has one."""
        ...

    def tombstones(self, after: tuple[int, str], limit: int) -> list[Tombstone]:
        """All tombstones by (audit_version, stream), after that place."""
        ...

    def add_tombstones(self, tombstones: Sequence[Tombstone]) -> int:
        """Write tombstones that come from elsewhere, in one transaction; how many were new."""
        ...
