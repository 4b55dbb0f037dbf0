"""The users' projections in SQLite: the ProjectionStore port."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from ...projections.ports import Poison, ProjectionState, RowWrite, Shadow
from ...projections.projector import is_table_of, table_name
from ..rows import to_microseconds
from . import projection_statements as sql
from .exclusion import SQLiteExclusion
from .records import moment_of
from .shapes import Shape

_STATE = Shape(
    "name TEXT, projection_version INTEGER, in_service TEXT, position INTEGER, parked_at INTEGER?,"
    " parked_error TEXT?, updated_at INTEGER, tables_made INTEGER"
)
_ROW = Shape("key TEXT, body BLOB")
#: Rows removed in one transaction from a table that is no longer in service.
AT_ONCE = 5000


class SQLiteProjections(SQLiteExclusion):
    """What SQLiteStore does for projections."""

    def last_position(self) -> int:
        with self.database.reading() as conn:
            (position,) = conn.execute(sql.LAST_POSITION).fetchone()
        return position or 0

    def projection_states(self) -> list[ProjectionState]:
        with self.database.reading() as conn:
            return [_state(row) for row in conn.execute(sql.STATES)]

    def projection_state(self, name: str) -> ProjectionState | None:
        with self.database.reading() as conn:
            return _found(conn, name)

    def projection_row(self, name: str, key: str) -> tuple[ProjectionState | None, bytes | None]:
        with self.database.reading() as conn, conn:
            conn.execute("BEGIN")  # one snapshot: the table is there as long as it is looked at
            state = _found(conn, name)
            if state is None:
                return None, None
            row = conn.execute(sql.ROW.format(table=state.table), (key,)).fetchone()
            return state, None if row is None else _checked(name, [(key, *row)])[0][1]

    def projection_page(
        self, name: str, limit: int, after: str | None
    ) -> tuple[ProjectionState | None, list[tuple[str, bytes]]]:
        with self.database.reading() as conn, conn:
            conn.execute("BEGIN")  # likewise
            state = _found(conn, name)
            if state is None:
                return None, []
            page = conn.execute(sql.PAGE.format(table=state.table), (after, limit))
            return state, _checked(name, page.fetchall())

    def create_projection(self, name: str, version: int) -> ProjectionState:
        if (state := self.projection_state(name)) is not None:
            return state
        with self.database.writing() as conn:
            table = table_name(name, 1)
            if conn.execute(sql.CREATE, (name, version, table, _now())).rowcount == 1:
                conn.execute(sql.CREATE_TABLE.format(table=table))
            state = _found(conn, name)
            assert state is not None  # somebody else made it, or it was made just now
            return state

    def projection_rows(self, table: str, keys: Sequence[str]) -> dict[str, bytes]:
        with self.database.reading() as conn:
            asked = orjson.dumps(list(keys)).decode()
            rows = conn.execute(sql.ROWS.format(table=table), (asked,)).fetchall()
        return dict(_checked(table, rows))

    def save_projection(
        self,
        state: ProjectionState,
        writes: Sequence[RowWrite],
        position: int,
        parked: Poison | None = None,
    ) -> ProjectionState | None:
        at, error = parked or (None, None)
        where = (state.name, state.table, state.position)
        with self.database.writing() as conn:
            row = conn.execute(sql.SAVE, (position, at, error, _now(), *where)).fetchone()
            if row is None:
                return None
            _write(conn, state.table, writes)
            return _state(row)

    def resume_projection(self, name: str, parked_at: int) -> bool:
        with self.database.writing() as conn:
            return conn.execute(sql.RESUME, (_now(), name, parked_at)).rowcount == 1

    def create_shadow(self, name: str) -> Shadow:
        with self.database.writing() as conn:
            (number,) = conn.execute(sql.NUMBER, (name,)).fetchone()
            table = table_name(name, number)
            conn.execute(sql.CREATE_TABLE.format(table=table))
            return Shadow(table, number)

    def fill_shadow(self, table: str, writes: Sequence[RowWrite]) -> None:
        with self.database.writing() as conn:
            _write(conn, table, writes)

    def promote_shadow(
        self, state: ProjectionState, shadow: Shadow, version: int, position: int
    ) -> ProjectionState | None:
        values = (version, shadow.table, position, _now())
        with self.database.writing() as conn:
            row = conn.execute(
                sql.PROMOTE, (*values, state.name, state.table, shadow.number)
            ).fetchone()
            return None if row is None else _state(row)

    def drop_unused(self, name: str) -> list[str]:
        with self.database.reading() as conn:
            state = _found(conn, name)
            tables = [table for (table,) in conn.execute(sql.TABLES)]
        used = None if state is None else state.table
        for table in tables:
            if table != used and is_table_of(name, table):
                self._drop(table)
        return []

    def _drop(self, table: str) -> None:
        while True:
            with self.database.writing() as conn:
                some = conn.execute(sql.DELETE_SOME.format(table=table), (AT_ONCE,))
                if some.rowcount < AT_ONCE:
                    conn.execute(sql.DROP.format(table=table))
                    return


def _now() -> int:
    return to_microseconds(datetime.now(UTC))


def _found(conn: sqlite3.Connection, name: str) -> ProjectionState | None:
    row = conn.execute(sql.STATE, (name,)).fetchone()
    return None if row is None else _state(row)


def _state(row: tuple[Any, ...]) -> ProjectionState:
    what = f"the state of projection {row[0]!r}"
    state = ProjectionState(*_STATE.check(row, what))
    return state._replace(updated_at=moment_of(row[6], what))


def _checked(name: str, rows: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    for row in rows:
        _ROW.check(row, f"row {row[0]!r} of {name}")
    return rows


def _write(conn: sqlite3.Connection, table: str, writes: Sequence[RowWrite]) -> None:
    put, delete = sql.PUT.format(table=table), sql.DELETE.format(table=table)
    for write in writes:
        if write.body is None:
            conn.execute(delete, (write.key,))
        else:
            conn.execute(put, write)
