"""Names that one holder at a time may have, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from ...domain.checks import EXCLUSIVE_NAME, check_plain_name
from ...domain.errors import RUN_CONFLICT, RunStoreError
from .recorder import MemoryRecorder, Tables


class MemoryHold:
    """Never lost: it ends with its block, and the journal ends with its process."""

    def check(self) -> None:
        pass


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
            yield MemoryHold()
        finally:
            tables.held.discard(name)
