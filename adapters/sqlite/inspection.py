"""Looking at a whole journal in SQLite: the InspectionStore port."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ...projections.inspection import Check, DeliveryGroup, RunGroup, Survey
from ..indexes import missing_indexes
from ..rows import to_microseconds
from . import inspection_statements as sql
from .projection_statements import LAST_POSITION
from .recorder import SQLiteProcessRecorder
from .records import moment_of
from .shapes import Shape, damaged
from .statements import MIGRATIONS

_RUN_GROUP = Shape("kind TEXT, status TEXT")
_DELIVERY_GROUP = Shape("status TEXT")
_REF = Shape("delivery_ref TEXT")

#: Where Linux tells what is mounted; elsewhere nothing is said of the file system.
MOUNTS = Path("/proc/self/mountinfo")
#: File systems of another host, or of another system's kernel: their locks do not reach that far.
NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"9p", "afs", "ceph", "cifs", "fuse.glusterfs", "fuse.sshfs", "lustre", "nfs", "nfs4", "smb3"}
)
_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


class SQLiteInspection(SQLiteProcessRecorder):
    """What SQLiteStore does for a look at the whole."""

    def survey(self) -> Survey:
        with self.database.reading() as conn, conn:
            conn.execute("BEGIN")  # one snapshot
            now = datetime.now(UTC)
            runs = conn.execute(sql.RUN_GROUPS, (to_microseconds(now),)).fetchall()
            deliveries = conn.execute(sql.DELIVERY_GROUPS).fetchall()
            (position,) = conn.execute(LAST_POSITION).fetchone()
        return Survey(
            now,
            [_run_group(row) for row in runs],
            [_delivery_group(row) for row in deliveries],
            position or 0,
            _size(self.database.path),
        )

    def undelivered_refs(self, limit: int) -> list[str]:
        with self.database.reading() as conn:
            rows = conn.execute(sql.UNDELIVERED_REFS, (limit,)).fetchall()
        return [_REF.check(row, "a delivery")[0] for row in rows]

    def settings(self) -> list[Check]:
        with self.database.reading() as conn:
            (mode,) = conn.execute(sql.JOURNAL_MODE).fetchone()
            (level,) = conn.execute(sql.SYNCHRONOUS).fetchone()
            names = {name for (name,) in conn.execute(sql.INDEXES)}
        checks = [
            _judged_mode(str(mode)),
            _judged_level(_SYNCHRONOUS.get(level, str(level))),
            missing_indexes(MIGRATIONS, names),
        ]
        kind = file_system_of(self.database.path)
        return checks if kind is None else [*checks, _judged_file_system(kind)]


def file_system_of(path: Path) -> str | None:
    """The type of the file system that the file is on; None where that cannot be told."""
    try:
        lines = MOUNTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    there, found, longest = path.resolve(), None, -1
    for line in lines:
        before, _, after = line.partition(" - ")
        # Spaces in the name of a folder are written in octal.
        point = before.split()[4].encode().decode("unicode_escape")
        if there.is_relative_to(point) and len(point) >= longest:
            found, longest = after.split()[0], len(point)
    return found


def _judged_mode(mode: str) -> Check:
    if mode == "wal":
        return Check("journal_mode", "pass", "journal_mode is WAL")
    return Check(
        "journal_mode",
        "fail",
        f"journal_mode is {mode.upper()}: readers and writers keep each other waiting",
        "close every other program that has the file open, and open the journal once",
    )


def _judged_level(level: str) -> Check:
    if level in ("FULL", "EXTRA"):
        return Check("synchronous", "pass", f"synchronous is {level}")
    return Check(
        "synchronous",
        "warn",
        f"synchronous is {level}: a power loss may take the last commits back",
        "leave ?synchronous=normal out of the address, unless that was meant",
    )


def _judged_file_system(kind: str) -> Check:
    if kind not in NETWORK_FILE_SYSTEMS:
        return Check("file_system", "pass", f"the file is on {kind}")
    return Check(
        "file_system",
        "fail",
        f"the file is on {kind}: SQLite's locks do not hold between hosts",
        "move the file to a local disk, or use Postgres",
    )


def _size(path: Path) -> int:
    """Of the file and its log."""
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def _run_group(row: tuple[Any, ...]) -> RunGroup:
    kind, status, count, due, since, aside, oldest, events, fit = row
    what = f"a run of kind {kind!r} with status {status!r}"
    if not fit or not _RUN_GROUP.fits((kind, status)):
        raise damaged(f"{what} has a column of another type")
    return RunGroup(
        kind, status, count, due, _moment(since, what), aside, moment_of(oldest, what), events
    )


def _delivery_group(row: tuple[Any, ...]) -> DeliveryGroup:
    status, count, events, waiting, aside, since, fit = row
    what = f"a delivery with status {status!r}"
    if not fit or not _DELIVERY_GROUP.fits((status,)):
        raise damaged(f"{what} has a column of another type")
    return DeliveryGroup(status, count, events, waiting, aside, _moment(since, what))


def _moment(microseconds: Any, what: str) -> datetime | None:
    return None if microseconds is None else moment_of(microseconds, what)
