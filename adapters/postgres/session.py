"""Session: one connection to Postgres, and its prepared statements.

Statements go through psycopg's libpq level: one named prepared statement, binary both ways, and
the same waiting as psycopg's own cursors, so that Ctrl-C works. A cursor costs two to three times
the CPU, and at 8 workers on 2 cores the client's CPU is what limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.generators import execute

from .statements import BEGIN, COMMIT, Statement

_BINARY = 1
_OK = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
_FORMATS = [[_BINARY] * n for n in range(32)]


class Session:
    """Runs statements on one connection, one at a time.

    prepare  False behind a pooler that gives each transaction another server connection: then
             every statement is sent with its text, still in one round trip
    """

    def __init__(self, connection: psycopg.Connection[Any], *, prepare: bool = True) -> None:
        self.connection = connection
        self._pgconn = connection.pgconn
        self._prepare = prepare
        self._prepared: set[bytes] = set()
        #: Whether a commit may be under way whose answer has not fully arrived.
        self.in_flight = False

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._pgconn.status != pq.ConnStatus.OK

    @property
    def idle(self) -> bool:
        """Whether the connection is outside a transaction and waiting for a command."""
        return self._pgconn.transaction_status == pq.TransactionStatus.IDLE

    def run(self, statement: Statement, *values: Any) -> list[tuple[Any, ...]]:
        """Send one statement, wait for it to be done, and return its rows.

        Raises psycopg.Error. `in_flight` is then true if the statement may still be carried out.
        """
        pgconn = self._pgconn
        data = [
            None if value is None else kind.encode(value)
            for kind, value in zip(statement.takes, values, strict=True)
        ]
        formats = _FORMATS[len(data)]
        if self._prepare:
            if statement.name not in self._prepared:
                pgconn.send_prepare(statement.name, statement.text, statement.oids)
                self._results()
                self._prepared.add(statement.name)
            self.in_flight = self._commits(statement)
            pgconn.send_query_prepared(statement.name, data, formats, _BINARY)
        else:
            self.in_flight = self._commits(statement)
            pgconn.send_query_params(statement.text, data, statement.oids, formats, _BINARY)
        result = self._results()[-1]
        self.in_flight = False
        gives = statement.gives
        if result.ntuples == 1:  # nearly always
            return [_row(result, 0, gives)]
        return [_row(result, i, gives) for i in range(result.ntuples)]

    def _commits(self, statement: Statement) -> bool:
        """Whether a statement commits something: COMMIT itself, or one outside a transaction."""
        return statement is COMMIT or (self.idle and statement is not BEGIN)

    def _results(self) -> Sequence[pq.abc.PGresult]:
        results: Sequence[pq.abc.PGresult] = self.connection.wait(execute(self._pgconn))
        for result in results:
            # Also after a first good one: a commit can still fail once the rows were sent.
            if result.status not in _OK:
                if not self.broken:
                    self.in_flight = False  # an error answer: the statement was rolled back
                raise psycopg.errors.error_from_result(result)
        return results

    def close(self) -> None:
        self.connection.close()


def _row(result: Any, i: int, gives: Sequence[Any]) -> tuple[Any, ...]:
    get = result.get_value
    row = []
    for column, kind in enumerate(gives):
        value = get(i, column)
        row.append(None if value is None else kind.decode(value))
    return tuple(row)
