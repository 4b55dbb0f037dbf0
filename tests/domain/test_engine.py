"""How commands are carried out: what is asked of the store, how often, and what is made of it.

The store here counts, and stands in for what a real one does rarely: it loses replies, it is
always too late, it hands out what it should not.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.contract.scribe import after, contract_codec
from runjournal.adapters.contract.tools import SteppedClock, refused
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain import engine as engine_module
from runjournal.domain.chain import GENESIS
from runjournal.domain.errors import (
    RUN_ALREADY_TERMINAL,
    RUN_CONFLICT,
    RUN_INTEGRITY_ERROR,
    RUN_NOT_FOUND,
)
from runjournal.domain.ports import Change, Guard, Reply, StoredEvent
from runjournal.domain.record import RunRecord
from runjournal.domain.tombstone import run_tombstone
from runjournal.domain.unsettled import DECIDE_TRIES

from .watched import Buried, Meanwhile, Watched, ledger_of

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
    """Allows what is not "secret", and keeps what it was asked and shown."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str]] = []
        self.shown: list[RunRecord | None] = []

    def allows(self, actor: str | None, action: str, record: RunRecord | None) -> bool:
        self.asked.append((actor, action))
        self.shown.append(record)
        return record is None or record.authority_ref != "secret"


def test_authorizer_sees_the_run_that_came_first(
    store: Watched, meanwhile: Meanwhile, clock: SteppedClock
) -> None:
    """A start that was allowed for a new run is not allowed for whatever is there by then."""
    meanwhile.before["append"] = lambda: ledger_of(store, clock).start(
        "run", authority_ref="secret"
    )
    rules = Rules()
    with refused(RUN_NOT_FOUND, "run"):
        ledger_of(meanwhile, clock, authorizer=rules).start("run")
    new, there = rules.shown
    assert new is not None
    assert (new.version, new.head, new.authority_ref) == (1, GENESIS, None)
    assert there == store.get("run").record


def test_authorizer_is_shown_the_run_as_it_is(store: Watched, clock: SteppedClock) -> None:
    rules = Rules()
    ledger = ledger_of(store, clock, authorizer=rules)
    first = ledger.start("run", labels={"a": "b"})
    ledger.request_resume("run", actor="ada")
    assert (rules.shown[-1], rules.asked[-1]) == (first, ("ada", "request_resume"))
    lease = ledger.acquire("run")
    rules.shown.clear()
    ledger.start("run", labels={"a": "b"})
    assert rules.shown[-1] == lease.record
    ledger.cancel("run")
    assert rules.shown[-1] == lease.record
    with refused(RUN_NOT_FOUND, "run"):
        ledger.cancel("nowhere")
    assert rules.shown[-1] is None


def test_authorizer_is_not_asked_again_while_a_write_is_open(
    losing: LosesReplies, clock: SteppedClock
) -> None:
    """What it allowed may land yet: a refusal now would say that it did not happen."""
    rules = Rules()
    ledger = ledger_of(losing, clock, authorizer=rules)
    ledger.start("run")
    ledger.acquire("run")
    rules.shown.clear()
    losing.requests = 2
    ledger.cancel("run")
    assert [record and record.version for record in rules.shown] == [2]
