"""The archive of pruned runs: export documents that stand one after another in one file.

Each batch is a document of its own, on disk before its runs are removed. So wherever a prune is
cut off, a document that is not whole holds only runs that are still in the journal.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import orjson

from ...domain.checks import refuse
from ...domain.errors import RUN_CONFLICT, RunStoreError
from ..new_file import sync
from ..transfer.lines import HEADER, SCHEMA, read_event, read_trailer


class Archive:
    """A file to append documents to, held by one prune at a time. Created when it is first needed.

    pruned  given streams: those of them that were pruned
    torn    the streams of a document that an earlier prune could not finish, and that is taken away

    Raises RUN_VALIDATION_ERROR / export_file for a file that is no archive, or has lost its end,
    RUN_VALIDATION_ERROR / argument where there is no folder, RUN_CONFLICT / already_running, and
    OSError.
    """

    def __init__(
        self, path: Path, pruned: Callable[[Sequence[str]], Iterable[str]] = lambda _: ()
    ) -> None:
        self.path = path
        self._pruned = pruned
        self.torn: tuple[str, ...] = ()
        self._file: BinaryIO | None = None
        if not path.parent.is_dir():
            raise refuse("argument", f"there is no folder {str(path.parent)!r}")
        if path.exists():
            self._file = self._opened()

    def append(self, lines: Iterable[bytes]) -> str:
        """Write a whole document; it is on disk when this returns. The digest of its trailer."""
        if self._file is None:
            self._file = self._opened()
        file, last = self._file, b""
        for last in lines:
            file.write(last)
        file.flush()
        os.fsync(file.fileno())
        return str(orjson.loads(last)["digest"])

    def _opened(self) -> BinaryIO:
        """The file at its end, behind the last whole document."""
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)  # it holds every payload
        file = os.fdopen(handle, "r+b")
        try:
            self._hold(file)
            end, self.torn = _whole(file, self.path)
            for stream in self._pruned(self.torn):
                # Not a document that was not finished, but one that was, and has lost its end.
                raise refuse(
                    "export_file", f"{self.path} is cut short, and {stream} is nowhere else"
                )
            file.truncate(end)
            file.seek(end)
            sync(self.path.parent)
        except BaseException:
            file.close()
            raise
        return file

    def _hold(self, file: BinaryIO) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            if e.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise RunStoreError(
                RUN_CONFLICT, "already_running", f"another prune writes to {str(self.path)!r}"
            ) from e

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        self.close()


def _whole(file: BinaryIO, path: Path) -> tuple[int, tuple[str, ...]]:
    """Where the last whole document ends, and which streams come after it."""
    if _ends_whole(file, path):
        return file.seek(0, os.SEEK_END), ()
    end, torn = 0, dict[str, None]()
    file.seek(0)
    for line, document in _documents(file, path):
        if read_trailer(document) is not None:
            end, torn = file.tell(), {}
        elif (found := read_event(document)) is not None:
            torn[found[0].stream] = None
        elif document.get("schema") != SCHEMA:
            raise _foreign(path, line)
    return end, tuple(torn)


def _documents(file: BinaryIO, path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    while line := file.readline():
        number += 1
        if not line.endswith(b"\n"):
            return  # where the prune was cut off
        try:
            document = orjson.loads(line)
        except ValueError:
            raise _foreign(path, number) from None
        if not isinstance(document, dict):
            raise _foreign(path, number)
        yield number, document


def _ends_whole(file: BinaryIO, path: Path) -> bool:
    """Whether it is empty, or an export that ends with a trailer: read at both ends only."""
    file.seek(0)
    first = file.readline(1 << 16)
    if not first:
        return True
    if not HEADER.startswith(first[: len(HEADER)]):
        raise _foreign(path, 1)
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 1000))
    lines = file.read().splitlines(keepends=True)
    try:
        document = orjson.loads(lines[-1]) if lines[-1].endswith(b"\n") else None
    except ValueError:  # the end of a long line
        return False
    return isinstance(document, dict) and read_trailer(document) is not None


def _foreign(path: Path, line: int) -> RunStoreError:
    return refuse("export_file", f"{path}: line {line} is none of an export; nothing was changed")
