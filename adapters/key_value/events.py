"""Events in a Space: their streams, and their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...domain.ports import Change, StoredEvent
from .space import Space, key_of, number_in, under


def is_at_end(space: Space, change: Change) -> bool:
    """Whether the change goes on where its stream ends."""
    return last_version(space, change.stream) == change.expected_version


def write_events(space: Space, change: Change) -> None:
    """Put the change's events."""
    for event in change.events:
        put_event(space, event)


def put_event(space: Space, event: Sequence[Any]) -> int:
    """Put one event, a SealedEvent or a StoredEvent, and note its place; its position."""
    stream, version, topic, data = event[:4]
    key = key_of("event", stream, version)
    position = last_position(space) + 1
    space.put(key, b"%d\n%b\n%b" % (position, topic.encode(), data))
    space.put(key_of("last", stream), b"%d" % max(version, last_version(space, stream)))
    space.put(key_of("position", position), key.encode())
    _set_position(space, position)
    return position


def pass_over(space: Space, positions: int) -> None:
    """Leave out so many positions."""
    _set_position(space, last_position(space) + positions)


def remove_stream(space: Space, stream: str) -> None:
    """Take all events of a stream away; their positions stay empty."""
    for parts, value in list(under(space, "event", stream)):
        space.put(key_of("position", place_of(value)), None)
        space.put(key_of("event", stream, int(parts[2])), None)
    space.put(key_of("last", stream), None)


def event_there(space: Space, stream: str, version: int) -> bool:
    """Whether the stream has this event."""
    return space.get(key_of("event", stream, version)) is not None


def last_position(space: Space) -> int:
    """The highest position that was handed out; 0 where none was."""
    return number_in(space, "positions")


def last_version(space: Space, stream: str) -> int:
    """The version of the stream's last event; 0 where there is none."""
    return number_in(space, "last", stream)


def last_place(space: Space, stream: str) -> int | None:
    """The position of the stream's last event; None where it is not there."""
    value = space.get(key_of("event", stream, last_version(space, stream)))
    return None if value is None else place_of(value)


def event_of(parts: Sequence[str], value: bytes) -> StoredEvent:
    """The event of a key's parts and its value."""
    _, topic, data = value.split(b"\n", 2)
    return StoredEvent(parts[1], int(parts[2]), topic.decode(), data)


def place_of(value: bytes) -> int:
    """The position of the event of this value."""
    return int(value.partition(b"\n")[0])


def _set_position(space: Space, position: int) -> None:
    space.put("positions", b"%d" % position)
