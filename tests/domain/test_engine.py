"""How commands are carried out: what is asked of the store, how often, and what is made of it.

The store here counts, and stands in for what a real one does rarely: it loses replies, it is
always too late, it hands out what it should not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from threading import RLock
from typing import Any

import pytest
from runjournal import DeploymentLimits, RunStoreError
from runjournal.adapters.contract.between import Between, LosesReplies
from runjournal.adapters.contract.scribe import START, after, contract_codec
from runjournal.adapters.contract.tools import FreshIds, NoBeat, SteppedClock, refused, topics
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain import engine as engine_module
from runjournal.domain.chain import GENESIS
from runjournal.domain.commands import Cancel
from runjournal.domain.errors import (
    RUN_ALREADY_TERMINAL,
    RUN_CONFLICT,
    RUN_INTEGRITY_ERROR,
    RUN_LEASE_LOST,
    RUN_NOT_FOUND,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
)
from runjournal.domain.lease import RunLeaseHandle
from runjournal.domain.ledger import RunLedger
from runjournal.domain.ports import Change, Guard, LeaseRef, Reading, Reply, RunStore, StoredEvent
from runjournal.domain.record import RunRecord
from runjournal.domain.tombstone import run_tombstone
from runjournal.domain.unsettled import DECIDE_TRIES, SETTLE_TRIES, Unsettled


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


@pytest.fixture
def store() -> Watched:
    return Watched(MemoryStore())


@pytest.fixture
def losing(store: Watched) -> LosesReplies:
    return LosesReplies(store)


# What is asked of the store.


def test_trips(store: Watched, clock: SteppedClock) -> None:
    """A new run is one trip; whether it was pruned is asked only where it is not there."""
    ledger = ledger_of(store, clock)
    ledger.start("a")
    assert store.calls == ["append"]
    store.calls.clear()
    lease = ledger.acquire("b")
    assert store.calls == ["get", "append"]
    store.calls.clear()
    lease.save_checkpoint(1)
    assert store.calls == ["append"]
    store.calls.clear()
    with refused(RUN_NOT_FOUND, "run"):
        ledger.cancel("c")
    assert store.calls == ["get", "buried"]
    store.calls.clear()
    ledger.start("a")
    assert store.calls == ["append", "get"], "it converges on what is there"


def test_what_an_append_names(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock)
    ledger.start("run", delivery_ref="inbox")
    lease = ledger.acquire("run")
    before = lease.record
    lease.save_checkpoint(1)
    lease.complete()
    (start, _, _), (grant, _, _), (saved, guard, patience), (ended, _, _) = store.appends
    assert [c.stream for c in (*start, *grant, *saved)] == ["run/run"] * 3
    assert [(c.expected_version, c.expected_head) for c in start] == [(0, GENESIS)]
    assert [(c.expected_version, c.expected_head) for c in saved] == [(2, before.head)]
    assert guard == Guard(1, "live")
    assert patience == 59.0, "no longer than the lease can be trusted"
    run, delivery = ended
    assert run.stream == "run/run"
    assert delivery.stream == delivery.events[0].stream
    assert delivery.stream.startswith("delivery/delivery-")
    assert delivery.expected_version == 0


def test_patience_that_is_used_up(store: Watched, clock: SteppedClock) -> None:
    lease = ledger_of(store, clock).acquire("run")
    clock.advance(59.5)
    lease.save_checkpoint(1)
    assert store.appends[-1][2] == 0.05


def test_reading_takes_one_event(store: Watched, clock: SteppedClock) -> None:
    lease = ledger_of(store, clock).acquire("run")
    lease.save_checkpoint("state")
    lease.save_checkpoint("later")
    store.reads.clear()
    assert (lease.checkpoint, lease.input) == ("later", None)
    assert store.reads == [("run/run", 3, 1), ("run/run", 0, 1)]


@pytest.mark.parametrize("found", ["nothing", "another version", "another event"])
def test_checkpoint_that_is_not_there(clock: SteppedClock, found: str) -> None:
    class Gap(Watched):
        def read(
            self, stream: str, after_version: int = 0, limit: int | None = None
        ) -> Sequence[StoredEvent]:
            place = {"nothing": 99, "another version": 1, "another event": 0}[found]
            events = list(super().read(stream, place, 1))
            if found == "another event":
                events = [e._replace(version=after_version + 1) for e in events]
            return events

    lease = ledger_of(Gap(MemoryStore()), clock).acquire("run")
    record = lease.save_checkpoint("state")
    with refused(RUN_INTEGRITY_ERROR, "unreadable_record") as caught:
        _ = lease.checkpoint
    assert caught.value.record == record
    if found != "another event":
        assert lease.input is None


def test_a_first_event_that_is_no_start(clock: SteppedClock) -> None:
    class Second(Watched):
        def read(
            self, stream: str, after_version: int = 0, limit: int | None = None
        ) -> Sequence[StoredEvent]:
            return [e._replace(version=1) for e in super().read(stream, 1, 1)]

    assert ledger_of(Second(MemoryStore()), clock).acquire("run").input is None


def test_where_a_command_landed(
    store: Watched, clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_of(store, clock)
    ledger.start("run", command_id="s")
    ledger.acquire("run").suspend([f"a{n}" for n in range(33)])
    for n in range(33):
        ledger.record_decision("run", f"a{n}", "yes", command_id=f"d{n}")
    store.reads.clear()
    assert ledger.resolve("d32", "run").version == 36
    assert store.reads == [], "the record knows it"
    monkeypatch.setattr(engine_module, "PAGE", 2)
    # Forgotten by the record, and found in the stream, also at its beginning and across pages.
    assert ledger.resolve("s", "run").version == 1
    assert store.reads == [("run/run", 0, 2)]
    assert ledger.resolve("d0", "run").version == 4
    assert not ledger.resolve("other", "run").applied
    assert store.reads[-1] == ("run/run", 36, 2)


# A run that was pruned.


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


@pytest.fixture
def buried(clock: SteppedClock) -> Buried:
    store = Buried(MemoryStore())
    ledger = ledger_of(store, clock)
    ledger.start("run", command_id="s")
    ledger.acquire("run").complete(code="done")
    record = store.get("run").record
    assert record is not None
    last = contract_codec().open(store.read("run/run", 2, 1)[0])
    store.left = run_tombstone(record, last, 1, after(9)).record
    store.calls.clear()
    return store


def test_pruned_run_answers_repeated_commands(buried: Buried, clock: SteppedClock) -> None:
    ledger = ledger_of(buried, clock)
    assert ledger.start("run") == buried.left
    with refused(RUN_NOT_FOUND, "pruned") as caught:
        ledger.get("run")
    assert caught.value.record == buried.left
    with refused(RUN_CONFLICT, "pruned"):
        ledger.start("run", kind="other")
    for call in (ledger.acquire, ledger.restore, ledger.cancel, ledger.request_resume):
        with refused(RUN_ALREADY_TERMINAL, "completed"):
            call("run")  # type: ignore[operator]
    outcome = ledger.resolve("s", "run")
    assert (outcome.version, outcome.record) == (1, buried.left)
    with refused(RUN_NOT_FOUND, "pruned") as caught:
        ledger.resolve("other", "run")
    assert caught.value.record == buried.left


# Others are first.


class TooLate(Watched):
    """Somebody else is always first, from when it is told."""

    late = False

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        if self.late:
            self.appends.append((changes, guard, patience))
            return None
        return super().append(changes, guard, now, patience)


def test_always_too_late(clock: SteppedClock) -> None:
    store = TooLate(MemoryStore())
    ledger = ledger_of(store, clock)
    record = ledger.start("run")
    store.late = True
    store.appends.clear()
    with refused(RUN_CONFLICT, "contended") as caught:
        ledger.cancel("run")
    assert len(store.appends) == DECIDE_TRIES == 32
    assert caught.value.record == record
    assert "run 'run': other writers were first 32 times" in caught.value.message
    with refused(RUN_CONFLICT, "contended") as caught:
        ledger.start("new")
    assert caught.value.record is None


class Rules:
    """Allows what is not "secret", and keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[RunRecord | None] = []

    def allows(self, actor: str | None, action: str, record: RunRecord | None) -> bool:
        self.shown.append(record)
        return record is None or record.authority_ref != "secret"


