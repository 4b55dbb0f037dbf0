"""Names that one holder at a time may have, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from ...domain.checks import EXCLUSIVE_NAME, check_plain_name
from ...domain.errors import RUN_CONFLICT, RunStoreError
from .recorder import MemoryRecorder, Tables


class MemoryHold:
    """Lost only with the store: it ends with its block, and the journal with its process."""

    def __init__(self, store: MemoryExclusion) -> None:
        self._store = store

    def check(self) -> None:
        self._store._open()


class MemoryExclusion(MemoryRecorder):
    """`RunStore.exclusive`."""

    def now(self) -> datetime:
        raise NotImplementedError

    def _open(self) -> Tables:
        raise NotImplementedError

    @contextmanager
    def exclusive(self, name: str) -> Iterator[MemoryHold]:
        check_plain_name(name, "the name to hold", EXCLUSIVE_NAME)
        with self._open() as tables:
            if name in tables.held:
                raise RunStoreError(
                    RUN_CONFLICT, "already_running", f"{name} is held by another one here"
                )
            tables.held.add(name)
        try:
            yield MemoryHold(self)
        finally:
            tables.held.discard(name)
