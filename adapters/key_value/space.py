"""Space: what a KeyValueStore needs from a database, and how a journal is laid out in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

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


class InSpace:
    """What the parts of a KeyValueStore stand on."""

    def now(self) -> datetime:
        raise NotImplementedError

    def _within(self) -> AbstractContextManager[Space]:
        """The transaction that this thread is in, or a new one."""
        raise NotImplementedError


def key_of(*parts: str | int) -> str:
    """The key of these parts; a number is never negative, and sorts as a number."""
    return SEPARATOR.join(f"{p:020d}" if isinstance(p, int) else p for p in parts)


def under(
    space: Space, *parts: str | int, after: str | None = None, before: str | None = None
) -> Iterator[tuple[list[str], bytes]]:
    """The keys that begin with these parts, split, and their values, in order.

    after   a key to go on behind
    before  a key to stop in front of
    """
    begin = key_of(*parts) + SEPARATOR
    end = begin[:-1] + chr(ord(SEPARATOR) + 1)
    begin = begin if after is None else max(begin, after)
    for key, value in space.scan(begin, end if before is None else min(end, before)):
        yield key.split(SEPARATOR), value


def since_epoch(moment: datetime) -> int:
    """Microseconds since 1970, for a key: what was before that sorts with it."""
    return max(0, to_microseconds(max(moment, EPOCH)))


def number_in(space: Space, *parts: str | int) -> int:
    """The number that is kept under this key; 0 where there is none."""
    return int(space.get(key_of(*parts)) or 0)
