"""Replay: a run's record before and after each event, and what the event changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ..domain.events import Event
from ..domain.record import RunRecord
from ..domain.run import evolve

#: What every event moves, or only helps to recognise a repeated command: no change worth telling.
UNTOLD = frozenset({"version", "updatedAt", "head", "commands"})


class Changed(NamedTuple):
    """One field of the record's JSON form, as in `lease.owner`; None stands for "not there"."""

    field: str
    before: Any
    after: Any


class Step(NamedTuple):
    """One event with the record before it (None before the first) and after it."""

    event: Event
    before: RunRecord | None
    after: RunRecord
    changes: tuple[Changed, ...]


def replay(events: Iterable[Event]) -> Iterator[Step]:
    """Go through a run's events from the first one, as `journal.events(run_id)` gives them.

    The record after an event is what `journal.get(run_id, version=...)` answers for its version.
    Of the record's fields, `version`, `updatedAt`, `head` and `commands` are not told as changes.
    """
    before: RunRecord | None = None
    told: dict[str, Any] = {}
    for event in events:
        after = evolve(before, event, event.hash)
        now = dict(_flat(after.model_dump(mode="json", by_alias=True, exclude_none=True)))
        changes = tuple(
            Changed(field, told.get(field), now.get(field))
            for field in {**now, **told}
            if told.get(field) != now.get(field)
        )
        yield Step(event, before, after, changes)
        before, told = after, now


def _flat(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The fields with those of the record's parts beside them, under dotted names."""
    for name, value in fields.items():
        if name in UNTOLD and not prefix:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif value != []:
            yield f"{prefix}{name}", value
