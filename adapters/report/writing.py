"""Writes a page to its file: all of it or nothing, for its owner's eyes, over nobody's file."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from ...domain.checks import refuse


def check_target(path: Path, force: bool) -> None:
    """RUN_VALIDATION_ERROR / argument where no page can be written, before any is made."""
    if path.is_dir():
        raise refuse("argument", f"{str(path)!r} is a folder")
    if not path.parent.is_dir():
        raise refuse("argument", f"there is no folder {str(path.parent)!r}")
    if path.exists() and not force:
        raise refuse("argument", f"{str(path)!r} exists; --force replaces it")


def write_page(path: Path, page: str, force: bool) -> int:
    """Write the page, readable for its owner only; its size in bytes.

    It appears under its name when it is complete. Raises as `check_target`, and OSError.
    """
    data = page.encode()
    # mkstemp makes files that only their owner can read: a page may hold payloads.
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        check_target(path, force)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return len(data)
