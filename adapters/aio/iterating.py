"""Iterators of a synchronous journal as async ones, which read a page at a time in a thread."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

import anyio

from ...domain.checks import check_seconds
from ...domain.events import Event
from ..clocks import ticks
from ..event_log import JournalSubscription
from .threads import Threads

T = TypeVar("T")

#: Items read in one visit to a thread.
PAGE = 200


class AsyncPages(AsyncIterator[T], Generic[T]):
    """What a synchronous iterator gives, in pages. A wrong argument raises at the first one.

    A cancelled wait loses nothing: the next one goes on behind what was handed out last.
    """

    def __init__(self, threads: Threads, begin: Callable[[], Iterator[T]]) -> None:
        self._threads = threads
        self._begin = begin
        self._source: Iterator[T] | None = None
        self._page: deque[T] = deque()
        self._error: Exception | None = None

    async def __anext__(self) -> T:
        if not self._page and self._error is None:
            await self._threads.call(self._read)
        if self._page:
            return self._page.popleft()
        raise self._end()

    def _end(self) -> Exception:
        error, self._error = self._error, None
        return StopAsyncIteration() if error is None else error

    def _read(self) -> None:
        """In a thread. What comes before an error is handed out before it."""
        try:
            if self._source is None:
                self._source = self._begin()
            for _ in range(PAGE):
                self._page.append(next(self._source))
        except StopIteration:
            pass
        except Exception as e:  # noqa: BLE001 - it is raised in its turn
            self._error = e


class AsyncSubscription(AsyncPages[tuple[int, Event]]):
    """Events with their positions, in order; waits at the head for more, without a thread.

    `position` is the one handed out last: subscribe after it to go on. An event that cannot be
    read raises, and the next call goes on behind it. As an async context manager it is stopped at
    the end.
    """

    def __init__(
        self,
        threads: Threads,
        begin: Callable[[], JournalSubscription],
        *,
        after: int,
        follow: bool,
        poll: float,
        timeout: float | None,
    ) -> None:
        super().__init__(threads, begin)
        self.position = after
        self._follow = follow
        self._poll = check_seconds(poll, "poll")
        self._timeout = None if timeout is None else check_seconds(timeout, "timeout")
        self._stopped = anyio.Event()

    async def __anext__(self) -> tuple[int, Event]:
        until = None if self._timeout is None else ticks() + self._timeout
        while not self._stopped.is_set():
            if not self._page and self._error is None:
                await self._threads.call(self._read)
            if self._page:
                self.position, _ = item = self._page.popleft()
                return item
            left = self._poll if until is None else min(self._poll, until - ticks())
            if self._error is not None or not self._follow or left <= 0:
                break
            with anyio.move_on_after(left):
                await self._stopped.wait()
        if self._error is not None and isinstance(self._source, JournalSubscription):
            self.position = self._source.position
        raise self._end()

    def stop(self) -> None:
        """End the iteration, from the same event loop; a call that waits returns at once."""
        self._stopped.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.stop()
