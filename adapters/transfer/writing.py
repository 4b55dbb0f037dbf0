"""Writes an export to its file: all of it or nothing, for its owner's eyes, over nobody's file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ...domain.checks import refuse


def write_new(path: Path, lines: Iterable[bytes]) -> bytes:
    """Write these lines to a new file, readable for its owner only; the last one of them.

    It appears under its name when it is complete and on disk. Raises RUN_VALIDATION_ERROR /
    argument where there is a file already or no folder, and OSError.
    """
    if path.exists():
        raise _exists(path)
    if not path.parent.is_dir():
        raise refuse("argument", f"there is no folder {str(path.parent)!r}")
    last = b""
    # mkstemp makes files that only their owner can read: an export holds every payload.
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            for last in lines:
                file.write(last)
            file.flush()
            os.fsync(file.fileno())
        # A link, unlike a rename, never takes the place of a file that has come meanwhile.
        os.link(temporary, path)
    except FileExistsError:
        raise _exists(path) from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    sync_folder(path.parent)
    return last


def sync_folder(folder: Path) -> None:
    """The name must survive a power loss as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exists(path: Path) -> Exception:
    return refuse("argument", f"{str(path)!r} exists; an export replaces nothing")
