"""JournalUpkeep: checking a Journal, and making its tables anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..domain.ports import RunStore
from ..projections.rebuild import Rebuilt
from ..projections.streams import Finding
from .audit import AuditLog
from .checking import Verification, anchor_lines, rebuild_table, verify_journal
from .codec import OrjsonCodec


def _quiet(_events: int) -> None:
    pass


def _never() -> bool:
    return False


class JournalUpkeep:
    """verify, anchor, acknowledge, rebuild."""

    _store: RunStore
    _codec: OrjsonCodec

    def verify(
        self, anchor: str | Path | None = None, progress: Callable[[int], None] = _quiet
    ) -> Verification:
        """Check every stream's hash chain and versions, every record, and the outbox.

        anchor    a file that `anchor` wrote: then a cut tail and a removed run are found as well
        progress  called with how many events were read since the last call

        Goes beside writers, in bounded memory. Raises RUN_VALIDATION_ERROR / anchor.
        """
        return verify_journal(
            self._store, self._codec, None if anchor is None else Path(anchor), progress
        )

    def anchor(self) -> Iterator[str]:
        """The lines of an anchor: the version and the head hash of every stream, and a digest.

        Keep them where nobody who can write to the journal can write.
        """
        return anchor_lines(self._store, self._codec)

    def acknowledge(self, findings: Iterable[Finding], actor: str, reason: str) -> None:
        """Put on record, in `journal/audit`, that these findings are known, and by whom.

        They stay findings; `verify` lists them apart from new ones.
        """
        log = AuditLog(self._store, self._codec)
        for finding in findings:
            log.acknowledge(finding, actor, reason)

    def rebuild(
        self,
        name: str,
        progress: Callable[[int], None] = _quiet,
        stopped: Callable[[], bool] = _never,
    ) -> Rebuilt:
        """Make `run_records` or `delivery_outbox` anew from the events, in place.

        progress  called with how many events were read since the last call
        stopped   asked now and then; once it says so, the rest stays as it is

        Writers and readers go on. Deadlines stay, nothing is sent, and what contradicts the events
        is reported and left. Raises RUN_CONFLICT / already_running.
        """
        return rebuild_table(self._store, self._codec, name, progress, stopped)
