"""verify, anchor and rebuild for one open journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..domain.audit import BreakAcknowledged
from ..domain.checks import refuse
from ..domain.history_store import TABLES, ExclusiveHold, Table
from ..domain.ports import PayloadCodec
from ..projections.anchor import AnchorFile, read_anchor, write_anchor
from ..projections.findings import Finding
from ..projections.parts import WHOLE, Part
from ..projections.rebuild import EVERY, FINDINGS_KEPT, Repaired, rebuild
from ..projections.verify import Progress, verify
from .audit import AuditLog
from .codec import OrjsonCodec
from .projecting.rebuilding import RebuildProgress

if TYPE_CHECKING:
    from .part_processes import PartProcesses
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
    store: Any,
    codec: OrjsonCodec,
    anchor: Path | None,
    progress: Progress,
    processes: PartProcesses | None,
) -> Verification:
    """Check all of it; see projections.verify. Raises RUN_VALIDATION_ERROR / anchor."""
    done = Verification()
    known = AuditLog(store, codec).acknowledged()

    def count(events: int) -> None:
        done.events += events
        progress(events)

    for finding in (
        found_in(store, codec, anchor, count)
        if processes is None
        else _found_by(processes, store, anchor, count)
    ):
        acknowledgement = known.get(finding.fingerprint)
        if acknowledgement is None:
            done.findings.append(finding)
        else:
            done.acknowledged.append((finding, acknowledgement))
    return done


def found_in(
    store: Any, codec: PayloadCodec, anchor: Path | None, progress: Progress, part: Part = WHOLE
) -> Iterator[Finding]:
    """What is wrong in a part of the journal, acknowledged or not."""
    with _opened(anchor, part) as expected:
        yield from verify(store, codec, progress, expected, part)


def _found_by(
    processes: PartProcesses, store: Any, anchor: Path | None, progress: Progress
) -> Iterator[Finding]:
    with _opened(anchor, WHOLE):  # is it whole? Then no child has to ask
        pass
    work = ["verify"] if anchor is None else ["verify", "--anchor", str(anchor)]
    found: list[tuple[int, Finding]] = []
    parts = processes.divided(store, WHOLE)
    for at, message in processes.run(work, parts, lambda: False):
        if "events" in message:
            progress(message["events"])
        if "finding" in message:
            found.append((at, Finding(*message["finding"])))
    yield from (finding for _, finding in sorted(found, key=lambda f: f[0]))


class _opened:  # noqa: N801 - used as a context manager only
    """The anchor of a file: read once to see that it is whole, then again beside the journal.

    For a part it is not read once more each time: who divided the journal has seen to that.
    """

    def __init__(self, path: Path | None, part: Part) -> None:
        self._path = path
        self._part = part
        self._file: Any = None

    def __enter__(self) -> AnchorFile | None:
        if self._path is None:
            return None
        name = str(self._path)
        try:
            if self._part == WHOLE:
                with self._path.open(encoding="utf-8") as first:
                    for _ in read_anchor(first, name):
                        pass
            self._file = self._path.open(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            raise refuse("anchor", f"{name} cannot be read: {e}") from e
        after, upto = self._part
        return AnchorFile(
            anchored
            for anchored in read_anchor(self._file, name)
            if anchored.stream > after and (upto is None or anchored.stream <= upto)
        )

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
    processes: PartProcesses | None,
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

    def stopped() -> bool:
        return interrupt is not None and interrupt.is_set()

    with store.exclusive(f"rebuild_{table}") as hold:
        if processes is None:
            return rebuild(store, codec, table, hold, count, stopped)
        return _rebuilt_by(processes, store, table, hold, count, stopped)


class _HeldElsewhere:
    """The hold of the process that divided the work: a pipe to it ends with it."""

    def check(self) -> None:
        pass


def rebuilt_in(
    store: Any, codec: PayloadCodec, table: Table, progress: Progress, part: Part
) -> Repaired:
    """Put right the rows of a part of a table, for a process that holds the rebuild."""
    return rebuild(store, codec, table, _HeldElsewhere(), progress, lambda: False, part)


def _rebuilt_by(
    processes: PartProcesses,
    store: Any,
    table: Table,
    hold: ExclusiveHold,
    progress: Progress,
    stopped: Callable[[], bool],
) -> Repaired:
    store.recreate(table)
    done = Repaired(0, 0, ())
    findings: list[tuple[int, Finding]] = []
    parts = processes.divided(store, EVERY[table])
    for at, message in processes.run(["rebuild", table], parts, stopped):
        hold.check()
        if "events" in message:
            progress(message["events"])
        if "finding" in message:
            findings.append((at, Finding(*message["finding"])))
        if "done" in message:
            last = message["done"]
            done = Repaired(done.streams + last["streams"], done.repaired + last["repaired"], ())
    in_order = [finding for _, finding in sorted(findings, key=lambda f: f[0])]
    return done._replace(findings=tuple(in_order[:FINDINGS_KEPT]))
