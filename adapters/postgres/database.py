"""The connections of one journal: lent out one command at a time, and what their errors mean."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import random
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...domain.errors import (
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from ..logs import fields
from .faults import meaning_of, passes
from .schema import migrate
from .session import Session
from .statements import ROLLBACK
from .wire import Statement, quoted

log = logging.getLogger("runjournal.postgres")
Result = TypeVar("Result")

#: Bounds on every command, so that one frozen client or one lock stops nobody for long.
LOCK_TIMEOUT = 5.0
STATEMENT_TIMEOUT = 30.0
IDLE_IN_TRANSACTION_TIMEOUT = 30.0
CONNECT_TIMEOUT = 10
#: How often a command that surely was not carried out is sent again, and the first pause.
TRIES = 8
FIRST_PAUSE = 0.02

#: Each database names its prepared statements apart: two may share a host's connections.
_numbers = itertools.count(1)
_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[Any] = []


class HostPool(Protocol):
    """A pool of the host's own, such as psycopg_pool.ConnectionPool."""

    def getconn(self) -> psycopg.Connection[Any]: ...

    def putconn(self, conn: psycopg.Connection[Any]) -> None: ...


class Database:
    """Connections to one database and schema.

    A stack, not a queue: the connection used last is the warmest. It grows with the number of
    commands at once, so no command waits for another's connection, and a command uses one only.
    """

    def __init__(
        self,
        conninfo: str,
        schema: str = "public",
        *,
        pool: HostPool | None = None,
        pooler: bool = False,
        create: bool = True,
    ) -> None:
        self.schema = schema
        self.pooler = pooler
        self._number = next(_numbers)
        self._pool = pool
        self._conninfo = _with_settings(conninfo, pooler)
        self._idle: deque[Session] = deque()
        self._sessions: weakref.WeakKeyDictionary[Any, Session] = weakref.WeakKeyDictionary()
        self._closed = False
        if create:
            try:
                self.migrate()
            except BaseException:
                self.close()
                raise
        _databases.add(self)

    @property
    def channel(self) -> str:
        """The channel on which this journal tells that a run became claimable."""
        return "runjournal_" + hashlib.md5(quoted(self.schema).encode()).hexdigest()

    def migrate(self) -> list[int]:
        """Apply the migrations that are missing."""
        return self._patiently(
            lambda session: migrate(session.connection, self.schema), repeatable=True
        )

    def check_open(self) -> None:
        """Raise RUN_VALIDATION_ERROR / closed once it is closed."""
        if self._closed:
            raise RunStoreError(RUN_VALIDATION_ERROR, "closed", "the journal is closed")

    # Lending connections.

    def take(self) -> Session:
        """A session of one's own, until it is given back."""
        self.check_open()
        if self._pool is not None:
            conn = self._pool.getconn()
            session = self._sessions.get(conn)
            if session is None:
                session = self._sessions[conn] = self._session(conn)
            return session
        try:
            while True:
                session = self._idle.pop()
                if not session.broken:
                    return session
                session.close()
        except IndexError:
            return self._connect()

    def give(self, session: Session) -> None:
        """Back onto the stack, outside of any transaction; a broken one is closed instead."""
        if not session.idle and not session.broken:
            with contextlib.suppress(psycopg.Error):
                session.run(ROLLBACK)
        if session.broken:
            # What ended this one has most likely ended the idle ones as well.
            self._close_idle()
        if self._pool is not None:
            self._pool.putconn(session.connection)
        elif session.broken or not session.idle or session.in_flight:
            session.close()
        else:
            self._idle.append(session)
            if self._closed:
                self._close_idle()

    def _connect(self) -> Session:
        return self._session(self.connect())

    def connect(self) -> psycopg.Connection[Any]:
        """A new connection with our settings, in autocommit mode."""
        # Behind a pooler psycopg must not prepare by itself what is executed often either.
        return psycopg.connect(
            self._conninfo, autocommit=True, prepare_threshold=None if self.pooler else 5
        )

    def _session(self, conn: psycopg.Connection[Any]) -> Session:
        return Session(conn, self.schema, self._number, prepare=not self.pooler)

    def close(self) -> None:
        self._closed = True
        self._close_idle()
        _databases.discard(self)

    def _close_idle(self) -> None:
        with contextlib.suppress(IndexError):  # emptied by another thread meanwhile
            while True:
                self._idle.pop().close()

    # Commands.

    def read(self, statement: Statement, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement that changes nothing, again after a lost connection."""
        return self._run(statement, values, repeatable=True)

    def write(self, statement: Statement, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement that writes, once.

        Raises RUN_OUTCOME_UNKNOWN if the connection was lost while it may have been carried out.
        What surely was not (no connection, deadlock, serialisation) is sent again.
        """
        return self._run(statement, values, repeatable=False)

    def transaction(self, work: Callable[[Session], Result]) -> Result:
        """Run `work` on one session; it sends its own BEGIN and COMMIT."""
        return self._patiently(work, repeatable=False)

    def _run(
        self, statement: Statement, values: Sequence[Any], *, repeatable: bool
    ) -> list[tuple[Any, ...]]:
        # Nearly every command goes this way, and a call less is felt at eight workers: a session
        # is popped, used and pushed back. Anything else that can happen is `_patiently`'s.
        first_error: psycopg.Error | None = None
        try:
            session = self._idle.pop()
        except IndexError:
            pass
        else:
            try:
                rows = session.run(statement, *values)
            except psycopg.Error as e:
                e.maybe_done = session.in_flight  # type: ignore[attr-defined]
                first_error = e
                self.give(session)
            except BaseException:
                self.give(session)
                raise
            else:
                self._idle.append(session)
                if self._closed:  # asked after the push: close() may have emptied the stack before
                    self._close_idle()
                return rows
        return self._patiently(
            lambda session: session.run(statement, *values),
            repeatable=repeatable,
            first_error=first_error,
        )

    def _patiently(
        self,
        work: Callable[[Session], Result],
        *,
        repeatable: bool,
        first_error: psycopg.Error | None = None,
    ) -> Result:
        pause = FIRST_PAUSE
        for attempt in range(1, TRIES + 1):
            try:
                if first_error is not None:
                    failed, first_error = first_error, None
                    raise failed
                return self._once(work)
            except psycopg.Error as e:
                maybe_done = getattr(e, "maybe_done", False) and not repeatable
                error, cause = self.error(e, maybe_done=maybe_done), e
                again = not maybe_done and passes(e)
            if not again or attempt == TRIES:
                raise error from cause
            log.info(
                "trying again in %.3f s: %s", pause, error, extra=fields(error=error, pause=pause)
            )
            time.sleep(pause * random.uniform(0.5, 1.5))  # spreads those who lost it together
            pause *= 2.5
        raise AssertionError("unreachable")

    def _once(self, work: Callable[[Session], Result]) -> Result:
        session = self.take()
        try:
            return work(session)
        except psycopg.Error as e:
            e.maybe_done = session.in_flight  # type: ignore[attr-defined]
            raise
        finally:
            self.give(session)

    def error(self, e: psycopg.Error, *, maybe_done: bool = False) -> RunStoreError:
        """What a driver error means for a command."""
        return meaning_of(e, self.schema, maybe_done=maybe_done)


def _with_settings(conninfo: str, pooler: bool) -> str:
    """The host's connection string with our session settings added to its options.

    Behind a transaction pooler there is no session to set anything on: then the role carries the
    settings (docs/postgres.md).
    """
    try:
        parts = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError as e:
        raise RunStoreError(
            RUN_VALIDATION_ERROR, "address", "the Postgres address cannot be read"
        ) from e
    parts.setdefault("connect_timeout", str(CONNECT_TIMEOUT))
    # A peer that is gone without a word is noticed within half a minute, not within hours.
    for name, value in (("keepalives_idle", 10), ("keepalives_interval", 5)):
        parts.setdefault(name, str(value))
    parts.setdefault("tcp_user_timeout", "30000")
    parts.setdefault("application_name", f"runjournal-{os.getpid()}")
    if not pooler:
        settings = {
            "timezone": "UTC",
            "default_transaction_isolation": "read\\ committed",
            "lock_timeout": int(LOCK_TIMEOUT * 1000),
            "statement_timeout": int(STATEMENT_TIMEOUT * 1000),
            "idle_in_transaction_session_timeout": int(IDLE_IN_TRANSACTION_TIMEOUT * 1000),
        }
        ours = " ".join(f"-c {name}={value}" for name, value in settings.items())
        parts["options"] = f"{parts.get('options') or ''} {ours}".strip()
    return make_conninfo("", **parts)


def _after_fork_in_child() -> None:
    """A child must not use, nor close, what it inherited: both ends would speak at once."""
    for database in list(_databases):
        _inherited.append((database._idle, database._sessions))
        database._idle = deque()
        database._sessions = weakref.WeakKeyDictionary()


os.register_at_fork(after_in_child=_after_fork_in_child)