def test_authorizer_sees_the_run_that_came_first(store: Watched, clock: SteppedClock) -> None:
    """A start that was allowed for a new run is not allowed for whatever is there by then."""

    class First(Between):
        def append(
            self,
            changes: Sequence[Change],
            guard: Guard | None = None,
            now: datetime | None = None,
            patience: float | None = None,
        ) -> Reply | None:
            if not store.appends:
                ledger_of(store, clock).start("run", authority_ref="secret")
            return super().append(changes, guard, now, patience)

    rules = Rules()
    with refused(RUN_NOT_FOUND, "run"):
        ledger_of(First(store), clock, authorizer=rules).start("run")
    new, there = rules.shown
    assert new is not None
    assert (new.version, new.head, new.authority_ref) == (1, GENESIS, None)
    assert there == store.get("run").record


def test_authorizer_is_shown_the_run_as_it_is(store: Watched, clock: SteppedClock) -> None:
    rules = Rules()
    ledger = ledger_of(store, clock, authorizer=rules)
    ledger.start("run", labels={"a": "b"})
    lease = ledger.acquire("run")
    rules.shown.clear()
    ledger.start("run", labels={"a": "b"})
    assert rules.shown[-1] == lease.record
    ledger.cancel("run")
    assert rules.shown[-1] == lease.record
    with refused(RUN_NOT_FOUND, "run"):
        ledger.cancel("nowhere")
    assert rules.shown[-1] is None


