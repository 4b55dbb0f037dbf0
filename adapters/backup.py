"""Backing up a journal in SQLite, and going on with one that was put back."""

from __future__ import annotations

import contextlib
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..domain.checks import check_identifier, refuse
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..projections.verify import Progress
from .audit import AuditLog
from .checking import anchor_lines, verify_journal
from .ciphering import Cipher
from .codec import OrjsonCodec
from .new_file import new_file


class BackedUp(NamedTuple):
    """A backup that was verified.

    bytes      the file's size
    streams    how many there are in it, of runs, of deliveries and the journal's own
    events     how many there are in them
    position   of the last event
    epoch      the token epoch
    heads      SHA-256 in hex of an anchor's lines between its first and its last: equal exactly
               where all streams, their versions and their hashes are
    """

    bytes: int
    streams: int
    events: int
    position: int
    epoch: int
    heads: str


class Restored(NamedTuple):
    """A journal that goes on from an earlier state.

    events         how many came back
    last_position  of the last of them
    old_epoch      the token epoch that it had
    epoch          the one that began: every token from now on is above `epoch * 2**32`
    """

    events: int
    last_position: int
    old_epoch: int
    epoch: int


def back_up(store: Any, codec: OrjsonCodec, path: Path, progress: Progress) -> BackedUp:
    """Write the journal as it is at one moment to a new file; see Journal.backup."""
    if not hasattr(store, "copy_online"):
        raise refuse(
            "argument",
            "only a journal in a SQLite file is backed up to a file. On Postgres use pg_dump, or "
            "base backups with the write-ahead log for a point in time, and `runjournal "
            "restore-check` after a restore; `runjournal export --all --output FILE` writes all "
            "runs to a file",
        )
    from .sqlite.backup import check_pages, make_single  # only where it is asked for

    with new_file(path, "a backup") as temporary:
        store.copy_online(temporary)
        check_pages(temporary, "the copy")
        with opened_copy(temporary, codec.cipher) as copy:
            events = _verified(copy, codec, "the copy", progress)
            streams, heads = _heads(copy, codec)
            position, epoch = copy.max_notification_id() or 0, copy.read_epoch()
        make_single(temporary)
        size = temporary.stat().st_size
    return BackedUp(size, streams, events, position, epoch, heads)


def check_restored(
    store: Any, codec: OrjsonCodec, actor: str, reason: str, progress: Progress
) -> Restored:
    """Go on with a journal that was put back where it is; see Journal.restore_check."""
    check_identifier(actor, "actor")
    check_identifier(reason, "reason")
    return begin_epoch(store, codec, "here", actor, reason, "the journal", progress)


def begin_epoch(
    store: Any,
    codec: OrjsonCodec,
    place: Literal["copy", "here"],
    actor: str,
    reason: str,
    name: str,
    progress: Progress,
) -> Restored:
    """Verify the journal, called `name` in messages, and raise its token epoch."""
    events = _verified(store, codec, name, progress)
    began = AuditLog(store, codec).begin_epoch(place, actor, reason)
    return Restored(events, began.last_position, began.old_epoch, began.new_epoch)


def opened_copy(path: Path, cipher: Cipher | None) -> contextlib.closing[Any]:
    """A copy that has no name yet, as a store."""
    from .sqlite.store import SQLiteStore

    # Until it gets its name, nothing of it has to outlive a power loss.
    return contextlib.closing(SQLiteStore(path, "NORMAL", cipher))


def _verified(store: Any, codec: OrjsonCodec, name: str, progress: Progress) -> int:
    """How many events there are, all of them sound or known not to be."""
    done = verify_journal(store, codec, None, progress, None)
    if done.findings:
        first, more = done.findings[0].message, len(done.findings) - 1
        raise RunStoreError(
            RUN_INTEGRITY_ERROR,
            "unsound",
            f"{name}: {first}" + (f", and {more} findings more" if more else ""),
        )
    return done.events


def _heads(store: Any, codec: OrjsonCodec) -> tuple[int, str]:
    """How many streams there are, and the digest of their versions and heads."""
    digest, lines = sha256(), iter(anchor_lines(store, codec))
    next(lines)  # it has the time of writing in it
    streams, last = 0, next(lines)
    for line in lines:
        digest.update(last.encode())
        streams, last = streams + 1, line
    return streams, digest.hexdigest()
