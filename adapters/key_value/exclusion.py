"""Names that one holder at a time may have, between the threads of a process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from ...domain.checks import EXCLUSIVE_NAME, check_plain_name, refuse
from ...domain.errors import RUN_CONFLICT, RunStoreError
from ...domain.history_store import ExclusiveHold
from ...domain.ports import Atomicity
from .space import InSpace


class KeyValueExclusion(InSpace):
    """`RunStore.exclusive`, as far as this class can promise it."""

    atomicity: Atomicity

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._holding = Lock()

    @contextmanager
    def exclusive(self, name: str) -> Iterator[ExclusiveHold]:
        """Hold a name between the threads of this process.

        Raises RUN_VALIDATION_ERROR / argument for a store that reaches further: override it there,
        if the database has locks that end with their process.
        """
        check_plain_name(name, "the name to hold", EXCLUSIVE_NAME)
        if self.atomicity != "process":
            raise refuse("argument", "this journal's store cannot hold a name between processes")
        hold = _Hold(self)
        hold.check()
        with self._holding:
            if name in self._held:
                raise RunStoreError(
                    RUN_CONFLICT, "already_running", f"{name} is held by another one here"
                )
            self._held.add(name)
        try:
            yield hold
        finally:
            self._held.discard(name)


class _Hold:
    """Lost only with the store."""

    def __init__(self, store: KeyValueExclusion) -> None:
        self._store = store

    def check(self) -> None:
        with self._store._within():
            pass  # it is open