# Replies are lost.


def long_run(store: RunStore, clock: SteppedClock) -> RunLedger:
    """A run with ten events, which nobody holds."""
    ledger = ledger_of(store, clock)
    lease = ledger.acquire("run")
    for n in range(7):
        lease.save_checkpoint(n)
    lease.release()
    return ledger


@pytest.mark.parametrize("lost", ["replies", "requests"])
def test_grant_with_a_lost_reply(
    store: Watched, losing: LosesReplies, clock: SteppedClock, lost: str
) -> None:
    """One grant, found at its place, and trusted as long as if the reply had come."""
    long_run(store, clock)
    ledger = ledger_of(losing, clock, "w2")
    setattr(losing, lost, 1)
    store.reads.clear()
    lease = ledger.acquire("run")
    assert topics(store.store).count("lease_granted") == 2
    assert (lease.fencing_token, lease.record.version) == (2, 11)
    assert lease.trusted_for == 59.0
    assert lease.held
    assert store.reads == ([("run/run", 10, 4)] if lost == "replies" else [])


def test_operators_command_with_lost_replies(
    store: Watched, losing: LosesReplies, clock: SteppedClock
) -> None:
    long_run(store, clock)
    ledger = ledger_of(losing, clock)
    losing.requests = SETTLE_TRIES
    assert ledger.cancel("run").version == 11
    assert topics(store.store).count("cancelled") == 1
    ledger.start("other")
    losing.requests = SETTLE_TRIES + 1
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost") as caught:
        ledger.cancel("other", command_id="mine")
    assert "run 'other': whether command 'mine' was written" in caught.value.message
    # Cut off before anything was sent, it is known that nothing was written.
    losing.requests, losing.cut_off = 0, True
    with refused(RUN_STORE_UNAVAILABLE, "failed"):
        ledger.cancel("other")
    # Cut off afterwards, it is not.
    losing.cut_off, losing.stays_down, losing.requests = False, True, 1
    with refused(RUN_OUTCOME_UNKNOWN, "reply_lost"):
        ledger.cancel("other")


