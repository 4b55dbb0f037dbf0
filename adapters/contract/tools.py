"""What the contract is written with: the hooks, a stepped clock, a race, and short questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from threading import Barrier, RLock
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import pytest

from ...domain.delivery_ledger import DeliveryLedger
from ...domain.errors import RunStoreError
from ...domain.events import run_stream
from ...domain.lease import RunLeaseHandle
from ...domain.ledger import RunLedger
from ...domain.ports import Change, Guard, Reply, RunStore, StoredEvent
from ...domain.record import RunRecord
from .scribe import START, TTL, Scribe, contract_codec, record_of

T = TypeVar("T")


class SteppedClock:
    """A clock that moves only when it is told to."""

    def __init__(self, start: datetime = START) -> None:
        self.now = start

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


class FreshIds:
    """The Ids port: ids that no other ledger of the test has either."""

    def new(self) -> str:
        return uuid4().hex


class NoBeat:
    """The Beat port without a beat: leases live as long as the test's clock lets them."""

    def watch(self, handle: RunLeaseHandle) -> None:
        pass

    def unwatch(self, handle: RunLeaseHandle) -> None:
        pass


def ledger_on(
    store: RunStore, clock: SteppedClock, owner: str = "worker-1", **options: Any
) -> RunLedger:
    """A ledger on this store that lives by the stepped clock; options as for RunLedger."""
    return RunLedger(
        store,
        contract_codec(),
        FreshIds(),
        owner=owner,
        ticks=lambda: clock.now.timestamp(),
        beat=NoBeat(),
        make_lock=RLock,
        clock=clock,
        **options,
    )


def deliveries_on(
    store: RunStore, clock: SteppedClock, owner: str = "sender-1", ttl: float = TTL
) -> DeliveryLedger:
    """A delivery ledger on this store that lives by the stepped clock."""
    return DeliveryLedger(store, contract_codec(), FreshIds(), owner=owner, ttl=ttl, clock=clock)


class StoreHooks:
    """What a backend hands in, and the fixtures made of it."""

    def make_store(self, tmp_path: Path) -> RunStore:
        """A new, empty store. `tmp_path` is a folder that exists and is this store's own."""
        raise NotImplementedError("enrol the backend: make_store returns a new, empty store")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[RunStore]:
        store = self.make_store(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def clock(self) -> SteppedClock:
        return SteppedClock()

    @pytest.fixture
    def scribe(self) -> Scribe:
        return Scribe()


def put(
    store: RunStore, change: Change, now: datetime = START, guard: Guard | None = None
) -> RunRecord:
    """Append a change that must be accepted; the record it wrote."""
    assert store.append([change], guard, now) is not None
    return record_of(change)


def put_held(
    store: RunStore, scribe: Scribe, run_id: str = "run", ttl: float = TTL, **fields: Any
) -> RunRecord:
    """A run that "worker-1" holds under token 1 since START."""
    record = put(store, scribe.start(run_id, **fields))
    return put(store, scribe.grant(record, ttl=ttl))


def stored(store: RunStore, run_id: str = "run") -> RunRecord:
    """The run's stored record."""
    record = store.get(run_id, START).record
    assert record is not None
    return record


def deadline_of(store: RunStore, run_id: str = "run") -> datetime | None:
    """The lease's current deadline."""
    lease = stored(store, run_id).lease
    return lease.expires_at if lease else None


def topics(store: RunStore, run_id: str = "run") -> list[str]:
    """What happened to the run, in order, without the prefix "run."."""
    return [event.topic.removeprefix("run.") for event in store.read(run_stream(run_id))]


class Trace(NamedTuple):
    """All that a run has left in a store."""

    record: RunRecord | None
    events: tuple[StoredEvent, ...]


def trace(store: RunStore, run_id: str = "run") -> Trace:
    return Trace(store.get(run_id, START).record, tuple(store.read(run_stream(run_id))))


def race(contenders: int, act: Callable[[int], T]) -> list[T | RunStoreError]:
    """Let so many threads act at once; what each got or was refused with."""
    barrier = Barrier(contenders)

    def run(number: int) -> T | RunStoreError:
        barrier.wait(timeout=60)
        try:
            return act(number)
        except RunStoreError as error:
            return error

    # Threads that take turns this often meet between any two steps, not only where they wait.
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(contenders) as pool:
            return list(pool.map(run, range(contenders)))
    finally:
        sys.setswitchinterval(usual)


def won(answers: Sequence[Reply | RunStoreError | None]) -> list[int]:
    """Who of the racers got a reply; a racer that was refused with an error fails the test."""
    for answer in answers:
        if isinstance(answer, RunStoreError):
            raise answer
    return [number for number, answer in enumerate(answers) if answer is not None]


@contextmanager
def refused(code: str, reason: str) -> Iterator[pytest.ExceptionInfo[RunStoreError]]:
    """The block must be refused with exactly this cause."""
    with pytest.raises(RunStoreError) as caught:
        yield caught
    assert (caught.value.code, caught.value.reason) == (code, reason)
