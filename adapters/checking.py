"""verify, anchor and rebuild for one open journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..domain.audit import BreakAcknowledged
from ..domain.checks import refuse
from ..domain.history_store import TABLES, Table
from ..projections.anchor import AnchorFile, read_anchor, write_anchor
from ..projections.rebuild import Repaired, rebuild
from ..projections.streams import Finding
from ..projections.verify import Progress, verify
from .audit import AuditLog
from .codec import OrjsonCodec
from .projecting.rebuilding import RebuildProgress

if TYPE_CHECKING:
    from .stopping import Interrupt


@dataclass(slots=True)
class Verification:
    """What `verify` came to.

    events        how many were read
    findings      what is wrong and new
    acknowledged  what is wrong and known: the finding, and who said so
    """

    events: int = 0
    findings: list[Finding] = field(default_factory=list)
    acknowledged: list[tuple[Finding, BreakAcknowledged]] = field(default_factory=list)


def verify_journal(
    store: Any, codec: OrjsonCodec, anchor: Path | None, progress: Progress
) -> Verification:
    """Check all of it; see projections.verify. Raises RUN_VALIDATION_ERROR / anchor."""
    done = Verification()
    known = AuditLog(store, codec).acknowledged()

    def count(events: int) -> None:
        done.events += events
        progress(events)

    with _opened(anchor) as expected:
        for finding in verify(store, codec, count, expected):
            acknowledgement = known.get(finding.fingerprint)
            if acknowledgement is None:
                done.findings.append(finding)
            else:
                done.acknowledged.append((finding, acknowledgement))
    return done


class _opened:  # noqa: N801 - used as a context manager only
    """The anchor of a file: read once to see that it is whole, then again beside the journal."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: Any = None

    def __enter__(self) -> AnchorFile | None:
        if self._path is None:
            return None
        name = str(self._path)
        try:
            with self._path.open(encoding="utf-8") as first:
                for _ in read_anchor(first, name):
                    pass
            self._file = self._path.open(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise refuse("anchor", f"{name} cannot be read: {e}") from e
        return AnchorFile(read_anchor(self._file, name))

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def anchor_lines(store: Any, codec: OrjsonCodec) -> Iterator[str]:
    """The lines of an anchor of the journal as it is now."""
    return write_anchor(store, codec, store.now())


def rebuild_table(
    store: Any,
    codec: OrjsonCodec,
    name: str,
    progress: Callable[[RebuildProgress], object] | None,
    interrupt: Interrupt | None,
) -> Repaired:
    """Rebuild one of the tables that are written together with the events.

    Raises RUN_CONFLICT / already_running when somebody else rebuilds it.
    """
    if name not in TABLES:
        raise refuse("argument", f"there is no table {name!r}; there are {', '.join(TABLES)}")
    table: Table = name
    read = 0
    head = store.max_notification_id() or 0

    def count(events: int) -> None:
        nonlocal read
        read += events
        if progress is not None:
            progress(RebuildProgress(read, head, events))

    with store.exclusive(f"rebuild_{table}") as hold:
        return rebuild(
            store, codec, table, hold, count, lambda: interrupt is not None and interrupt.is_set()
        )