def test_unsettled_write() -> None:
    command = Cancel(run_id="run", command_id="mine")
    store = MemoryStore()
    record = ledger_of(store, SteppedClock()).start("run").changed({"version": 7})
    unsettled = Unsettled(command)
    assert not unsettled.moved(record), "no write is open"
    assert [unsettled.again(record) for _ in range(4)] == [True, True, True, False]
    assert unsettled.version == 7, "where the first one was to land"
    assert not unsettled.moved(record)
    assert unsettled.moved(record.changed({"version": 8}))
    new = Unsettled(command)
    assert new.again(None)
    assert new.version == 0
    assert new.moved(record.changed({"version": 1}))
    later = record.changed({"version": 9})
    assert new.again(later)
    assert new.version == 0, "a write lands at one version only"


@pytest.mark.parametrize(
    ("opened", "error", "becomes"),
    [
        (True, RunStoreError(RUN_STORE_UNAVAILABLE, "failed", "x"), RUN_OUTCOME_UNKNOWN),
        (True, RunStoreError(RUN_OUTCOME_UNKNOWN, "reply_lost", "x"), RUN_OUTCOME_UNKNOWN),
        (True, RunStoreError(RUN_NOT_FOUND, "run", "x"), RUN_NOT_FOUND),
        (False, RunStoreError(RUN_STORE_UNAVAILABLE, "failed", "x"), RUN_STORE_UNAVAILABLE),
    ],
)
def test_a_store_that_is_away_says_nothing_of_an_open_write(
    opened: bool, error: RunStoreError, becomes: str
) -> None:
    unsettled = Unsettled(Cancel(run_id="run", command_id="mine"))
    if opened:
        unsettled.again(None)
    with pytest.raises(RunStoreError) as caught, unsettled:
        raise error
    assert caught.value.code == becomes
    if becomes == RUN_OUTCOME_UNKNOWN:
        assert "run 'run': whether command 'mine'" in caught.value.message
    with pytest.raises(ZeroDivisionError), unsettled:
        _ = 1 // 0


# The ledger and its handles.


def test_handles_are_watched_while_they_hold(store: Watched, clock: SteppedClock) -> None:
    beat = Beats()
    losses: list[RunStoreError] = []
    ledger = ledger_of(store, clock, beat=beat, on_loss=losses.append)
    a, b = ledger.acquire("a"), ledger.acquire("b", heartbeat=False)
    ledger.start("c")
    (c,) = ledger.claim(limit=5)
    assert beat.watched == [a, c]
    assert set(ledger.handles) == {a, b, c}
    c.stop_heartbeat()
    assert beat.watched == [a]
    a.complete()
    assert (beat.watched, set(ledger.handles)) == ([], {b, c})
    clock.advance(60)
    ledger_of(store, clock, "w2").acquire("b")
    with refused(RUN_LEASE_LOST, "taken_over"):
        b.save_checkpoint(1)
    assert ledger.handles == [c]
    assert losses == [b.lost]
    seen: list[RunStoreError] = []
    b.on_lost(seen.append)
    assert seen == [b.lost], "told at once, if it is lost already"
    assert ledger_of(store, clock, "w3").claim(heartbeat=False) is not None


def test_one_beat_renews_all(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock)
    a, b, c = (ledger.acquire(name) for name in "abc")
    clock.advance(30)
    ledger_of(store, clock).cancel("b")
    store.calls.clear()
    ledger.beat_once([a, b])
    assert store.calls == ["renew", "get"], "only who was not answered is looked for"
    assert a.trusted_for == 59.0
    assert a.record.lease is not None
    assert a.record.lease.expires_at == after(90)
    assert b.lost is not None
    assert (b.lost.reason, c.trusted_for) == ("cancelled", 29.0)
    assert set(ledger.handles) == {a, c}


