"""A store that keeps what it was asked, and ledgers on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from threading import RLock
from typing import Any

from runjournal.adapters.contract.between import Between
from runjournal.adapters.contract.scribe import contract_codec
from runjournal.adapters.contract.tools import FreshIds, NoBeat, SteppedClock
from runjournal.domain.lease import RunLeaseHandle
from runjournal.domain.ledger import RunLedger
from runjournal.domain.ports import Change, Guard, Reply, RunStore, StoredEvent


class Watched(Between):
    """Keeps what it was asked."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self.appends: list[tuple[Sequence[Change], Guard | None, float | None]] = []
        self.reads: list[tuple[str, int, int | None]] = []

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        self.appends.append((changes, guard, patience))
        return super().append(changes, guard, now, patience)

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        self.reads.append((stream, after_version, limit))
        return super().read(stream, after_version, limit)


class Beats(NoBeat):
    def __init__(self) -> None:
        self.watched: list[RunLeaseHandle] = []

    def watch(self, handle: RunLeaseHandle) -> None:
        self.watched.append(handle)

    def unwatch(self, handle: RunLeaseHandle) -> None:
        if handle in self.watched:
            self.watched.remove(handle)


def ledger_of(store: RunStore, clock: SteppedClock, owner: str = "w1", **options: Any) -> RunLedger:
    fixed = {"ticks": lambda: clock.now.timestamp(), "make_lock": RLock, "clock": clock}
    options = {"beat": NoBeat()} | fixed | options
    return RunLedger(store, contract_codec(), FreshIds(), owner=owner, **options)
