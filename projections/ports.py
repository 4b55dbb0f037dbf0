"""What projections of the users' own need from a store. Nothing here has an implementation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class ProjectionState(NamedTuple):
    """One projection as the store knows it.

    name                its name
    projection_version  the version of the projector that made the rows
    table               where the rows in service are
    position            every event up to here is in the rows, and none after it
    parked_at           the position of an event that could not be projected; None if all is well
    parked_error        why, for people
    updated_at          when it was last written
    tables_made         how many tables were made for it: the number of the newest one
    """

    name: str
    projection_version: int
    table: str
    position: int
    parked_at: int | None
    parked_error: str | None
    updated_at: datetime
    tables_made: int


class RowWrite(NamedTuple):
    """A row to write: its JSON bytes, or None to delete it, and the event that last touched it."""

    key: str
    body: bytes | None
    position: int


class Poison(NamedTuple):
    """An event that could not be projected: where it is, and why."""

    position: int
    error: str


class Shadow(NamedTuple):
    """A table that is being filled and nobody reads: its name, and its number among the tables."""

    table: str
    number: int


class ProjectionStore(Protocol):
    """Storage of the users' projections: a table of rows each, and one row about each of them.

    Errors every method may raise: as for RunStore. A lost guard is no error but a None or a False.
    Whoever writes holds `RunStore.exclusive("projection_<name>")`; the guards hold even where that
    was lost and nobody has noticed yet.
    """

    def last_position(self) -> int:
        """The highest position that is committed, though lower ones may still appear; 0 if none."""
        ...

    def projection_states(self) -> list[ProjectionState]:
        """Every projection that ever ran, by name."""
        ...

    def projection_state(self, name: str) -> ProjectionState | None:
        """One projection; None before it first ran."""
        ...

    def projection_row(self, name: str, key: str) -> tuple[ProjectionState | None, bytes | None]:
        """The row in service under this key, and the projection it belongs to."""
        ...

    def projection_page(
        self, name: str, limit: int, after: str | None
    ) -> tuple[ProjectionState | None, list[tuple[str, bytes]]]:
        """Rows in service in the order of their keys' UTF-8 bytes, after a key."""
        ...

    def create_projection(self, name: str, version: int) -> ProjectionState:
        """The projection; made with an empty table at position 0 where it did not exist.

        Raises RUN_VALIDATION_ERROR / read_only where the role may not create tables; the message
        has the statement that somebody else must run.
        """
        ...

    def projection_rows(self, table: str, keys: Sequence[str]) -> dict[str, bytes]:
        """The rows under these keys, for whoever projects into the table."""
        ...

    def save_projection(
        self,
        state: ProjectionState,
        writes: Sequence[RowWrite],
        position: int,
        parked: Poison | None = None,
    ) -> ProjectionState | None:
        """Write rows and position in one transaction, or nothing.

        Guard of the store: the projection still has the state's table and position.
        """
        ...

    def resume_projection(self, name: str, parked_at: int) -> bool:
        """Take the mark away that was set at this position."""
        ...

    def create_shadow(self, name: str) -> Shadow:
        """A new, empty table for a projection that exists. No name is ever given out twice.

        Raises as create_projection.
        """
        ...

    def fill_shadow(self, table: str, writes: Sequence[RowWrite]) -> None:
        """Write rows into a shadow; writing them twice does no harm."""
        ...

    def promote_shadow(
        self, state: ProjectionState, shadow: Shadow, version: int, position: int
    ) -> ProjectionState | None:
        """Put the shadow into service, at its position, with no mark.

        Guards of the store: the state's table is still in service, and no newer shadow was made.
        Waits for others for a moment only: RUN_STORE_UNAVAILABLE / busy.
        """
        ...

    def drop_unused(self, name: str) -> list[str]:
        """Remove the projection's tables that are not in service; those that could not be.

        A table that somebody else still reads, or that is another role's, is left for next time.
        """
        ...