def test_release_of_all(store: Watched, clock: SteppedClock) -> None:
    beat = Beats()
    ledger = ledger_of(store, clock, beat=beat)
    ledger.acquire("a")
    b = ledger.acquire("b")
    ledger_of(store, clock).cancel("b")
    ledger.acquire("c")
    ledger.release_all("shut down")
    assert (ledger.handles, beat.watched) == ([], [])
    codec = contract_codec()
    for name in "ac":
        last = codec.open(list(store.read(f"run/{name}"))[-1])
        assert (last.topic, last.reason) == ("run.lease_released", "shut down")  # type: ignore[attr-defined]
    assert b.lost is not None


def test_handles_of_a_parent_are_lost_in_its_child(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock)
    lease = ledger.acquire("run")
    adopted = ledger.adopt("run", 1)
    ledger.forked("w1-child")
    assert ledger.owner == "w1-child"
    for handle in (lease, adopted):
        assert handle.lost is not None
        assert (handle.lost.code, handle.lost.reason) == (RUN_LEASE_LOST, "forked")
        assert handle.lost.record == handle.record
        assert "run 'run' is held by the parent" in handle.lost.message
    assert ledger.handles == []


def leave(
    lease: RunLeaseHandle, raised: BaseException | None, act: Callable[[], None] | None = None
) -> None:
    with lease:
        if act is not None:
            act()
        if raised is not None:
            raise raised


@pytest.mark.parametrize(
    ("raised", "reason", "error"),
    [
        (None, "left unfinished", None),
        (ValueError("bad"), "exception", "ValueError: bad"),
        (KeyboardInterrupt(), "interrupted", None),
    ],
)
def test_leaving_the_block(
    store: Watched,
    clock: SteppedClock,
    raised: BaseException | None,
    reason: str,
    error: str | None,
) -> None:
    lease = ledger_of(store, clock).acquire("run")
    with suppress(ValueError, KeyboardInterrupt):
        leave(lease, raised)
    last: Any = contract_codec().open(store.read("run/run", 2, 1)[0])
    assert (last.topic, last.reason, last.error) == ("run.lease_released", reason, error)
    before = list(store.calls)
    with lease:
        pass
    assert store.calls == before, "there is nothing to give back"


def test_leaving_the_block_when_it_is_lost(losing: LosesReplies, clock: SteppedClock) -> None:
    beat = Beats()
    ledger = ledger_of(losing, clock, beat=beat)
    lease = ledger.acquire("a")
    with lease:
        ledger_of(losing, clock).cancel("a")
        with refused(RUN_LEASE_LOST, "cancelled"):
            lease.save_checkpoint(1)
        calls = list(losing.calls)
    assert losing.calls == calls
    # A release that fails is told, but for an error of the block itself; nothing is renewed then.
    for raised in (None, ValueError("bad")):
        lease = ledger.acquire("b")
        with pytest.raises(RunStoreError if raised is None else ValueError):
            leave(lease, raised, lambda: setattr(losing, "cut_off", True))
        losing.cut_off = False
        assert lease not in beat.watched


def test_loss_that_is_told_from_outside(store: Watched, clock: SteppedClock) -> None:
    lease = ledger_of(store, clock).acquire("run")
    first = RunStoreError(RUN_LEASE_LOST, "abandoned", "first")
    lease.lose(first)
    lease.lose(RunStoreError(RUN_LEASE_LOST, "expired", "second"))
    assert lease.lost is first
    calls = list(store.calls)
    for call in (lease.renew, lease.ensure_held, lambda: lease.save_checkpoint(1)):
        with pytest.raises(RunStoreError) as caught:
            call()
        assert caught.value is first
    assert store.calls == calls
    assert not lease.held


