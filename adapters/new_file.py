"""A file that appears under its name when it is complete and on disk, over nobody's file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..domain.checks import refuse


@contextmanager
def new_file(path: Path, what: str) -> Iterator[Path]:
    """Give an empty file beside `path` to be written; at the end of the block it gets its name.

    what  what the file is, for the message where there is one already: "an export"

    Readable for its owner only. When the block raises, nothing is left; when the process is killed,
    a file whose name begins with a dot may be. Raises RUN_VALIDATION_ERROR / argument where there
    is a file already or no folder, and OSError.
    """
    if os.path.lexists(path):
        raise _exists(path, what)
    if not path.parent.is_dir():
        raise refuse("argument", f"there is no folder {str(path.parent)!r}")
    # mkstemp makes files that only their owner can read: they hold every payload.
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        sync(temporary)
        # A link, unlike a rename, never takes the place of a file that has come meanwhile.
        os.link(temporary, path)
    except FileExistsError:
        raise _exists(path, what) from None
    finally:
        with suppress(OSError):
            temporary.unlink()
    sync(path.parent)  # the name must survive a power loss as well


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _exists(path: Path, what: str) -> Exception:
    return refuse("argument", f"{str(path)!r} exists; {what} replaces nothing")
