"""The whole journal in order: pages of it, and a subscription that can be stopped and resumed.

Positions have holes and events are committed out of order; what is read here is below the gap-free
head, so nothing can appear later before a place that was passed. Topics are chosen after that.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from eventsourcing.persistence import Notification

from ..domain.errors import RunStoreError
from ..domain.events import Event
from ..domain.ports import StoredEvent
from .clocks import ticks
from .codec import OrjsonCodec

#: Events read at once: few, because each may hold a checkpoint of the largest size.
PAGE = 200


class LogStore(Protocol):
    """What of the eventsourcing library's ApplicationRecorder is used here."""

    def max_notification_id(self) -> int | None: ...

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]: ...


class EventLog:
    """Reads on from a position; `position` is how far it has come.

    topics  as they are stored; () for all. Events of other topics move the position on as well
    """

    def __init__(self, store: LogStore, after: int, topics: Sequence[str] = ()) -> None:
        self._store = store
        self._topics = topics
        self.position = after

    def head(self) -> int:
        """The highest position below which nothing can appear any more."""
        return self._store.max_notification_id() or 0

    def page(self, limit: int = PAGE, head: int | None = None) -> list[tuple[int, StoredEvent]]:
        """The next events, at most `limit`, up to the head or a lower position."""
        head = self.head() if head is None else head
        if head <= self.position:
            return []
        found = self._store.select_notifications(
            self.position, limit, stop=head, topics=self._topics, inclusive_of_start=False
        )
        self.position = found[-1].id if len(found) == limit else head
        return [
            (n.id, StoredEvent(str(n.originator_id), n.originator_version, n.topic, n.state))
            for n in found
        ]


class JournalSubscription(Iterator[tuple[int, Event]]):
    """Events with their positions, in order; waits at the head for more. Made by `subscribe`.

    `position` is the one handed out last: subscribe after it to go on. An event that cannot be
    read raises, and the next call goes on behind it. As a context manager it is stopped at the end.
    """

    def __init__(
        self,
        store: LogStore,
        codec: OrjsonCodec,
        after: int,
        topics: Sequence[str],
        *,
        follow: bool,
        poll: float,
        timeout: float | None,
    ) -> None:
        self.position = after
        self._log = EventLog(store, after, codec.registry.stored_topics(topics))
        self._codec = codec
        self._poll = poll
        self._timeout = timeout
        self._head = None if follow else self._log.head()
        self._page: deque[tuple[int, StoredEvent]] = deque()
        self._stopped = threading.Event()

    def __next__(self) -> tuple[int, Event]:
        if not self._page:
            self._wait()
        if self._stopped.is_set() or not self._page:
            raise StopIteration
        self.position, stored = self._page.popleft()
        try:
            return self.position, self._codec.open(stored)
        except RunStoreError as e:
            raise at_position(e, self.position) from e

    def _wait(self) -> None:
        """Read the next page, as soon as there is one."""
        until = None if self._timeout is None else ticks() + self._timeout
        while not self._stopped.is_set():
            self._page.extend(self._log.page(head=self._head))
            if self._page:
                return
            if self._head is not None and self._log.position >= self._head:
                return
            left = self._poll if until is None else min(self._poll, until - ticks())
            if left <= 0:
                return
            if self._head is None:
                self._stopped.wait(left)

    def stop(self) -> None:
        """End the iteration, from any thread; a call that waits returns at once."""
        self._stopped.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        self.stop()


def at_position(error: RunStoreError, position: int) -> RunStoreError:
    """The same error, saying where in the journal the event is."""
    return RunStoreError(error.code, error.reason, f"position {position}: {error.message}")
