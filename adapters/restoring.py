"""Making a journal of a backup."""

from __future__ import annotations

from pathlib import Path

from ..domain.checks import check_identifier, refuse
from ..domain.registry import EventRegistry
from ..projections.verify import Progress, quiet
from .backup import Restored, begin_epoch, opened_copy
from .ciphering import Cipher
from .new_file import new_file
from .opening import codec_for
from .sqlite.backup import beside_of, copy_backup, make_single


def restore_backup(
    source: str | Path,
    target: str | Path,
    *,
    actor: str,
    reason: str,
    registry: EventRegistry | None = None,
    cipher: Cipher | None = None,
    progress: Progress = quiet,
) -> Restored:
    """Make a new SQLite journal of a backup, in which no token is granted a second time.

    source    the backup's file; it stays as it is
    target    the new journal's file: there must be none, and nothing of SQLite's beside it
    actor     who restores it, and
    reason    why: both are kept in `journal/audit`
    registry, cipher  as for `open_journal`
    progress  called with how many events were checked since the last call

    The new file appears under its name when it was verified, the token epoch was raised and
    positions were passed over. Raises RUN_VALIDATION_ERROR / argument or backup_file,
    RUN_INTEGRITY_ERROR / not_a_journal, newer_database, damaged_database or unsound.
    """
    source, target = Path(source), Path(target)
    check_identifier(actor, "actor")
    check_identifier(reason, "reason")
    for beside in beside_of(target):
        raise refuse("argument", f"{str(beside)!r} exists: another journal is or was at that place")
    codec = codec_for(registry, cipher)
    with new_file(target, "a restore") as temporary:
        copy_backup(source, temporary)
        with opened_copy(temporary, cipher) as copy:
            restored = begin_epoch(copy, codec, "copy", actor, reason, str(source), progress)
        make_single(temporary)
    return restored
