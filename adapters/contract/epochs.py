"""Token epochs: after a restore, every token is above all that were granted before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ...domain.audit import AUDIT_EVENTS, AUDIT_STREAM, JournalRestored
from ...domain.chain import GENESIS
from ...domain.commands import Acquire, Start
from ...domain.ledger import RunLedger
from ...domain.ports import Guard, RunStore, StoredEvent
from ...domain.registry import EventRegistry
from ...domain.tokens import EPOCH_SIZE
from ..codec import OrjsonCodec
from .scribe import START, TTL, Scribe, after, record_of
from .tools import SteppedClock, StoreHooks, ledger_on, put, put_held, stored, trace

FIRST = EPOCH_SIZE + 1


def restored(epoch: int, version: int = 1) -> StoredEvent:
    """The event that begins this epoch."""
    event = JournalRestored(
        originator_id=AUDIT_STREAM,
        originator_version=version,
        timestamp=START,
        actor="operator",
        place="copy",
        last_position=0,
        old_epoch=epoch - 1,
        new_epoch=epoch,
        reason="a test",
    )
    sealed = OrjsonCodec(EventRegistry(AUDIT_EVENTS)).seal(event, GENESIS)
    return StoredEvent(*sealed[:4])


def begin(store: Any, epoch: int = 1) -> None:
    assert store.raise_epoch(epoch, restored(epoch, epoch), EPOCH_SIZE)


def queued(ledger: RunLedger) -> Any:
    ledger.start("run")
    return ledger.acquire


def abandoned(ledger: RunLedger) -> Any:
    ledger.acquire("run")
    return ledger.acquire


def suspended(ledger: RunLedger) -> Any:
    ledger.acquire("run").suspend()
    return ledger.restore


def new(ledger: RunLedger) -> Any:
    return ledger.acquire


class EpochContract(StoreHooks):
    """`epoch`, `read_epoch` and `raise_epoch`: for a store that a restore can put back."""

    @pytest.mark.parametrize("prepare", [new, queued, abandoned, suspended])
    def test_every_grant_is_of_the_present_epoch(
        self, store: RunStore, clock: SteppedClock, prepare: Callable[[RunLedger], Any]
    ) -> None:
        take = prepare(ledger_on(store, clock))
        begin(store)
        clock.advance(TTL)
        lease = take("run")
        assert lease.fencing_token == FIRST
        lease.release()
        assert take("run").fencing_token == FIRST + 1
        begin(store, 2)
        clock.advance(TTL)
        assert take("run").fencing_token == 2 * EPOCH_SIZE + 1

    def test_every_claim_is_of_the_present_epoch(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(store, clock)
        ledger.acquire("abandoned")
        ledger.start("queued")
        begin(store)
        clock.advance(TTL)
        tokens = {lease.run_id: lease.fencing_token for lease in ledger.claim(limit=9)}
        assert tokens == {"abandoned": FIRST, "queued": FIRST}

    def test_outsiders_end_of_a_run_is_of_the_present_epoch(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(store, clock)
        for run_id in ("queued", "gone on"):
            ledger.start(run_id)
        held = ledger.acquire("held")
        ledger.acquire("abandoned")
        begin(store)
        assert ledger.cancel("queued").fencing_token == FIRST
        assert ledger.cancel("held").fencing_token == FIRST
        with pytest.raises(Exception, match="was cancelled while token 1 held it"):
            held.renew()
        clock.advance(TTL)
        assert ledger.fail("abandoned", "lost").fencing_token == FIRST
        assert ledger.fail("gone on", "no token is needed").fencing_token == 0

    def test_holder_goes_on_under_its_token(self, store: RunStore, clock: SteppedClock) -> None:
        """What came back with the journal is right as it is: the version fences it."""
        ledger = ledger_on(store, clock)
        completes, cancels = ledger.acquire("completes"), ledger.acquire("cancels")
        begin(store)
        for lease in (completes, cancels):
            lease.save_checkpoint("on")
            lease.renew()
        assert completes.complete().fencing_token == 1
        cancels.cancel()
        assert stored(store, "cancels").status == "cancelled"

    def test_holder_that_knows_of_no_new_epoch_ends_its_run(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        """Its lease was granted before: it may end the run by a token of that epoch."""
        (end,) = scribe.complete(put_held(store, scribe))
        ended = record_of(end).model_copy(update={"fencing_token": 2})
        begin(store)
        put(store, end._replace(record=ended), START, Guard(1, "live"))
        assert stored(store) == ended

    def test_grant_of_an_earlier_epoch_leaves_no_trace(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        put(store, scribe.start("queued"))
        put_held(store, scribe, "held")
        created = scribe.change(None, _acquire("new", scribe))
        begin(store)
        for run_id in ("queued", "held"):
            before = trace(store, run_id)
            assert store.append([scribe.grant(stored(store, run_id), after(TTL))]) is None
            assert trace(store, run_id) == before
        assert store.append([created], None, START) is None
        assert store.get("new").record is None
        assert store.epoch == 1

    def test_epoch_rises_by_one_and_with_its_event(self, store: Any) -> None:
        assert (store.epoch, store.read_epoch()) == (0, 0)
        assert not store.raise_epoch(2, restored(2), EPOCH_SIZE)
        assert not store.raise_epoch(0, restored(0), EPOCH_SIZE)
        begin(store)
        assert not store.raise_epoch(1, restored(1, 2), EPOCH_SIZE)
        assert not store.raise_epoch(2, restored(2, 1), EPOCH_SIZE)  # there is such an event
        assert (store.epoch, store.read_epoch()) == (1, 1)
        assert list(store.read(AUDIT_STREAM)) == [restored(1)]


class FarEpochContract(EpochContract):
    """The same, where a second store can be opened on the data of the first."""

    def reopen(self, store: RunStore) -> RunStore:
        """A second store over the same data, while the first one is still open."""
        raise NotImplementedError("enrol the backend: reopen returns a second store")

    @pytest.fixture
    def far(self, store: RunStore) -> Iterator[RunStore]:
        far = self.reopen(store)
        yield far
        far.close()

    def test_store_that_was_open_before_grants_in_the_new_epoch(
        self, store: RunStore, far: RunStore, clock: SteppedClock
    ) -> None:
        ledger = ledger_on(far, clock)
        ledger.acquire("before")
        for run_id in ("acquired", "cancelled", "claimed"):
            ledger.start(run_id)
        begin(store)
        assert ledger.acquire("acquired").fencing_token == FIRST
        begin(store, 2)
        assert ledger.cancel("cancelled").fencing_token == 2 * EPOCH_SIZE + 1
        begin(store, 3)
        (claimed,) = ledger.claim(limit=9)
        assert claimed.fencing_token == 3 * EPOCH_SIZE + 1


def _acquire(run_id: str, scribe: Scribe) -> Acquire:
    start = Start(run_id=run_id, command_id="start", input=scribe.codec.encode(None, "input"))
    return Acquire(run_id=run_id, command_id="acquire", owner="worker-1", ttl=TTL, start=start)
