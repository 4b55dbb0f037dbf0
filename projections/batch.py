"""Batches: a page of events made into the rows to write, up to the first that cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..domain.checks import check_identifier, readable
from ..domain.errors import RunStoreError
from ..domain.events import Event
from .ports import Poison, RowWrite
from .projector import Projector

#: Characters of an error that are kept with a projection.
ERROR_LENGTH = 500


class Keyed(NamedTuple):
    """An event, where it is, and whose row it changes."""

    position: int
    key: str
    event: Event


class Plan(NamedTuple):
    """What a page asks for: its events with their keys, and the first one that has none to give."""

    events: list[Keyed]
    poison: Poison | None

    @property
    def keys(self) -> list[str]:
        """The rows to load, each once."""
        return list(dict.fromkeys(keyed.key for keyed in self.events))


class Batch(NamedTuple):
    """What a page comes to: the rows to write, and the first event that could not be projected."""

    writes: list[RowWrite]
    poison: Poison | None


def plan(projector: Projector, page: Sequence[tuple[int, Callable[[], Event]]]) -> Plan:
    """Open the events of a page, as (position, how to open it), and ask for their keys."""
    events: list[Keyed] = []
    for position, open_event in page:
        try:
            event = open_event()
            key = projector.key_of(event)
            if key is not None:
                events.append(Keyed(position, check_identifier(key, "the key of a row"), event))
        except Exception as e:  # whatever it is, it is the projection that stops
            if isinstance(e, RunStoreError) and e.reason == "missing_key":
                raise  # but for this: nothing is wrong with the event, this process lacks its key
            return Plan(events, Poison(position, _told(e)))
    return Plan(events, None)


def project(
    projector: Projector,
    planned: Plan,
    rows: Mapping[str, bytes],
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], Any],
) -> Batch:
    """Fold the planned events into the rows as they were stored.

    Each event gets its row decoded anew, so that a projector that changes it and then fails, or
    keeps it, has no part in what is written.
    """
    bodies: dict[str, bytes | None] = dict(rows)
    writes: dict[str, RowWrite] = {}
    for position, key, event in planned.events:
        try:
            body = bodies.get(key)
            row = projector.project(None if body is None else decode(body), event)
            if row is not None and type(row) is not dict:
                raise TypeError(f"project() gave a {type(row).__name__}, not a dict or None")
            bodies[key] = None if row is None else encode(row)
        except Exception as e:  # noqa: BLE001 - likewise
            return Batch(list(writes.values()), Poison(position, _told(e)))
        writes[key] = RowWrite(key, bodies[key], position)
    return Batch(list(writes.values()), planned.poison)


def _told(error: Exception) -> str:
    """What stopped it, short; never a traceback, which may hold secrets."""
    if isinstance(error, RunStoreError):
        return readable(f"{error.code}/{error.reason}: {error.message}", ERROR_LENGTH)
    return readable(f"{type(error).__name__}: {error}", ERROR_LENGTH)
