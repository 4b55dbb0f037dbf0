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
from psycopg.generators import execute, fetch_many, send

from .statements import BEGIN, COMMIT
from .wire import Statement

#: A statement and its values.
Command = tuple[Statement, Sequence[Any]]

_BINARY = 1
# As plain ints: looking a member up on its enum class costs more than the comparison.
_OK = frozenset({int(pq.ExecStatus.TUPLES_OK), int(pq.ExecStatus.COMMAND_OK)})
_CONNECTED = int(pq.ConnStatus.OK)
_IDLE = int(pq.TransactionStatus.IDLE)
_FORMATS = [[_BINARY] * n for n in range(32)]


class Session:
    """Runs statements on one connection, one at a time.

    schema   where the journal's tables are
    number   sets the names of its prepared statements apart from another journal's
    prepare  False behind a pooler that gives each transaction another server connection: then
             every statement is sent with its text, still in one round trip
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        schema: str,
        number: int = 0,
        *,
        prepare: bool = True,
    ) -> None:
        self.connection = connection
        self._schema = schema
        self._number = number
        self._pgconn = connection.pgconn
        self._prepare = prepare
        self._prepared: dict[bytes, bytes] = {}
        #: Whether a commit may be under way whose answer has not fully arrived.
        self.in_flight = False

    @property
    def broken(self) -> bool:
        """Whether the connection is gone."""
        return self._pgconn.status != _CONNECTED

    @property
    def idle(self) -> bool:
        """Whether the connection is outside a transaction and waiting for a command."""
        return self._pgconn.transaction_status == _IDLE

    def run(self, statement: Statement, *values: Any) -> list[tuple[Any, ...]]:
        """Send one statement, wait for it to be done, and return its rows.

        Raises psycopg.Error. `in_flight` is then true if it may have been committed all the same.
        """
        if self._prepare and statement.name not in self._prepared:
            self._prepare_now(statement)
        self.in_flight = statement is COMMIT or (self.idle and statement is not BEGIN)
        self._send(statement, values)
        results = self.connection.wait(execute(self._pgconn))
        if len(results) != 1 or results[0].status not in _OK:
            self._check(results)
        self.in_flight = False
        return _rows(results[-1], statement.decoders)

    def run_batch(self, *commands: Command) -> list[list[tuple[Any, ...]]]:
        """Send several statements in one round trip, and return the rows of each.

        The batch must begin or end a transaction of its own: an error leaves it to be rolled back.
        """
        for statement, _values in commands:
            if self._prepare and statement.name not in self._prepared:
                self._prepare_now(statement)
        self.in_flight = commands[-1][0] is COMMIT
        pgconn, wait = self._pgconn, self.connection.wait
        pgconn.enter_pipeline_mode()
        try:
            for statement, values in commands:
                self._send(statement, values)
            pgconn.pipeline_sync()
            wait(send(pgconn))
            answers = [wait(fetch_many(pgconn)) for _ in commands]
            wait(fetch_many(pgconn))  # the answer to the sync
        finally:
            if not self.broken:
                pgconn.exit_pipeline_mode()
        for answer in answers:
            self._check(answer)
        self.in_flight = False
        return [
            _rows(answer[-1], statement.decoders)
            for (statement, _values), answer in zip(commands, answers, strict=True)
        ]

    def _send(self, statement: Statement, values: Sequence[Any]) -> None:
        data = [
            None if value is None else encode(value)
            for encode, value in zip(statement.encoders, values, strict=True)
        ]
        formats = _FORMATS[len(data)]
        if self._prepare:
            name = self._prepared[statement.name]
            self._pgconn.send_query_prepared(name, data, formats, _BINARY)
        else:
            text = statement.within(self._schema)
            self._pgconn.send_query_params(text, data, statement.oids, formats, _BINARY)

    def _prepare_now(self, statement: Statement) -> None:
        name = b"%b_%d" % (statement.name, self._number)
        self._pgconn.send_prepare(name, statement.within(self._schema), statement.oids)
        self._check(self.connection.wait(execute(self._pgconn)))
        self._prepared[statement.name] = name

    def _check(self, results: Sequence[Any]) -> None:
        """Raise the first error among a statement's results."""
        for result in results:
            # Also after a first good one: a commit can still fail once the rows were sent.
            if result.status not in _OK:
                if not self.broken:
                    self.in_flight = False  # an error answer: the statement was rolled back
                raise psycopg.errors.error_from_result(result)

    def close(self) -> None:
        self.connection.close()


def _rows(result: Any, decoders: Sequence[Any]) -> list[tuple[Any, ...]]:
    get = result.get_value
    return [
        tuple(
            [
                None if (value := get(i, column)) is None else decode(value)
                for column, decode in enumerate(decoders)
            ]
        )
        for i in range(result.ntuples)
    ]
