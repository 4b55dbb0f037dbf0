"""A projector that the tests share, and a look at the tables of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runjournal import Event, Journal
from runjournal.domain.events import RunEvent


class Seen:
    """Which versions of each run were projected, in their order: nothing missed, nothing twice."""

    def __init__(
        self,
        name: str = "seen",
        version: int = 1,
        topics: tuple[str, ...] = (),
        before: Callable[[Event], object] = lambda _event: None,
    ) -> None:
        self.name = name
        self.projection_version = version
        self.topics = topics
        self.before = before

    def key_of(self, event: Event) -> str | None:
        return event.run_id if isinstance(event, RunEvent) else None

    def project(self, row: dict[str, Any] | None, event: Event) -> dict[str, Any] | None:
        row = row or {"versions": []}
        # Changed before it may fail: nothing of that may be saved.
        row["versions"].append(event.originator_version)
        self.before(event)
        return row


def tables_of(journal: Journal) -> set[str]:
    """The tables of rows that there are."""
    store: Any = journal.store
    if hasattr(store, "projection_tables"):
        return set(store.projection_tables)
    from runjournal.adapters.postgres.projection_statements import TABLES as POSTGRES
    from runjournal.adapters.sqlite.projection_statements import TABLES as SQLITE

    if hasattr(store, "gaps"):
        return {table for (table,) in store.database.read(POSTGRES, store.database.schema)}
    with store.database.reading() as conn:
        return {table for (table,) in conn.execute(SQLITE)}
