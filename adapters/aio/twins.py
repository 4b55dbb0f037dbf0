"""What makes an async method the twin of a synchronous one, and results that can be entered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def like(source: Callable[..., Any] | property, more: str = "") -> Callable[[F], F]:
    """Document a method as the synchronous one is, with what is different behind it."""

    def documented(function: F) -> F:
        function.__doc__ = f"{source.__doc__ or ''}\n{more}" if more else source.__doc__
        return function

    return documented


class Entered(Protocol):
    """What can be the subject of an `async with`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
        /,
    ) -> None: ...


R = TypeVar("R", bound=Entered)


class Pending(Awaitable[R], Generic[R]):
    """Something on its way: `x = await pending`, or `async with pending as x`, but once.

    With `async with` it is entered as soon as it is there, and left at the end of the block. One
    that is neither awaited nor entered does nothing, and Python warns of it.
    """

    def __init__(self, coming: Coroutine[Any, Any, R]) -> None:
        self._coming = coming
        self._here: R | None = None

    def __await__(self) -> Generator[Any, Any, R]:
        return self._coming.__await__()

    async def __aenter__(self) -> R:
        self._here = await self._coming
        return await self._here.__aenter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        assert self._here is not None  # it was entered
        await self._here.__aexit__(exc_type, exc, tb)
