"""Stores that stand between a ledger and the store under test, to make things happen.

A backend's own failures are hard to provoke on demand; here they are provoked around any store:
a commit whose reply is lost, a request that never arrives, a renewal that comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.delivery_store import DeliveryReading, DueDelivery
from ...domain.errors import (
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RunStoreError,
)
from ...domain.history_store import ExclusiveHold
from ...domain.ports import (
    Atomicity,
    Attention,
    Change,
    Granted,
    Granting,
    Guard,
    LeaseRef,
    Reading,
    Reply,
    RunStore,
    StoredEvent,
)
from ...domain.record import RunRecord


class Between:
    """Hands every call on to the store behind it, and counts them by name."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.calls: list[str] = []

    @property
    def atomicity(self) -> Atomicity:
        return self.store.atomicity

    @property
    def epoch(self) -> int:
        return self.store.epoch

    def now(self) -> datetime:
        return self.store.now()

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        self.calls.append("get")
        return self.store.get(run_id, now)

    def buried(self, run_id: str) -> RunRecord | None:
        self.calls.append("buried")
        return self.store.buried(run_id)

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        self.calls.append("append")
        return self.store.append(changes, guard, now, patience)

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        self.calls.append("renew")
        return self.store.renew(leases, now)

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        self.calls.append("claim")
        return self.store.claim(kinds, limit, grant, now)

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        self.calls.append("get_delivery")
        return self.store.get_delivery(invocation_id, now)

    def advance_delivery(self, change: Change) -> bool:
        self.calls.append("advance_delivery")
        return self.store.advance_delivery(change)

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        self.calls.append("due_deliveries")
        return self.store.due_deliveries(status, limit, refs, now, but)

    def deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        self.calls.append("deliveries")
        return self.store.deliveries(status=status, attention=attention, limit=limit, after=after)

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        self.calls.append("set_aside_delivery")
        self.store.set_aside_delivery(invocation_id, reason)

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        self.calls.append("read")
        return self.store.read(stream, after_version, limit)

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        return self.store.runs(status=status, kind=kind, limit=limit, after=after)

    def set_aside(self, run_id: str, reason: str) -> None:
        self.store.set_aside(run_id, reason)

    def attention(self) -> list[Attention]:
        return self.store.attention()

    def exclusive(self, name: str) -> AbstractContextManager[ExclusiveHold]:
        return self.store.exclusive(name)

    def close(self) -> None:
        self.store.close()


class ActsFirst(Between):
    """Lets somebody else act right before the next append that carries a guard of this kind."""

    def __init__(self, store: RunStore, lease: str, act: Callable[[], object]) -> None:
        super().__init__(store)
        self._lease = lease
        self._act: Callable[[], object] | None = act

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        if self._act is not None and guard is not None and guard.lease == self._lease:
            act, self._act = self._act, None
            act()
        return super().append(changes, guard, now, patience)


class LosesReplies(Between):
    """Loses what it is told to lose, as a broken connection does.

    replies   so many of the next appends and claims are committed, and then their reply is lost
    requests  so many of the next appends never arrive; the caller cannot tell the difference
    cut_off   True: nothing can be read or written any more until it is False again
    """

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self.replies = 0
        self.requests = 0
        self.cut_off = False
        #: Set by a test that wants the connection to stay down after the loss.
        self.stays_down = False

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        self._reach()
        if self.requests:
            self.requests -= 1
            raise self._lost("the request did not arrive")
        reply = super().append(changes, guard, now, patience)
        self._reply()
        return reply

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        self._reach()
        granted = super().claim(kinds, limit, grant, now)
        self._reply()
        return granted

    def advance_delivery(self, change: Change) -> bool:
        self._reach()
        if self.requests:
            self.requests -= 1
            raise self._lost("the request did not arrive")
        written = super().advance_delivery(change)
        self._reply()
        return written

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        self._reach()
        return super().get_delivery(invocation_id, now)

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        self._reach()
        return super().due_deliveries(status, limit, refs, now, but)

    def now(self) -> datetime:
        self._reach()
        return super().now()

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        self._reach()
        return super().get(run_id, now)

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        self._reach()
        return super().read(stream, after_version, limit)

    def _reach(self) -> None:
        if self.cut_off:
            raise RunStoreError(RUN_STORE_UNAVAILABLE, "failed", "the store is cut off")

    def _reply(self) -> None:
        if self.replies:
            self.replies -= 1
            raise self._lost("the reply was lost")

    def _lost(self, what: str) -> RunStoreError:
        self.cut_off = self.stays_down
        return RunStoreError(RUN_OUTCOME_UNKNOWN, "reply_lost", what)


class Rewindable(Between):
    """Remembers what was appended, so that the past can be played into another store."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self._past: list[tuple[tuple[Change, ...], datetime | None]] = []

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        reply = super().append(changes, guard, now, patience)
        if reply is not None:
            self._past.append((tuple(changes), now))
        return reply

    def rewind(self, empty: RunStore, appends: int) -> None:
        """Go on with `empty`, in which only the first so many appends have happened."""
        for changes, now in self._past[:appends]:
            assert empty.append(changes, None, now) is not None
        self.store = empty
