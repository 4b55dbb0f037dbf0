"""What is moved together: a run with its delivery, or a stream that belongs to no run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...domain.chain import GENESIS, chain_hash
from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ...domain.ports import StoredEvent
from ...projections.streams import Stream

#: Bytes up to which a stream is kept in memory; a larger one is read again when it is needed.
KEPT = 2 << 20
#: What an event takes in memory beside its data, roughly.
OVERHEAD = 300


class Strand(NamedTuple):
    """One stream, folded, and its events as often as they are asked for.

    events  gives the events after a version, oldest first
    size    the bytes that it keeps in memory
    """

    stream: Stream
    events: Callable[[int], Iterator[StoredEvent]]
    size: int


#: A run and, once it has ended and has one, its delivery; or a stream that belongs to no run.
Unit = tuple[Strand, ...]


class Gathering:
    """A stream while it is read: it is kept as long as it is small.

    again  reads its events once more, from the first one on
    """

    def __init__(self, name: str, again: Callable[[], Iterator[StoredEvent]]) -> None:
        self.stream = Stream(name)
        self._again = again
        self._kept: list[StoredEvent] | None = []
        self._size = 0

    def keep(self, stored: StoredEvent) -> None:
        """Take note of the event that the stream was just gone on with."""
        if self._kept is not None:
            self._kept.append(stored)
            self._size += len(stored.data) + OVERHEAD
            if self._size > KEPT:
                self._kept, self._size = None, 0

    def strand(self) -> Strand:
        return Strand(self.stream, self._events, self._size)

    def _events(self, after: int) -> Iterator[StoredEvent]:
        if self._kept is not None:
            return iter(self._kept[after:])
        return self._read_again(after)

    def _read_again(self, after: int) -> Iterator[StoredEvent]:
        """The same events: who changed them meanwhile is found out before they are committed."""
        head, name = GENESIS, self.stream.name
        for stored in self._again():
            head = chain_hash(head, *stored)
            if stored.version > after:
                yield stored
            if stored.version == self.stream.version:
                break
        if head != self.stream.head:
            raise RunStoreError(
                RUN_INTEGRITY_ERROR, "unreadable_event", f"{name} was changed while it was read"
            )
