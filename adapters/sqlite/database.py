"""One SQLite file: its connections, who may write, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ...domain.errors import (
    RUN_INTEGRITY_ERROR,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from .opening import BUSY, check_file, migrate, primary_code

#: Seconds a command waits for other writers unless its lease leaves it less.
PATIENCE = 5.0
#: Bytes to which the write-ahead log shrinks again after a burst. Litestream keeps its own copy
#: of the log, so shrinking on reset does not disturb it, as a forced TRUNCATE checkpoint would.
WAL_LIMIT = 64 << 20

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
#: Python has no name for it yet.
_CONSTRAINT_DATATYPE = 3091
_open_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_hushed: list[Database] = []
_inherited: list[object] = []


class Database:
    """The file's connections: one writer behind a lock, and a stack of readers.

    Threads of this process queue at the lock instead of polling SQLite's; other processes are met
    with short random pauses, because SQLite's own busy handler pauses longer and longer and so
    starves whoever already waited.
    """

    def __init__(self, path: str | Path, synchronous: str = "FULL") -> None:
        self.path = Path(path)
        self._synchronous = synchronous
        self._closed = False
        self._hushed = False
        self._reset()
        if not _is_open_here(self.path):
            check_file(self.path)
        with self._translated(), contextlib.closing(self._connect(PATIENCE * 2)) as conn:
            migrate(conn, self.path, PATIENCE * 2)
        _open_databases.add(self)

    def _reset(self) -> None:
        self._gate = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._readers: deque[sqlite3.Connection] = deque()
        self._door = threading.Condition()
        self._reading = 0

    # Reading and writing.

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection in autocommit: each statement is its own short read transaction."""
        with self._door:
            self._reading += 1
        try:
            with self._translated():
                try:
                    conn = self._readers.pop()
                except IndexError:
                    conn = self._connect(timeout=PATIENCE)
                try:
                    yield conn
                finally:
                    if self._closed:
                        conn.close()
                    else:
                        self._readers.append(conn)
        finally:
            with self._door:
                self._reading -= 1
                self._door.notify_all()

    @contextlib.contextmanager
    def writing(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """A write transaction: commits at the end, rolls back on any exception."""
        conn = self.begin(patience)
        try:
            yield conn
        except BaseException as e:
            self.rollback(conn)
            if isinstance(e, sqlite3.Error):
                raise self.error(e) from e
            raise
        self.commit(conn)

    def begin(self, patience: float | None = None) -> sqlite3.Connection:
        """Start the one write transaction; whoever gets it must commit or roll back."""
        limit = PATIENCE if patience is None else min(patience, PATIENCE)
        if not self._gate.acquire(blocking=False):
            began = time.monotonic()
            if not self._gate.acquire(timeout=limit):
                raise self._busy(limit)
            limit = max(0.0, limit - (time.monotonic() - began))
        conn = self._writer
        try:
            if conn is None:
                conn = self._connect(timeout=limit)
                # From here on `_begin_patiently` does the waiting; opening itself had to wait too.
                conn.execute("PRAGMA busy_timeout = 0")
                self._writer = conn
            try:
                conn.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                self._begin_patiently(conn, limit)
        except BaseException as e:
            # An interrupt may have come once it had begun: left open, it would lock everybody out.
            self.rollback(conn)
            if isinstance(e, sqlite3.Error):
                raise self.error(e) from e
            raise
        return conn

    def _begin_patiently(self, conn: sqlite3.Connection, limit: float) -> None:
        end = time.monotonic() + limit
        while True:
            try:
                conn.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as e:
                if primary_code(e) not in BUSY:
                    raise
                if time.monotonic() >= end:
                    raise self._busy(limit) from e
            time.sleep(random.uniform(0.0002, 0.003))  # spreads the contenders

    def commit(self, conn: sqlite3.Connection) -> None:
        try:
            conn.execute("COMMIT")
        except sqlite3.Error as e:
            if conn.in_transaction:
                raise self.error(e) from e
            # SQLite ended the transaction by itself: whether the log was kept is not known here.
            raise RunStoreError(
                RUN_OUTCOME_UNKNOWN, "reply_lost", f"{self.path}: the commit failed: {e}"
            ) from e
        finally:
            self.rollback(conn)

    def rollback(self, conn: sqlite3.Connection | None) -> None:
        """End what is still open of a transaction, and let the next one write."""
        try:
            if conn is not None and conn.in_transaction:
                conn.execute("ROLLBACK")
        except sqlite3.Error:
            # It ends with its connection. What failed before it is what the caller has to know.
            self._writer = None
            if conn is not None:
                conn.close()
        finally:
            self._gate.release()

    def close(self) -> None:
        """Close every connection; the last one of all processes folds the log into the file."""
        if self._closed:
            return
        with self._gate:
            self._closed = True
            if self._writer is not None:
                self._writer.close()
                self._writer = None
        while self._readers:
            self._readers.pop().close()
        _open_databases.discard(self)

    # Forking.

    def hush(self) -> None:
        """Wait for what is at work, let nothing more begin, and close every connection."""
        self._hushed = self._gate.acquire(timeout=PATIENCE)
        self._door.acquire()
        if self._hushed and self._writer is not None:
            self._writer.close()
            self._writer = None
        self._door.wait_for(lambda: not self._reading, PATIENCE)
        while self._readers:
            self._readers.pop().close()

    def go_on(self) -> None:
        """After the fork, in the parent."""
        self._door.release()
        if self._hushed:
            self._gate.release()

    # Opening.

    def check_open(self) -> None:
        """Raise RUN_VALIDATION_ERROR / closed once it is closed."""
        if self._closed:
            raise RunStoreError(
                RUN_VALIDATION_ERROR, "closed", f"the journal at {self.path} is closed"
            )

    def _connect(self, timeout: float) -> sqlite3.Connection:
        self.check_open()
        conn = sqlite3.connect(
            self.path, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        try:
            conn.execute(f"PRAGMA synchronous = {self._synchronous}")
            conn.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT}")
        except BaseException:
            conn.close()
            raise
        return conn

    # Errors.

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as e:
            raise self.error(e) from e
        except UnicodeDecodeError as e:  # of what SQLite itself says of a damaged schema
            raise self._damaged(e) from e

    def error(self, e: sqlite3.Error) -> RunStoreError:
        if self._closed:
            return RunStoreError(
                RUN_VALIDATION_ERROR, "closed", f"the journal at {self.path} is closed"
            )
        code = primary_code(e)
        if code in BUSY:
            return self._busy(PATIENCE)
        # A text that is no UTF-8 is refused by Python's module, and has no code.
        if code in _DAMAGED or (code is None and "decode to UTF-8" in str(e)) or _is_of_type(e):
            return self._damaged(e)
        if code == sqlite3.SQLITE_READONLY:
            return RunStoreError(RUN_VALIDATION_ERROR, "read_only", f"{self.path}: {e}")
        return RunStoreError(RUN_STORE_UNAVAILABLE, "failed", f"{self.path}: {e}")

    def _damaged(self, e: Exception) -> RunStoreError:
        return RunStoreError(
            RUN_INTEGRITY_ERROR, "damaged_database", f"{self.path} is damaged: {e}"
        )

    def _busy(self, seconds: float) -> RunStoreError:
        return RunStoreError(
            RUN_STORE_UNAVAILABLE, "busy", f"{self.path} was locked by others for {seconds:.3g} s"
        )


def _is_of_type(e: sqlite3.Error) -> bool:
    """Whether a row could not be written again because of what was in it already.

    What we write is of the right types.
    """
    return getattr(e, "sqlite_errorcode", None) == _CONSTRAINT_DATATYPE


def _is_open_here(path: Path) -> bool:
    """Whether a Database of this process has the file open, and so has looked at it already.

    Reading it once more would do harm: when a file is closed, the system takes away all locks that
    the process has on it, SQLite's among them. Another process would then take the log away from
    under the connections that are open here.
    """
    return any(_is_same(d.path, path) for d in list(_open_databases) if not d._closed)


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of the two is gone: that says nothing of the rest
        return False


def _before_fork() -> None:
    """No connection may be open at a fork: SQLite keeps a process's locks in its memory.

    A child that inherits them believes it holds locks that it does not: the parent would take the
    log away from under it, and what the child was told is written would be gone (test_case_64).
    """
    for database in list(_open_databases):
        database.hush()
        _hushed.append(database)


def _after_fork_in_parent() -> None:
    while _hushed:
        _hushed.pop().go_on()


def _after_fork_in_child() -> None:
    for database in list(_open_databases):
        # Empty, unless a thread was stuck in a transaction: not even closing is safe then.
        _inherited.append((database._writer, database._readers))
        database._reset()
    _hushed.clear()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
