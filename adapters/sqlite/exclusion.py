"""Names that one holder at a time may have, between all processes that use the file.

A lock file beside the database carries an flock. The system lets go of it when the process ends,
however it ends, and two stores of one process exclude each other as two processes do. The file
stays: removing it would let two hold the lock, one on the old file and one on the new.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...domain.checks import EXCLUSIVE_NAME, check_plain_name
from ...domain.errors import (
    RUN_CONFLICT,
    RUN_STORE_UNAVAILABLE,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from .recorder import SQLiteRecorder

_holds: weakref.WeakSet[FileHold] = weakref.WeakSet()


class FileHold:
    """The lock on one file, held from the start or refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = _locked(path)
        _holds.add(self)

    def check(self) -> None:
        """Raise if the lock is no longer ours: after a fork, or when its file was removed."""
        if self._descriptor is None or not _is_there(self._path, self._descriptor):
            raise RunStoreError(
                RUN_CONFLICT, "already_running", f"the lock on {self._path} is no longer held here"
            )

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class SQLiteExclusion(SQLiteRecorder):
    """`RunStore.exclusive`."""

    @contextmanager
    def exclusive(self, name: str) -> Iterator[FileHold]:
        check_plain_name(name, "the name to hold", EXCLUSIVE_NAME)
        self.database.check_open()
        # Whoever names the database through a link must meet the same lock.
        database = self.database.path.resolve()
        hold = FileHold(database.with_name(f"{database.name}-{name}.lock"))
        try:
            yield hold
        finally:
            hold.release()


def _locked(path: Path) -> int | None:
    """A descriptor that has the lock on the file of this name."""
    while True:
        try:
            # Reading is enough to lock, so that another user's file will do.
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
        except OSError as e:
            if e.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise RunStoreError(RUN_VALIDATION_ERROR, "read_only", f"{path}: {e}") from e
            raise RunStoreError(RUN_STORE_UNAVAILABLE, "failed", f"{path}: {e}") from e
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            os.close(descriptor)
            raise RunStoreError(
                RUN_CONFLICT, "already_running", f"somebody else holds the lock on {path}"
            ) from e
        except OSError as e:
            os.close(descriptor)
            raise RunStoreError(RUN_STORE_UNAVAILABLE, "failed", f"{path}: {e}") from e
        if _is_there(path, descriptor):
            return descriptor
        os.close(descriptor)  # somebody removed the file in between


def _is_there(path: Path, descriptor: int) -> bool:
    """Whether the descriptor's file is the one that others would lock."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _after_fork_in_child() -> None:
    """Closing leaves the parent's lock alone; keeping it open would keep the lock beyond it."""
    for hold in list(_holds):
        with contextlib.suppress(OSError):
            hold.release()


os.register_at_fork(after_in_child=_after_fork_in_child)
