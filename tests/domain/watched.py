"""Stores that keep what they were asked and let things happen meanwhile, and ledgers on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from threading import RLock
from typing import Any

from runjournal.adapters.contract.between import Between, LosesReplies
from runjournal.adapters.contract.scribe import contract_codec
from runjournal.adapters.contract.tools import FreshIds, NoBeat, SteppedClock
from runjournal.domain.lease import RunLeaseHandle
from runjournal.domain.ledger import RunLedger
from runjournal.domain.ports import Change, Guard, Reading, Reply, RunStore, StoredEvent
from runjournal.domain.record import RunRecord


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


class Meanwhile(LosesReplies):
    """Lets something happen, once, right before or after the next call of a name."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self.before: dict[str, Callable[[], object]] = {}
        self.after: dict[str, Callable[[], object]] = {}

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        self.before.pop("append", _nothing)()
        reply = super().append(changes, guard, now, patience)
        self.after.pop("append", _nothing)()
        return reply

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        self.before.pop("get", _nothing)()
        return super().get(run_id, now)

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        self.before.pop("read", _nothing)()
        return super().read(stream, after_version, limit)


def _nothing() -> None:
    pass


class Buried(Watched):
    """Holds what is left of one run; nothing can be written where it was."""

    left: RunRecord | None = None

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        reading = super().get(run_id, now)
        return reading._replace(record=None) if self.left else reading

    def buried(self, run_id: str) -> RunRecord | None:
        super().buried(run_id)
        return self.left

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        return None if self.left else super().append(changes, guard, now, patience)


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
