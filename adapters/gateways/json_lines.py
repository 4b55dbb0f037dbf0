"""JsonLinesGateway: appends each delivery to a file, or to stdout, as one line of JSON.

Any number of threads and processes may append to one file. A line is one write, made under a lock
on the file. One that comes out short is taken back under the same lock; where that fails too, or
its process died in the middle, the next line begins with a line break of its own. So a reader
may meet half a line, and that is no JSON; it never meets one that hides the line after it.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...domain.checks import refuse, shown
from ...domain.gateway import DeliveryAmbiguous, DeliveryFailed, DeliveryRequest
from .encoding import encoded

#: Seconds to wait for other processes that append to the file.
PATIENCE = 10.0
#: Seconds between two tries for the lock.
LOOK_EVERY = 0.002


class JsonLinesGateway:
    """Appends one line of JSON per delivery: `DeliveryRequest.as_json()`, and nothing else.

    path  the file, made with mode 0600 when it is not there; its folder must be. "-" is stdout

    A delivery to a file has ended well once its line is on the disk. It may be repeated: a reader
    tells repetitions by their `invocationId`.

    Raises RUN_VALIDATION_ERROR / argument for a path that can name no file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            name = os.fsencode(path) if isinstance(path, str | os.PathLike) else b""
        except ValueError:  # a lone surrogate
            name = b""
        if not name or b"\0" in name:
            raise refuse("argument", f"path must name a file, not {shown(path)}")
        # Absolute at once: the process may change its working directory.
        self._path = None if name == b"-" else Path(os.fsdecode(name)).absolute()

    def deliver(self, request: DeliveryRequest) -> None:
        """Append the line.

        Raises DeliveryFailed when it was not written, DeliveryAmbiguous when it was written and
        may not have reached the disk.
        """
        line = encoded(request) + b"\n"
        if self._path is None:
            _print(line)
        else:
            self._append(self._path, line)

    def _append(self, path: Path, line: bytes) -> None:
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DeliveryFailed(f"{path} cannot be opened: {error.strerror}") from error
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise DeliveryFailed(f"{path} is no regular file")
            with _locked(file, path):
                size = os.fstat(file).st_size
                _write_whole(file, size, line, path)
            _flush(file, path, made=size == 0)
        finally:
            os.close(file)


@contextmanager
def _locked(file: int, path: Path) -> Iterator[None]:
    """Nobody else appends meanwhile. A holder that was stopped keeps nobody waiting for ever."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > end:
                raise DeliveryFailed(f"{path} was locked for {PATIENCE:g} s") from None
            time.sleep(LOOK_EVERY)
        except OSError as error:
            raise DeliveryFailed(f"{path} cannot be locked: {error.strerror}") from error
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _write_whole(file: int, size: int, line: bytes, path: Path) -> None:
    try:
        torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        data = b"\n" + line if torn else line
        written = os.write(file, data)
    except OSError as error:
        raise DeliveryFailed(f"{path} cannot be written: {error.strerror}") from error
    if written < len(data):
        with suppress(OSError):
            os.ftruncate(file, size)
        raise DeliveryFailed(f"{path} took {written} bytes of {len(data)}; is the disk full?")


def _flush(file: int, path: Path, made: bool) -> None:
    try:
        os.fsync(file)
        if made:
            folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise DeliveryAmbiguous(f"{path} may not be on the disk: {error.strerror}") from error


class _Stdout:
    """All gateways that print share it, as they share stdout."""

    lock = threading.Lock()
    torn = False


def _print(line: bytes) -> None:
    with _Stdout.lock:
        data = b"\n" + line if _Stdout.torn else line
        left = memoryview(data)
        try:
            sys.stdout.flush()
            file = _descriptor()
            if file is None:
                sys.stdout.write(data.decode())
                return
            while left:
                left = left[os.write(file, left) :]
            _Stdout.torn = False
        except (OSError, ValueError, AttributeError) as error:  # the latter: closed, or none
            if len(left) < len(data):
                _Stdout.torn = True
            raise DeliveryFailed(f"stdout cannot be written: {error}") from error


def _descriptor() -> int | None:
    """None when stdout is no file, as when a host has put an object of its own in its place."""
    try:
        return sys.stdout.fileno()
    except (OSError, AttributeError):  # io.UnsupportedOperation is an OSError
        return None
