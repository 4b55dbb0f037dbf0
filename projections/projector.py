"""The projector: how a user's own reading of the journal is made from its events. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from ..domain.checks import check_identifiers, check_integer, check_plain_name, refuse
from ..domain.events import Event

#: Characters of a projection's name: with what is added it fits the table names of every backend.
NAME_LENGTH = 41
#: The readings that are written with the events themselves.
BUILT_IN: Final = frozenset({"run_records", "delivery_outbox"})

Row = dict[str, Any]


class Projector(Protocol):
    """Makes rows of events, one row under each key. The same events always make the same rows.

    name                1 to 41 of a-z, 0-9 and _, from a letter on: part of its table's name
    projection_version  raise it when the rows would come out differently; then rebuild
    topics              the events it wants to see; () for all

    No clock, no I/O, no memory of its own: an event may be projected twice before its row is
    saved once. All that it has to remember is in the row.
    """

    @property
    def name(self) -> str: ...

    @property
    def projection_version(self) -> int: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    def key_of(self, event: Event) -> str | None:
        """The key of the row that the event changes; None if it changes none."""
        ...

    def project(self, row: Row | None, event: Event) -> Row | None:
        """The row after the event: a dict of JSON values, or None to delete it.

        row  what the last event under this key left, None if there is nothing. A copy: it may be
             changed and returned
        """
        ...


def check_projector(projector: Projector, known: Sequence[str]) -> None:
    """Refuse a projector whose name, version or topics cannot be.

    known  the topics that can be read; a misspelt one would never come

    Raises RUN_VALIDATION_ERROR / identifier or argument.
    """
    name = check_plain_name(projector.name, "the name of a projection", NAME_LENGTH)
    if name in BUILT_IN:
        raise refuse("identifier", f"{name} is the name of a built-in projection")
    check_integer(projector.projection_version, "projection_version", least=1)
    for topic in check_identifiers(projector.topics, "topic"):
        if topic not in known:
            raise refuse("argument", f"projection {name}: there is no event {topic!r}")


def table_name(name: str, number: int) -> str:
    """The table that was made as the projection's so-and-so-manieth."""
    return f"projection_{name}_{number}"


def is_table_of(name: str, table: str) -> bool:
    """Whether the table was made for this projection."""
    return re.fullmatch(rf"projection_{name}_[0-9]+", table) is not None


def hold_name(name: str) -> str:
    """What whoever writes a projection's rows holds exclusively."""
    return f"projection_{name}"
