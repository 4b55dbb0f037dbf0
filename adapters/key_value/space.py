"""Space: what a KeyValueStore needs from a database, and how runs are laid out in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol

from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ...domain.ports import Change, StoredEvent
from ..rows import EPOCH, to_microseconds

#: Between the parts of a key. No identifier has a control character, so a name sorts right before
#: all longer ones that begin with it, as UTF-8 does.
SEPARATOR = "\x1f"


class Space(Protocol):
    """An ordered map from keys to bytes, as one transaction sees it: its own writes included.

    Keys are texts without surrogates, up to 400 bytes of UTF-8, and ordered as those bytes are.
    """

    def get(self, key: str) -> bytes | None:
        """The value of the key; None where there is none."""
        ...

    def put(self, key: str, value: bytes | None) -> None:
        """Give the key this value; None takes the key away, if it is there."""
        ...

    def scan(self, after: str, before: str) -> Iterator[tuple[str, bytes]]:
        """The keys with after < key < before, and their values, in order.

        What is put during the scan may be in it or not.
        """
        ...


def key_of(*parts: str | int) -> str:
    """The key of these parts; a number is never negative, and sorts as a number."""
    return SEPARATOR.join(f"{p:020d}" if isinstance(p, int) else p for p in parts)


def under(
    space: Space, *parts: str | int, after: str | None = None
) -> Iterator[tuple[list[str], bytes]]:
    """The keys that begin with these parts, split, and their values, in order.

    after  a key to go on behind
    """
    begin = key_of(*parts) + SEPARATOR
    end = begin[:-1] + chr(ord(SEPARATOR) + 1)
    for key, value in space.scan(begin if after is None else max(begin, after), end):
        yield key.split(SEPARATOR), value


def since_epoch(moment: datetime) -> int:
    """Microseconds since 1970, for a key: what was before that sorts with it."""
    return max(0, to_microseconds(max(moment, EPOCH)))


def write_events(space: Space, change: Change) -> bool:
    """Put the change's events at the end of their stream; False if it is not where they go on."""
    expected = change.expected_version
    if last_version(space, change.stream) != expected:
        return False
    for event in change.events:
        put_event(space, event)
    return True


def put_event(space: Space, event: Sequence[Any]) -> int:
    """Put one event, a SealedEvent or a StoredEvent, and note its place; its position."""
    stream, version, topic, data = event[:4]
    key = key_of("event", stream, version)
    position = last_position(space) + 1
    space.put(key, topic.encode() + b"\n" + data)
    space.put(key_of("last", stream), b"%d" % max(version, last_version(space, stream)))
    space.put(key_of("position", position), key.encode())
    space.put("positions", b"%d" % position)
    return position


def event_there(space: Space, stream: str, version: int) -> bool:
    """Whether the stream has this event."""
    return space.get(key_of("event", stream, version)) is not None


def last_position(space: Space) -> int:
    """The position of the last event of the journal; 0 where there is none."""
    return int(space.get("positions") or 0)


def last_version(space: Space, stream: str) -> int:
    """The version of the stream's last event; 0 where there is none."""
    return int(space.get(key_of("last", stream)) or 0)


def event_of(parts: list[str], value: bytes) -> StoredEvent:
    """The event of a key's parts and its value."""
    topic, _, data = value.partition(b"\n")
    return StoredEvent(parts[1], int(parts[2]), topic.decode(), data)


def unreadable(what: str, problem: object) -> RunStoreError:
    """RUN_INTEGRITY_ERROR for a row that does not say what its stream was."""
    message = f"the stored record of {what} cannot be read: {problem}"
    return RunStoreError(RUN_INTEGRITY_ERROR, "unreadable_record", message)
