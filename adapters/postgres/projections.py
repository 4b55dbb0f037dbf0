"""The users' projections on Postgres: the ProjectionStore port."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import psycopg

from ...domain.errors import RUN_STORE_UNAVAILABLE, RUN_VALIDATION_ERROR, RunStoreError
from ...projections.ports import Poison, ProjectionState, RowWrite, Shadow
from ...projections.projector import is_table_of, table_name
from ..logs import fields
from . import projection_statements as sql
from .exclusion import PostgresExclusion
from .faults import told
from .log_statements import HIGHEST
from .session import Session
from .statements import BEGIN, COMMIT, SET_LOCK_TIMEOUT
from .wire import Statement, quoted

log = logging.getLogger("runjournal.postgres")
Found = TypeVar("Found")

#: How long others are waited for where a table changes: whoever reads it waits behind us.
SHORT = "200ms"
#: How often a reader looks for the table in service, when one was replaced under its hands.
LOOKS = 5


class PostgresProjections(PostgresExclusion):
    """What PostgresStore does for projections."""

    def last_position(self) -> int:
        ((position, _standby),) = self.database.read(HIGHEST)
        return position or 0

    def projection_states(self) -> list[ProjectionState]:
        return [_state(row) for row in self.database.read(sql.STATES)]

    def projection_state(self, name: str) -> ProjectionState | None:
        rows = self.database.read(sql.STATE, name)
        return _state(rows[0]) if rows else None

    def projection_row(self, name: str, key: str) -> tuple[ProjectionState | None, bytes | None]:
        state, rows = self._in_service(name, sql.row, key)
        return state, rows[0][0] if rows else None

    def projection_page(
        self, name: str, limit: int, after: str | None
    ) -> tuple[ProjectionState | None, list[tuple[str, bytes]]]:
        state, rows = self._in_service(name, sql.page, after, limit)
        return state, [(key, body) for key, body in rows]

    def _in_service(
        self, name: str, reading: Callable[[str], Statement], *values: Any
    ) -> tuple[ProjectionState | None, list[tuple[Any, ...]]]:
        """Read the table in service, again where it was replaced and dropped in between."""
        for look in range(1, LOOKS + 1):
            state = self.projection_state(name)
            if state is None:
                return None, []
            try:
                return state, self.database.read(reading(state.table), *values)
            except RunStoreError as e:
                if look == LOOKS or not isinstance(e.__cause__, psycopg.errors.UndefinedTable):
                    raise
        raise AssertionError("unreachable")

    def create_projection(self, name: str, version: int) -> ProjectionState:
        def work(session: Session) -> None:
            session.run(BEGIN)
            table = table_name(name, 1)
            session.run(sql.CREATE, name, version, table)
            self._create_table(session, table)
            session.run(COMMIT)

        state = self.projection_state(name)
        if state is None:
            self._with_ddl(table_name(name, 1), work)
            state = self.projection_state(name)
        assert state is not None  # it was there, or was made just now
        return state

    def projection_rows(self, table: str, keys: Sequence[str]) -> dict[str, bytes]:
        return dict(self.database.read(sql.rows(table), list(keys)))

    def save_projection(
        self,
        state: ProjectionState,
        writes: Sequence[RowWrite],
        position: int,
        parked: Poison | None = None,
    ) -> ProjectionState | None:
        values = (state.name, state.table, state.position, position, *(parked or (None, None)))
        try:
            rows = self.database.write(sql.save(state.table), *_columns(writes), *values)
        except RunStoreError as e:
            if not isinstance(e.__cause__, psycopg.errors.UndefinedTable):
                raise
            stored = self.projection_state(state.name)
            if stored is None or stored.table == state.table:
                raise
            return None  # replaced, and dropped
        return _state(rows[0]) if rows else None

    def resume_projection(self, name: str, parked_at: int) -> bool:
        return bool(self.database.write(sql.RESUME, name, parked_at))

    def create_shadow(self, name: str) -> Shadow:
        state = self.projection_state(name)
        assert state is not None  # the projection exists

        def work(session: Session) -> Shadow:
            session.run(BEGIN)
            ((number,),) = session.run(sql.NUMBER, name)
            self._create_table(session, table_name(name, number))
            session.run(COMMIT)
            return Shadow(table_name(name, number), number)

        return self._with_ddl(table_name(name, state.tables_made + 1), work)

    def fill_shadow(self, table: str, writes: Sequence[RowWrite]) -> None:
        # What was written twice is as if it was written once: it may be sent again.
        self.database.read(sql.fill(table), *_columns(writes))

    def promote_shadow(
        self, state: ProjectionState, shadow: Shadow, version: int, position: int
    ) -> ProjectionState | None:
        def work(session: Session) -> list[tuple[Any, ...]]:
            return session.run_batch(
                (BEGIN, ()),
                (SET_LOCK_TIMEOUT, (SHORT,)),
                (
                    sql.PROMOTE,
                    (state.name, state.table, shadow.number, version, shadow.table, position),
                ),
                (COMMIT, ()),
            )[2]

        rows = self.database.transaction(work)
        return _state(rows[0]) if rows else None

    def drop_unused(self, name: str) -> list[str]:
        state = self.projection_state(name)
        used = None if state is None else state.table
        found = [table for (table,) in self.database.read(sql.TABLES, self.database.schema)]
        unused = [table for table in found if table != used and is_table_of(name, table)]
        return [table for table in unused if not self._drop(table)]

    def _drop(self, table: str) -> bool:
        def work(session: Session) -> None:
            session.run_batch(
                (BEGIN, ()),
                (SET_LOCK_TIMEOUT, (SHORT,)),
                (sql.drop_table(table), ()),
                (COMMIT, ()),
            )

        try:
            self.database.transaction(work)
        except RunStoreError as e:
            cause = e.__cause__
            if e.code == RUN_STORE_UNAVAILABLE or isinstance(
                cause, psycopg.errors.InsufficientPrivilege
            ):
                text = "table %s is no longer used and could not be dropped: %s"
                log.info(text, table, e, extra=fields(error=e))
                return False
            raise
        return True

    # Tables.

    def _create_table(self, session: Session, table: str) -> None:
        """Make the table, unless whoever may has made it already."""
        if (table,) not in session.run(sql.TABLES, self.database.schema):
            session.run(sql.create_table(table))

    def _with_ddl(self, table: str, work: Callable[[Session], Found]) -> Found:
        try:
            return self.database.transaction(work)
        except RunStoreError as e:
            if not isinstance(e.__cause__, psycopg.errors.InsufficientPrivilege):
                raise
            full = f"{quoted(self.database.schema)}{table}"
            raise RunStoreError(
                RUN_VALIDATION_ERROR,
                "read_only",
                "this role may not create the projection's table; whoever may must run: "
                f"{sql.TABLE.format(table=full)}; "
                f"GRANT SELECT, INSERT, UPDATE, DELETE ON {full} TO this role",
            ) from e


def _columns(writes: Sequence[RowWrite]) -> tuple[list[Any], ...]:
    """A column each of the rows to write, and the keys to delete."""
    kept = [write for write in writes if write.body is not None]
    return (
        [write.key for write in kept],
        [write.body for write in kept],
        [write.position for write in kept],
        [write.key for write in writes if write.body is None],
    )


def _state(row: tuple[Any, ...]) -> ProjectionState:
    """Where a projection stands. Raises RUN_INTEGRITY_ERROR / unreadable_record."""
    return ProjectionState(*told(row, f"projection {row[0]!r}"))
