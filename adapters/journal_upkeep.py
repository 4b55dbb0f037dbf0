"""JournalUpkeep: checking a Journal, backing it up, and making its tables anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, overload

from ..domain.checks import refuse
from ..projections.findings import Finding
from ..projections.projector import Projector
from ..projections.rebuild import Repaired
from ..projections.verify import quiet
from .audit import AuditLog
from .backup import BackedUp, Restored, back_up, check_restored
from .checking import Verification, anchor_lines, rebuild_table, verify_journal
from .projecting.face import JournalProjections
from .projecting.rebuilding import RebuildProgress, Rebuilt, rebuild_projection

if TYPE_CHECKING:
    from .part_processes import PartProcesses
    from .stopping import Interrupt


class JournalUpkeep(JournalProjections):
    """verify, anchor, acknowledge, backup, restore_check, rebuild."""

    def verify(
        self,
        anchor: str | Path | None = None,
        progress: Callable[[int], None] = quiet,
        processes: PartProcesses | None = None,
    ) -> Verification:
        """Check every stream's hash chain and versions, every record, and the outbox.

        anchor     a file that `anchor` wrote: then a cut tail and a removed run are found as well
        progress   called with how many events were read since the last call
        processes  read parts of the journal beside one another; None: this process reads it

        Goes beside writers, in bounded memory. Raises RUN_VALIDATION_ERROR / anchor.
        """
        path = None if anchor is None else Path(anchor)
        return verify_journal(self._store, self._codec, path, progress, processes)

    def anchor(self) -> Iterator[str]:
        """The lines of an anchor: the version and the head hash of every stream, and a digest.

        Keep them where nobody who can write to the journal can write.
        """
        return anchor_lines(self._store, self._codec)

    def acknowledge(self, findings: Iterable[Finding], actor: str, reason: str) -> None:
        """Put on record, in `journal/audit`, that these findings are known, and by whom.

        They stay findings; `verify` lists them apart from new ones.
        """
        AuditLog(self._store, self._codec).acknowledge(findings, actor, reason)

    def backup(self, path: str | Path, progress: Callable[[int], None] = quiet) -> BackedUp:
        """Write a SQLite journal as it is at this moment to a new file, while writers go on.

        path      the new file: for its owner only, and there when it is complete, verified and on
                  disk
        progress  called with how many events of it were checked since the last call

        `restore_backup` makes a journal of it. Raises RUN_VALIDATION_ERROR / argument for a file
        that exists, a folder that does not, or a journal that is not in SQLite;
        RUN_INTEGRITY_ERROR / damaged_database or unsound for a journal that is not as it was
        written, unless that was acknowledged.
        """
        return back_up(self._store, self._codec, Path(path), progress)

    def restore_check(
        self, actor: str, reason: str, progress: Callable[[int], None] = quiet
    ) -> Restored:
        """Go on with a journal whose server or file may have been put back to an earlier state.

        actor, reason  who says so and why; kept in `journal/audit`
        progress       called with how many events were checked since the last call

        Verifies it, raises the token epoch, passes over positions, and takes the place where it is
        now for its own, so that leases are granted again. Stop nobody for it: holders go on where
        their run is as they left it. Raises RUN_INTEGRITY_ERROR / unsound.
        """
        return check_restored(self._store, self._codec, actor, reason, progress)

    @overload
    def rebuild(
        self,
        projection: str,
        progress: Callable[[RebuildProgress], object] | None = None,
        interrupt: Interrupt | None = None,
        processes: PartProcesses | None = None,
    ) -> Repaired: ...

    @overload
    def rebuild(
        self,
        projection: Projector,
        progress: Callable[[RebuildProgress], object] | None = None,
        interrupt: Interrupt | None = None,
        processes: PartProcesses | None = None,
    ) -> Rebuilt: ...

    def rebuild(
        self,
        projection: str | Projector,
        progress: Callable[[RebuildProgress], object] | None = None,
        interrupt: Interrupt | None = None,
        processes: PartProcesses | None = None,
    ) -> Repaired | Rebuilt:
        """Make a projection anew from the events, while writers and readers go on.

        projection  "run_records" or "delivery_outbox": each row is put right in place where it
                    differs, its deadline apart, and what contradicts the events is reported and
                    left; nothing is sent. Or a projector of your own: new rows are made beside the
                    old ones, which serve until then
        progress    called after each page
        interrupt   once it is set, the rebuild stops; a table keeps what is right already
        processes   put parts of a table right beside one another; None: this process does it

        Raises RUN_CONFLICT: already_running while another rebuild, or the projection's runner, is
        at work; not_projected at an event that your projector cannot project.
        """
        if not isinstance(projection, str):
            if processes is not None:
                raise refuse("argument", "processes rebuild the tables of the journal only")
            return rebuild_projection(self._store, self._codec, projection, progress, interrupt)
        return rebuild_table(self._store, self._codec, projection, progress, interrupt, processes)
