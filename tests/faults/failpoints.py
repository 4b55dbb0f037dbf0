"""Failpoints at the edge of the drivers: before and after each statement that begins, writes or
commits, and no line of them in the product.

Whatever the product does around its drivers is thereby what it does in life: a COMMIT of SQLite
that fails, a connection to Postgres that is lost around a round trip.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeVar

import psycopg
from runjournal.adapters.postgres.session import Session

T = TypeVar("T")
When = Literal["before", "after"]
#: Replaces an attribute: monkeypatch.setattr, or setattr in a process that is there to be killed.
Patch = Callable[[Any, str, Any], object]

_WRITES = re.compile(rb"\b(INSERT|UPDATE|DELETE)\b")


class Failpoints:
    """Counts the spots that are crossed while it is on, and acts at one of them.

    crossed  the boundaries so far, by name: what was at work, and the statement
    fired    whether the chosen spot was reached
    gone     from now on nothing gets through any more
    """

    def __init__(self) -> None:
        self.on = False
        self.at_work: Callable[[], str] = str
        self.reset()

    def reset(self) -> None:
        """Nothing crossed, and no spot chosen."""
        self.crossed: list[str] = []
        self.fired = False
        self.gone = False
        self._chosen: tuple[int, When] | None = None
        self._act: Callable[[Callable[[], None]], object] = lambda fail: fail()

    def choose(self, number: int, when: When, act: Callable[[Callable[[], None]], object]) -> None:
        """Call `act` once at this boundary; it is given what makes the driver fail."""
        self._chosen, self._act = (number, when), act

    def cross(self, name: str, do: Callable[[], T], fail: Callable[[], None]) -> T:
        """Do what crosses a boundary, with the two spots beside it."""
        if not self.on:
            return do()
        number = len(self.crossed)
        self.crossed.append(f"{self.at_work()}: {name}")
        self._reach((number, "before"), fail)
        done = do()
        self._reach((number, "after"), fail)
        return done

    def _reach(self, spot: tuple[int, When], fail: Callable[[], None]) -> None:
        if spot == self._chosen and not self.fired:
            self.fired = True
            self._act(fail)


def watch_sqlite(points: Failpoints, patch: Patch) -> None:
    """BEGIN and COMMIT of every connection that is opened from now on."""

    def fail() -> None:
        raise sqlite3.OperationalError("disk I/O error")

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> Any:
            if points.on and points.gone:
                fail()
            do = partial(super().execute, sql, *values)
            if sql not in ("BEGIN IMMEDIATE", "COMMIT"):
                return do()
            return points.cross(sql, do, fail)

    patch(sqlite3, "connect", partial(sqlite3.connect, factory=Watched))


def watch_postgres(points: Failpoints, patch: Patch) -> None:
    """Every round trip that writes, begins or commits."""
    run, run_batch = Session.run, Session.run_batch

    def lose(session: Any, in_flight: bool) -> None:
        session.connection.close()
        session.in_flight = in_flight
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    def watched_run(session: Any, statement: Any, *values: Any) -> Any:
        if points.on and points.gone:
            lose(session, in_flight=False)
        do = partial(run, session, statement, *values)
        if not _WRITES.search(statement.text):
            return do()
        # Inside a transaction nothing is committed by it.
        return points.cross(_name(statement), do, partial(lose, session, session.idle))

    def watched_batch(session: Any, *commands: Any) -> Any:
        if points.on and points.gone:
            lose(session, in_flight=False)
        name = "+".join(_name(statement) for statement, _ in commands)
        # The trip that only begins commits nothing: what is lost with it is surely not done.
        commits = commands[-1][0].text == b"COMMIT"
        return points.cross(
            name, partial(run_batch, session, *commands), partial(lose, session, commits)
        )

    patch(Session, "run", watched_run)
    patch(Session, "run_batch", watched_batch)


def _name(statement: Any) -> str:
    return str(statement.name.decode().removeprefix("runjournal_"))


def watch_store(points: Failpoints, patch: Patch, store: Any, error: Exception) -> None:
    """The calls of one store that write: for a store without a driver."""

    def fail() -> None:
        raise error

    for name in ("append", "claim", "renew", "advance_delivery", "prune"):
        call = getattr(store, name)

        def watched(*args: Any, call: Any = call, name: str = name) -> Any:
            if points.on and points.gone:
                fail()
            return points.cross(name, partial(call, *args), fail)

        patch(store, name, watched)