def test_commands_have_ids_of_their_own(store: Watched, clock: SteppedClock) -> None:
    ledger = ledger_of(store, clock)
    ledger.start("a")
    for lease in (ledger.acquire("a"), ledger.acquire("b")):
        lease.save_checkpoint(1)
        lease.save_checkpoint(2)
        lease.release()
    ledger.cancel("a")
    codec = contract_codec()
    events = [codec.open(e) for name in "ab" for e in store.read(f"run/{name}")]
    ids = [e.command_id for e in events]
    assert None not in ids
    # Creating and granting is one command.
    assert ids.pop(6) == ids[6]
    assert len(set(ids)) == len(ids)


def test_busy_row_is_no_loss(clock: SteppedClock) -> None:
    """Who is not in the answer is not known to be lost."""

    class Locked(Watched):
        def renew(
            self, leases: Sequence[LeaseRef], now: datetime | None = None
        ) -> dict[str, Reply]:
            return {}

    lease = ledger_of(Locked(MemoryStore()), clock).acquire("run")
    with refused(RUN_STORE_UNAVAILABLE, "busy") as caught:
        lease.renew()
    assert caught.value.record == lease.record
    assert "run 'run' was locked by others" in caught.value.message
    assert (lease.lost, lease.held) == (None, True)


class Meddling(Watched):
    """Does something right before the next append."""

    act: Callable[[], object] | None = None

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().append(changes, guard, now, patience)


def test_others_with_the_same_token(clock: SteppedClock) -> None:
    store = Meddling(MemoryStore())
    ledger = ledger_of(store, clock)
    lease = ledger.acquire("run")
    adopted = ledger.adopt("run", 1)
    store.act = lambda: adopted.save_checkpoint("theirs")
    record = lease.save_checkpoint("mine")
    assert record.version == 4, "decided again on what the other one wrote"
    assert topics(store.store)[2:] == ["checkpoint_saved"] * 2
    # Without end, it gives up, and nothing of it is written.
    store.act = None

    def again() -> None:
        adopted.save_checkpoint("theirs")
        store.act = again

    store.act = again
    with refused(RUN_CONFLICT, "contended") as caught:
        lease.save_checkpoint("mine")
    assert caught.value.record == lease.record
    assert "run 'run'" in caught.value.message
    assert lease.lost is None


def test_store_that_was_rewound(clock: SteppedClock) -> None:
    for left in (None, 1):
        store = Watched(MemoryStore())
        ledger = ledger_of(store, clock)
        if left:
            ledger.start("run")
        lease = ledger.acquire("run")
        lease.save_checkpoint(1)
        store.store = MemoryStore()
        if left:
            ledger_of(store, clock).start("run")
        record = store.get("run").record
        with refused(RUN_LEASE_LOST, "rewound") as caught:
            lease.save_checkpoint(2)
        assert caught.value.record == record
        at = "at version 1" if left else "gone"
        assert f"run 'run' is {at}, behind version" in caught.value.message


def test_tokens_of_a_later_epoch_reach_what_a_holder_writes(clock: SteppedClock) -> None:
    class Epoch(Watched):
        at = 3

        @property
        def epoch(self) -> int:
            return self.at

    store = Epoch(MemoryStore())
    lease = ledger_of(store, clock).acquire("run")
    assert lease.fencing_token == 3 * 2**32 + 1
    assert lease.cancel().fencing_token == 3 * 2**32 + 2
    held = ledger_of(store, clock).acquire("other")
    store.at = 4
    assert held.cancel().fencing_token == 4 * 2**32 + 1
    ledger_of(store, clock).start("third")
    claimed = ledger_of(store, clock).claim()
    assert claimed is not None
    assert claimed.fencing_token == 4 * 2**32 + 1


def test_limits_reach_what_a_holder_writes(store: Watched, clock: SteppedClock) -> None:
    lease = ledger_of(store, clock, limits=DeploymentLimits(events_per_run=2)).acquire("run")
    with refused("RUN_LIMIT_EXCEEDED", "events_per_run"):
        lease.save_checkpoint(1)
    assert lease.complete().updated_at == START
