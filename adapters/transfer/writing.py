"""Writes an export to its file: all of it or nothing, for its owner's eyes, over nobody's file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ..new_file import new_file


def write_new(path: Path, lines: Iterable[bytes]) -> bytes:
    """Write these lines to a new file; the last one of them. Raises as `new_file` does."""
    last = b""
    with new_file(path, "an export") as temporary, temporary.open("wb") as file:
        for last in lines:
            file.write(last)
    return last
