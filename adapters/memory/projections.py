"""The users' projections in memory: the ProjectionStore port."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ...projections.ports import Poison, ProjectionState, RowWrite, Shadow
from ...projections.projector import is_table_of, table_name
from .deliveries import put
from .exclusion import MemoryExclusion
from .recorder import Commit, Tables

Table = dict[str, bytes]


class MemoryProjections(MemoryExclusion):
    """What MemoryStore does for projections."""

    def __init__(self, tables: Tables | None = None) -> None:
        super().__init__(tables)
        self.projections: dict[str, ProjectionState] = {}
        self.projection_tables: dict[str, Table] = {}

    def last_position(self) -> int:
        with self._open() as tables:
            return len(tables.log)

    def projection_states(self) -> list[ProjectionState]:
        with self._open():
            return [state for _, state in sorted(self.projections.items())]

    def projection_state(self, name: str) -> ProjectionState | None:
        with self._open():
            return self.projections.get(name)

    def projection_row(self, name: str, key: str) -> tuple[ProjectionState | None, bytes | None]:
        with self._open():
            state = self.projections.get(name)
            return state, None if state is None else self.projection_tables[state.table].get(key)

    def projection_page(
        self, name: str, limit: int, after: str | None
    ) -> tuple[ProjectionState | None, list[tuple[str, bytes]]]:
        with self._open():
            state = self.projections.get(name)
            if state is None:
                return None, []
            table = self.projection_tables[state.table]
            keys = sorted(key for key in table if after is None or key > after)
            return state, [(key, table[key]) for key in keys[:limit]]

    def create_projection(self, name: str, version: int) -> ProjectionState:
        with self._open():
            if name not in self.projections:
                table = table_name(name, 1)
                self._publish(
                    put(self.projection_tables, table, {}),
                    self._state(
                        ProjectionState(name, version, table, 0, None, None, self.now(), 1)
                    ),
                )
            return self.projections[name]

    def projection_rows(self, table: str, keys: Sequence[str]) -> dict[str, bytes]:
        with self._open():
            rows = self.projection_tables[table]
            return {key: rows[key] for key in keys if key in rows}

    def save_projection(
        self,
        state: ProjectionState,
        writes: Sequence[RowWrite],
        position: int,
        parked: Poison | None = None,
    ) -> ProjectionState | None:
        at, error = parked or (None, None)
        with self._open():
            stored = self.projections.get(state.name)
            if stored is None or (stored.table, stored.position) != (state.table, state.position):
                return None
            self._publish(
                *self._rows(state.table, writes),
                self._state(
                    stored._replace(
                        position=position, parked_at=at, parked_error=error, updated_at=self.now()
                    )
                ),
            )
            return self.projections[state.name]

    def resume_projection(self, name: str, parked_at: int) -> bool:
        with self._open():
            state = self.projections.get(name)
            if state is None or state.parked_at != parked_at:
                return False
            cleared = state._replace(parked_at=None, parked_error=None, updated_at=self.now())
            self._publish(self._state(cleared))
            return True

    def create_shadow(self, name: str) -> Shadow:
        with self._open():
            state = self.projections[name]
            number = state.tables_made + 1
            table = table_name(name, number)
            self._publish(
                put(self.projection_tables, table, {}),
                self._state(state._replace(tables_made=number)),
            )
            return Shadow(table, number)

    def fill_shadow(self, table: str, writes: Sequence[RowWrite]) -> None:
        with self._open():
            self._publish(*self._rows(table, writes))

    def promote_shadow(
        self, state: ProjectionState, shadow: Shadow, version: int, position: int
    ) -> ProjectionState | None:
        with self._open():
            stored = self.projections[state.name]
            if (stored.table, stored.tables_made) != (state.table, shadow.number):
                return None
            promoted = ProjectionState(
                state.name, version, shadow.table, position, None, None, self.now(), shadow.number
            )
            self._publish(self._state(promoted))
            return promoted

    def drop_unused(self, name: str) -> list[str]:
        with self._open():
            used = self.projections[name].table
            for table in list(self.projection_tables):
                if table != used and is_table_of(name, table):
                    del self.projection_tables[table]
            return []

    def _publish(self, *writes: Callable[[], None]) -> None:
        self.tables.publish(Commit(rows=writes))

    def _state(self, state: ProjectionState) -> Callable[[], None]:
        return put(self.projections, state.name, state)

    def _rows(self, table: str, writes: Sequence[RowWrite]) -> list[Callable[[], None]]:
        rows = self.projection_tables[table]
        return [
            partial(_delete, rows, write.key)
            if write.body is None
            else put(rows, write.key, write.body)
            for write in writes
        ]


def _delete(rows: Table, key: str) -> None:
    rows.pop(key, None)
