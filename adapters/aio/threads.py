"""Threads: runs blocking calls in worker threads, so that a cancelled await loses nothing.

A call that has begun is never left alone: a cancelled await waits for its end, and then raises.
What the call was given meanwhile, such as a lease, is given back. That holds for the levels of
anyio and trio as for asyncio's `task.cancel()`, and when a closing event loop ends all tasks.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import Generic, ParamSpec, TypeVar

import anyio
import anyio.lowlevel
from anyio import to_thread

from ...domain.checks import check_integer

T = TypeVar("T")
P = ParamSpec("P")

#: Worker threads of one async journal, unless it is told otherwise. Each uses at most one
#: connection at a time.
THREADS = 8


def _keep(_value: object, _error: BaseException) -> None:
    pass


class _Left(Exception):  # noqa: N818 - nobody waits for the result any more
    pass


def reporting(stop: threading.Event, progress: Callable[[int], object]) -> Callable[[int], None]:
    """The progress to report, and the end of the work once its await was cancelled."""

    def go_on(events: int) -> None:
        if stop.is_set():
            raise _Left
        progress(events)

    return go_on


class _Call(Generic[T]):
    """One call: run once in a thread, and wanted until its awaiter leaves."""

    def __init__(
        self, function: Callable[[], T], undo: Callable[[T, BaseException], None] = _keep
    ) -> None:
        self._function = function
        self._undo = undo
        self._lock = threading.Lock()
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._left: BaseException | None = None

    def run(self) -> None:
        """In the thread. Takes back what nobody waits for any more."""
        try:
            value = self._function()
        except BaseException as e:  # noqa: BLE001 - it is the awaiter's
            self._error = e
            return
        with self._lock:
            left = self._left
            if left is None:
                self._value.append(value)
        if left is not None:
            self._undo(value, left)

    def fail(self, error: Exception) -> None:
        """It could not be run."""
        self._error = error

    def leave(self, error: BaseException) -> Callable[[], None] | None:
        """Want it no more; what is then left to do, if it has a result already."""
        with self._lock:
            self._left = error
            if self._value and self._undo is not _keep:
                return partial(self._undo, self._value[0], error)
        return None

    def outcome(self) -> T:
        """What it returned, or raised."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # else the error, its traceback and this would be a cycle
        return self._value[0]


class Threads:
    """The worker threads of one async journal: a number of its own, apart from the host's.

    number  how many calls may be in threads at once; further ones wait, and can be cancelled while
            they do. `long` calls do not count
    """

    def __init__(self, number: int = THREADS) -> None:
        self.number = check_integer(number, "threads", least=1, most=1000)
        self._stops: set[threading.Event] = set()
        self._grants: set[anyio.Event] = set()

    # Made within the event loop that they belong to.

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(self.number)

    @cached_property
    def _unlimited(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(math.inf)

    @property
    def busy(self) -> int:
        """How many calls are in threads now."""
        return int(self._limiter.borrowed_tokens + self._unlimited.borrowed_tokens)

    async def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in a thread. Cancelled before it began, it never begins."""
        call = _Call(partial(function, *args, **kwargs))
        await self._run(call, self._limiter)
        return call.outcome()

    async def surely(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in a thread, even where everything is being cancelled: for cleaning up."""
        call = _Call(partial(function, *args, **kwargs))
        with anyio.CancelScope(shield=True):
            await self._run(call, self._limiter, shield=True)
        return call.outcome()

    async def grant(self, take: Callable[[], T], undo: Callable[[T, BaseException], None]) -> T:
        """Run `take`; what it took is given to `undo`, with the reason, if nobody gets it."""
        call, over = _Call(take, undo), anyio.Event()
        self._grants.add(over)
        try:
            await self._run(call, self._limiter)
        finally:
            self._grants.discard(over)
            over.set()
        return call.outcome()

    async def long(self, work: Callable[[threading.Event], T]) -> T:
        """Run what may take long, or only wait, in a thread beyond the number.

        It is handed an event that is set when nobody waits for it any more, and then must end.
        """
        stop = threading.Event()
        call = _Call(partial(work, stop))
        self._stops.add(stop)
        try:
            await self._run(call, self._unlimited, stop=stop)
        finally:
            self._stops.discard(stop)
        return call.outcome()

    async def settle(self) -> None:
        """Stop the long calls, and wait until no grant is on its way."""
        for stop in tuple(self._stops):
            stop.set()
        for over in tuple(self._grants):
            await over.wait()

    async def _run(
        self,
        call: _Call[T],
        limiter: anyio.CapacityLimiter,
        *,
        shield: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        over = anyio.Event()

        async def in_thread() -> None:
            try:
                with anyio.CancelScope(shield=shield):
                    await to_thread.run_sync(call.run, limiter=limiter)
            except Exception as e:  # noqa: BLE001 - such as no thread can be started
                call.fail(e)
            finally:
                over.set()

        try:
            # A task of its own: asyncio's cancel() would tear this one away from the thread, where
            # a task group waits for its tasks in any case.
            async with anyio.create_task_group() as group:
                group.start_soon(in_thread)
                if stop is not None:
                    try:
                        await over.wait()
                    finally:
                        stop.set()
            # Trio's groups do not raise what asyncio's do; a cancelled await is to mean the same.
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException as e:
            undo = call.leave(e)
            if undo is not None:
                await self.surely(undo)
            raise
