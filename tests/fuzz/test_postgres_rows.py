"""Whatever stands in the rows of a journal in Postgres, reading it gives a value or an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.sql import SQL, Identifier, Literal
from runjournal import Journal, open_journal

from ..transfer.conftest import fill_all
from .generating import altered, as_json, bounded, damaged, texts
from .readings import read_everything
from .test_stored_bytes import COLUMNS, INTEGERS, OF_NO_EVENT, found_by

MOMENTS = [
    "infinity",
    "-infinity",
    "4713-01-01 BC",
    "0001-01-01 00:00:00+14",
    "9999-12-31 23:59:59-14",
    "10000-01-01",
    "294276-12-31",
    "2025-02-03",
]


@pytest.fixture
def journal(postgres_url: str) -> Iterator[Journal]:
    with open_journal(postgres_url) as opened:
        fill_all(opened)
        yield opened


def other(kind: str, before: Any) -> st.SearchStrategy[Any]:
    """Another value of the column's type, or none."""
    if kind == "bytea":
        good = before or b"{}"
        document = st.just(good).map(orjson.loads).flatmap(altered).map(as_json)
        return document | damaged(good) | st.none()
    if kind == "timestamp with time zone":
        return st.sampled_from(MOMENTS) | st.none()
    if kind in ("bigint", "integer", "smallint"):
        return st.sampled_from(INTEGERS) | st.integers(-(2**63), 2**63 - 1) | st.none()
    text = texts.map(lambda t: t.encode("utf-8", "replace").decode().replace("\0", ""))
    return text | st.sampled_from(["queued", "running", "completed", "unknown", "run/done-0"])


class Damage:
    """One cell with another value in it, until it is mended."""

    def __init__(self, data: st.DataObject, conn: psycopg.Connection[Any]) -> None:
        self.table = data.draw(st.sampled_from(sorted(COLUMNS)))
        self.column = data.draw(st.sampled_from(sorted(COLUMNS[self.table])))
        self._conn = conn
        self._key = {"events": "position", "runs": "run_id"}.get(self.table, "invocation_id")
        names = map(Identifier, (self._key, self.column, self.table, self._key))
        rows = conn.execute(SQL("SELECT {}, {} FROM {} ORDER BY {}").format(*names))
        self._row, self._before = data.draw(st.sampled_from(rows.fetchall()))
        found = conn.execute(
            "SELECT data_type FROM information_schema.columns WHERE table_schema = 'public'"
            " AND table_name = %s AND column_name = %s",
            (self.table, self.column),
        ).fetchone()
        assert found is not None
        self._kind = found[0]
        after = data.draw(other(self._kind, self._before))
        #: Whether the table took another value.
        self.done = after != self._before and self._put(after)
        # No record knows the end of the audit log: what its last event says, only an anchor tells.
        last = "SELECT position FROM events WHERE stream = 'journal/audit' ORDER BY 1 DESC LIMIT 1"
        silent = self.column == "state" and (self._row,) == conn.execute(last).fetchone()
        self.shows = self.done and self.column not in OF_NO_EVENT and not silent

    def _put(self, value: Any) -> bool:
        statement = SQL("UPDATE {} SET {} = {} WHERE {} = {}").format(
            Identifier(self.table),
            Identifier(self.column),
            Literal(value),
            Identifier(self._key),
            Literal(self._row),
        )
        try:
            assert self._conn.execute(statement).rowcount == 1
        except (psycopg.IntegrityError, psycopg.DataError):
            return False  # the table itself does not take it
        if self.column == self._key:
            self._row = value
        return True

    def mend(self) -> None:
        if self.done:
            assert self._put(self._before)
        if self.table != "events":  # a reading marks what cannot be read
            self._conn.execute(SQL("UPDATE {} SET attention = NULL").format(Identifier(self.table)))


@bounded(60)
@given(data=st.data())
def test_reading_a_damaged_cell(journal: Journal, postgres_url: str, data: st.DataObject) -> None:
    run_ids = [f"{kind}-{n}" for kind in ("done", "lost") for n in range(2)]
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        damage = Damage(data, conn)
        try:
            found = found_by(journal.verify)
            assert bool(found) >= damage.shows, (damage.table, damage.column)
            read_everything(journal, run_ids)
        finally:
            damage.mend()
        assert not found_by(journal.verify)
