"""What the tests of the async face share: both event loops, and a store that can be held up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest
from runjournal import AsyncJournal

PATIENCE = 30.0


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Each async test runs on both event loops."""
    return str(request.param)


@pytest.fixture
def journal_url(request: pytest.FixtureRequest, anyio_backend: str) -> str:
    """A new journal on a database: what differs between the loops does not between databases."""
    database = {"asyncio": "postgres", "trio": "sqlite"}[anyio_backend]
    return str(request.getfixturevalue(f"{database}_url"))


class Gate:
    """Holds a method of an object up until it is opened: then a call is under way for sure."""

    def __init__(self, of: Any, name: str) -> None:
        self._original = getattr(of, name)
        self._entered = threading.Event()
        self._opened = threading.Event()
        setattr(of, name, self._pass)

    def _pass(self, *args: Any, **kwargs: Any) -> Any:
        self._entered.set()
        assert self._opened.wait(PATIENCE), "nobody opened the gate"
        return self._original(*args, **kwargs)

    def open(self) -> None:
        self._opened.set()

    async def entered(self) -> None:
        """Wait until somebody stands before it."""
        with anyio.fail_after(PATIENCE):
            while not self._entered.is_set():
                await anyio.sleep(0.001)


@pytest.fixture
def gate() -> Iterator[Callable[[AsyncJournal, str], Gate]]:
    """Puts a gate before a method of a journal's store."""
    gates: list[Gate] = []

    def put(journal: AsyncJournal, name: str) -> Gate:
        gates.append(Gate(journal.sync.store, name))
        return gates[-1]

    yield put
    for one in gates:
        one.open()
