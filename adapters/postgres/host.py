"""The journal inside a transaction of the host's: what it writes commits with the host's work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import psycopg
from psycopg import pq

from ...domain.errors import RUN_VALIDATION_ERROR, RunStoreError
from .database import Database
from .session import Session
from .wire import Statement

Result = TypeVar("Result")


class HostTransaction(Database):
    """A Database that is one connection of the host's, inside the host's own transaction.

    Nothing is committed, rolled back or tried again here: that is the host's. Until the host ends
    its transaction, readers of the whole journal wait below what it wrote (GapWatch.writers names
    its process id).
    """

    def __init__(self, conn: psycopg.Connection[Any], schema: str) -> None:
        # Deliberately not Database.__init__: there is nothing to connect to and nothing to migrate.
        self.schema = schema
        self.pooler = True
        self._closed = False
        self._conn = conn
        self._host_session = Session(conn, schema, prepare=False)

    def read(self, statement: Statement, *values: Any) -> list[tuple[Any, ...]]:
        return self._within(lambda session: session.run(statement, *values))

    def write(self, statement: Statement, *values: Any) -> list[tuple[Any, ...]]:
        return self._within(lambda session: session.run(statement, *values))

    def transaction(self, work: Callable[[Session], Result]) -> Result:
        raise RunStoreError(
            RUN_VALIDATION_ERROR, "argument", "claims need a transaction of their own"
        )

    def close(self) -> None:
        """The connection is the host's."""

    def _within(self, work: Callable[[Session], Result]) -> Result:
        if self._conn.pgconn.transaction_status == pq.TransactionStatus.IDLE:
            if self._conn.autocommit:
                raise RunStoreError(
                    RUN_VALIDATION_ERROR,
                    "argument",
                    "the connection is in autocommit mode and not inside a transaction",
                )
            self._conn.execute("SELECT 1")  # psycopg begins the host's transaction with it
        try:
            return work(self._host_session)
        except psycopg.Error as e:
            # Whatever was sent commits or rolls back with the host: its fate is the host's to know.
            raise self.error(e) from e
