"""What the contract is written with: the hooks, a stepped clock, a race, and a scribe of changes.

A scribe writes what the rules would write (decide, seal, evolve) without a ledger, so that the
port's methods can be tested one by one, at instants that the test chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Barrier, RLock
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import pytest

from ...domain.chain import GENESIS
from ...domain.commands import Acquire, Command, Complete, Release, SaveCheckpoint, Start, Suspend
from ...domain.decide import decide
from ...domain.delivery import DELIVERY_EVENTS, evolve_delivery, request_delivery
from ...domain.errors import RunStoreError
from ...domain.events import RUN_EVENTS, RunEvent, run_stream
from ...domain.lease import RunLeaseHandle
from ...domain.ledger import RunLedger
from ...domain.ports import Change, Guard, Reply, RunStore, SealedEvent, StoredEvent
from ...domain.record import RunRecord
from ...domain.registry import EventRegistry
from ...domain.run import evolve
from ..codec import OrjsonCodec

T = TypeVar("T")

#: The instant at which every test begins.
START = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
#: The smallest step of a stored instant: what lies on either side of a boundary.
INSTANT = timedelta(microseconds=1)
#: The lease of the port's tests, in seconds.
TTL = 60.0


def after(seconds: float) -> datetime:
    """The instant so many seconds after START."""
    return START + timedelta(seconds=seconds)


class SteppedClock:
    """A clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.now = START

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


def contract_codec() -> OrjsonCodec:
    """A codec over every event of the domain."""
    return OrjsonCodec(EventRegistry([*RUN_EVENTS, *DELIVERY_EVENTS]))


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


class StoreHooks:
    """What a backend hands in, and the fixtures made of it."""

    def make_store(self, tmp_path: Path) -> RunStore:
        """A new, empty store. `tmp_path` is a folder that exists and is this store's own."""
        raise NotImplementedError("enrol the backend: make_store returns a new, empty store")

    def reopen(self, store: RunStore) -> RunStore:
        """A second store over the same data, while the first one is still open.

        Leave it out where nothing outlives the store. A store that claims cross-process
        atomicity must have it: the claim is what these tests are about.
        """
        pytest.skip("this store is not declared to keep anything (no reopen hook)")

    def spoil(self, store: RunStore, run_id: str) -> None:
        """Make the stored record of this run unreadable, as a damaged disk would."""
        pytest.skip("this backend shows no way to damage a record (no spoil hook)")

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[RunStore]:
        store = self.make_store(tmp_path)
        yield store
        store.close()

    @pytest.fixture
    def second(self, store: RunStore) -> Iterator[RunStore]:
        """Another store over the same data."""
        second = self.reopen(store)
        yield second
        second.close()

    @pytest.fixture
    def clock(self) -> SteppedClock:
        return SteppedClock()

    @pytest.fixture
    def scribe(self) -> Scribe:
        return Scribe()


class Scribe:
    """Writes the changes of a run as the rules would, for the port's own tests."""

    def __init__(self) -> None:
        self.codec = contract_codec()
        self._ids = count(1)

    def start(self, run_id: str, at: datetime = START, **fields: Any) -> Change:
        """The change that creates the run; fields as for commands.Start."""
        fields.setdefault("input", self.codec.encode(None, "input"))
        return self.change(None, Start(run_id=run_id, command_id=self.new_id(), **fields), at)

    def grant(
        self,
        record: RunRecord,
        at: datetime | None = None,
        owner: str = "worker-1",
        ttl: float = TTL,
    ) -> Change:
        command = Acquire(run_id=record.run_id, command_id=self.new_id(), owner=owner, ttl=ttl)
        return self.change(record, command, at)

    def checkpoint(self, record: RunRecord, state: Any = None) -> Change:
        command = SaveCheckpoint(
            run_id=record.run_id,
            command_id=self.new_id(),
            fencing_token=record.fencing_token,
            key="latest",
            snapshot_version=1,
            state=self.codec.encode(state, "state"),
        )
        return self.change(record, command)

    def release(self, record: RunRecord, available_at: datetime | None = None) -> Change:
        command = Release(
            run_id=record.run_id,
            command_id=self.new_id(),
            fencing_token=record.fencing_token,
            available_at=available_at,
        )
        return self.change(record, command)

    def suspend(self, record: RunRecord) -> Change:
        command = Suspend(
            run_id=record.run_id, command_id=self.new_id(), fencing_token=record.fencing_token
        )
        return self.change(record, command)

    def complete(self, record: RunRecord) -> list[Change]:
        """The change that ends the run, and the delivery's where somebody waits for the result."""
        command = Complete(
            run_id=record.run_id,
            command_id=self.new_id(),
            fencing_token=record.fencing_token,
            code="ok",
            result=self.codec.encode(None, "result"),
        )
        events = decide(record, command, record.updated_at)
        change = self._seal(record, events)
        request = request_delivery(record_of(change), events[-1])
        if request is None:
            return [change]
        sealed = self.codec.seal(request, GENESIS)
        row = evolve_delivery(None, request, sealed.hash)
        return [change, Change(sealed.stream, 0, (sealed,), row)]

    def new_id(self) -> str:
        return f"command-{next(self._ids)}"

    def change(
        self, record: RunRecord | None, command: Command, at: datetime | None = None
    ) -> Change:
        """What the command does to the run, decided at an instant (its last stamp if none)."""
        now = at or (record.updated_at if record else START)
        return self._seal(record, decide(record, command, now))

    def _seal(self, record: RunRecord | None, events: Sequence[RunEvent]) -> Change:
        version, head = (record.version, record.head) if record else (0, GENESIS)
        sealed: list[SealedEvent] = []
        for event in events:
            stored = self.codec.seal(event, head)
            head = stored.hash
            record = evolve(record, event, head)
            sealed.append(stored)
        assert record is not None
        return Change(sealed[0].stream, version, tuple(sealed), record)


def record_of(change: Change) -> RunRecord:
    """The run's record that a change writes."""
    assert isinstance(change.record, RunRecord)
    return change.record


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

    with ThreadPoolExecutor(contenders) as pool:
        return list(pool.map(run, range(contenders)))


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
