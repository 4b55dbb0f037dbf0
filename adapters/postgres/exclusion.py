"""Names that one holder at a time may have, between all who use the journal.

A session's advisory lock, on a connection of its own: the server lets go of it when the connection
ends, and so when the process does, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import psycopg

from ...domain.checks import EXCLUSIVE_NAME, check_plain_name, refuse
from ...domain.errors import RUN_CONFLICT, RUN_STORE_UNAVAILABLE, RunStoreError
from .database import Database
from .faults import brief
from .recorder import PostgresRecorder

_holds: weakref.WeakSet[SessionHold] = weakref.WeakSet()
_inherited: list[Any] = []


class SessionHold:
    """The advisory lock of one connection, held from the start or refused."""

    def __init__(self, database: Database, name: str) -> None:
        self._name = name
        self._ours = True
        try:
            self._conn = database.connect()
            taken = self._conn.execute(
                "SELECT pg_try_advisory_lock(%s)", (_key(database.schema, name),)
            ).fetchone()
        except psycopg.Error as e:
            raise database.error(e) from e
        if taken != (True,):
            self._conn.close()
            raise RunStoreError(RUN_CONFLICT, "already_running", f"somebody else holds {name}")
        _holds.add(self)

    def check(self) -> None:
        """Raise if the connection, and with it the lock, is gone; or if this is a forked child."""
        if not self._ours:
            raise RunStoreError(
                RUN_CONFLICT, "already_running", f"{self._name} is held by the parent process"
            )
        try:
            self._conn.execute("SELECT 1")
        except psycopg.Error as e:
            raise RunStoreError(
                RUN_STORE_UNAVAILABLE,
                "failed",
                f"{self._name} is held no longer, its connection is gone: {brief(e)}",
            ) from e

    def release(self) -> None:
        if self._ours:
            # The server notices a closed connection only later; the next holder may be here now.
            with contextlib.suppress(psycopg.Error):
                self._conn.execute("SELECT pg_advisory_unlock_all()")
            self._conn.close()

    def forked(self) -> None:
        """In the child: the connection is the parent's, and must not outlive it here."""
        self._ours = False
        _inherited.append(self._conn)
        with contextlib.suppress(psycopg.Error, OSError):
            os.close(self._conn.fileno())


class PostgresExclusion(PostgresRecorder):
    """`RunStore.exclusive`."""

    @contextmanager
    def exclusive(self, name: str) -> Iterator[SessionHold]:
        check_plain_name(name, "the name to hold", EXCLUSIVE_NAME)
        self.database.check_open()
        if self.database.pooler:
            raise refuse(
                "argument",
                f"{name} cannot be held through a transaction pooler, which gives each "
                "transaction another session: use a direct connection",
            )
        hold = SessionHold(self.database, name)
        try:
            yield hold
        finally:
            hold.release()


def _key(schema: str, name: str) -> int:
    """Advisory locks are numbers, and shared by all schemas of a database."""
    digest = sha256(f"runjournal\0{schema}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _after_fork_in_child() -> None:
    for hold in list(_holds):
        hold.forked()


os.register_at_fork(after_in_child=_after_fork_in_child)
