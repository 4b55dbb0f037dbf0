"""Reading the whole journal in order without a lock and without missing anything.

Positions are drawn when a row is inserted and become visible when its transaction commits, so a
higher one can be seen before a lower one. A reader must not pass such a hole while it may still
fill, and must not wait at one that never will (rolled back, pruned).

Whoever may still fill a hole has inserted into the events table in a transaction that is still
open, and so holds RowExclusiveLock on it. So: on seeing a hole, note who holds that lock. When none
of those is left, and a *later* snapshot still lacks the hole, it is dead, and so is every hole
below the highest position seen before the note was taken. `pg_snapshot_xmax` will not do for this:
it is the last completed transaction id + 1, and a transaction that drew its position late may have
a higher id and still be open.
"""

from __future__ import annotations

from ...domain.errors import RUN_VALIDATION_ERROR, RunStoreError
from .database import Database
from .log_statements import HIGHEST, HOLES, WRITERS


class GapWatch:
    """What the readers of one store have found out about holes. Never stored."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: No hole at or below this position can fill any more.
        self._settled = 0
        self._note: tuple[int, frozenset[str]] | None = None

    def limit(self) -> int:
        """The highest position that may be read: nothing at or below it can appear later."""
        while True:
            highest, hole = self._look()
            if hole is None:
                self._settled = max(self._settled, highest)
                self._note = None
                return highest
            if not self._advance(highest):
                return hole - 1

    def _look(self) -> tuple[int, int | None]:
        """The highest position there is, and the first hole above what is settled."""
        ((highest, standby),) = self._database.read(HIGHEST)
        if standby:
            raise RunStoreError(
                RUN_VALIDATION_ERROR,
                "argument",
                "the journal in order is read on the primary: a standby does not know who may "
                "still write",
            )
        if highest is None or highest <= self._settled:
            return highest or 0, None
        holes = self._database.read(HOLES, self._settled, highest)
        return highest, holes[0][0] if holes else None

    def _advance(self, highest: int) -> bool:
        """Whether more is known than before, so that looking again is worth while."""
        writers = frozenset(writer for (writer, _pid) in self._database.read(WRITERS))
        # Read once: another thread may follow the journal through this watch as well. A note is
        # true whoever took it.
        note = self._note
        if note is None:
            # Who holds the lock now, after the snapshot that showed the hole.
            self._note = (highest, writers)
            return not writers
        seen, noted = note
        if noted & writers:
            return False
        # None of them is left, and the snapshot that `limit` has just taken was later.
        self._settled = max(self._settled, seen)
        self._note = None
        return True

    def writers(self) -> list[tuple[str, int | None]]:
        """Who may still write below the head: virtual transaction and server process id.

        A prepared transaction has no process.
        """
        return [(writer, pid) for writer, pid in self._database.read(WRITERS)]
