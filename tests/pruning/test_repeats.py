"""What is asked of a run that was pruned: repeats are answered, anything else is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.contract import LosesReplies, SteppedClock, ledger_on
from runjournal.adapters.contract.tools import refused
from runjournal.domain.tombstone import Tombstone

from .conftest import end, later


def test_repeated_commands_are_answered(journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.start("run", input=1, labels={"team": "a"}, command_id="begin", actor="ada")
    ended = ledger.cancel("run", "no longer wanted", command_id="end", actor="ada")
    assert journal.prune(later(), actor="ada").runs == 1
    for again in (
        lambda: ledger.start("run", input=1, labels={"team": "a"}),
        lambda: ledger.start("run", input=1, labels={"team": "a"}, command_id="begin"),
        lambda: ledger.cancel("run", "no longer wanted", command_id="end"),
        lambda: ledger.cancel("run"),
    ):
        record = again()
        assert (record.status, record.version, record.head) == ("cancelled", 2, ended.head)
        assert (record.labels, record.created_at) == ({"team": "a"}, ended.created_at)
        assert record.pruned_at is not None
    for command_id, version in (("begin", 1), ("end", 2)):
        outcome = ledger.resolve(command_id, "run")
        assert (outcome.applied, outcome.version) == (True, version)
    # Nothing was written.
    assert journal.runs() == []
    assert not list(journal.events("run"))


def test_texts_do_not_stay(journal: Journal) -> None:
    ledger = journal.ledger()
    with ledger.acquire("run") as lease:
        lease.release(error="secret one")
    ledger.acquire("run").fail("broken", "secret two")
    journal.prune(later())
    left: Any = journal.store
    tombstones: list[Tombstone] = left.tombstones((0, ""), 10)
    assert all(b"secret" not in (t.body or b"") for t in tombstones)


def test_anything_else_is_refused(journal: Journal) -> None:
    ledger = journal.ledger()
    end(journal, "run", input=1)
    journal.prune(later())
    for start in ({"input": 2}, {"input": 1, "kind": "other"}, {"input": 1, "labels": {"a": "b"}}):
        with refused("RUN_CONFLICT", "pruned") as caught:
            ledger.start("run", **start)  # type: ignore[arg-type]
        assert "was pruned at" in caught.value.message
    with refused("RUN_CONFLICT", "pruned"):
        ledger.start("run", input=2, command_id="new")
    for call in (ledger.acquire, ledger.restore, ledger.cancel, ledger.request_resume):
        with refused("RUN_ALREADY_TERMINAL", "completed"):
            call("run")
    with refused("RUN_ALREADY_TERMINAL", "completed"):
        ledger.fail("run", "broken")


def test_reading_says_when_it_was_pruned(journal: Journal) -> None:
    ledger = journal.ledger()
    end(journal, "run")
    journal.prune(later())
    (event,) = [e for _, e in journal.subscribe(follow=False)]
    for read in (
        journal.get,
        ledger.get,
        journal.timeline,
        journal.export_run,
        lambda run_id: list(journal.export([run_id])),
        lambda run_id: journal.get(run_id, version=1),
        lambda run_id: ledger.resolve("command", run_id),
    ):
        with refused("RUN_NOT_FOUND", "pruned") as caught:
            read("run")
        assert event.timestamp.isoformat() in caught.value.message
        assert caught.value.record is not None
    assert journal.get("other") is None
    assert ledger.get("other") is None


class PrunesMeanwhile(LosesReplies):
    """Between a commit and its reply, the journal is pruned."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal.store)
        self._journal = journal

    def _lost(self, what: str) -> RunStoreError:
        assert self._journal.prune(later()).runs == 1
        return super()._lost(what)


def test_holder_whose_reply_was_lost_learns_that_it_landed(
    journal: Journal, clock: SteppedClock
) -> None:
    losing = PrunesMeanwhile(journal)
    handle = ledger_on(losing, clock).acquire("run")
    losing.replies = 1
    ended = handle.complete({"rows": 1})
    assert (ended.status, ended.version) == ("completed", 3)
    assert ended.pruned_at is not None
    assert not handle.held


def test_holder_that_comes_back_after_the_prune(journal: Journal, clock: SteppedClock) -> None:
    losing = LosesReplies(journal.store)
    handle = ledger_on(losing, clock).acquire("run")
    losing.replies, losing.stays_down = 1, True
    with refused("RUN_OUTCOME_UNKNOWN", "reply_lost"):
        handle.complete({"rows": 1})
    losing.cut_off = False
    journal.prune(later())
    # Whatever it does next is refused for what is true: its completion has landed.
    with refused("RUN_ALREADY_TERMINAL", "completed"):
        handle.save_checkpoint(2)
    assert not handle.held


def test_ordinary_start_and_acquire_cost_no_trip_more(
    journal: Journal, clock: SteppedClock
) -> None:
    asking = LosesReplies(journal.store)
    ledger = ledger_on(asking, clock)
    ledger.start("started")
    assert asking.calls == ["append"]
    asking.calls.clear()
    ledger.acquire("acquired")
    assert asking.calls == ["get", "append"]


def test_start_that_waits_for_the_prune(postgres_url: str, wait_until: Callable[..., None]) -> None:
    """Its snapshot is older than the tombstone, and its wait ends when the row is gone."""
    with open_journal(postgres_url) as journal, psycopg.connect(postgres_url) as prune:
        end(journal, "run", input=1)
        record = journal.get("run")
        assert record is not None
        prune.execute("DELETE FROM events WHERE stream = 'run/run'")
        prune.execute("DELETE FROM runs WHERE run_id = 'run'")
        prune.execute(
            "INSERT INTO tombstones VALUES ('run/run', 1, %s, %s, %s)",
            (record.version, record.head, record.model_dump_json().encode()),
        )
        outcomes: list[Any] = []

        def start() -> None:
            with refused("RUN_CONFLICT", "different_arguments"):
                outcomes.append(journal.ledger().start("run", input=2))

        thread = threading.Thread(target=start)
        thread.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        wait_until(lambda: prune.execute(waiting).fetchone() == (1,))
        prune.commit()
        thread.join()
        assert outcomes == []
        assert prune.execute("SELECT count(*) FROM runs").fetchone() == (0,)


def test_start_that_comes_back_within_a_host_transaction(postgres_url: str) -> None:
    with open_journal(postgres_url) as journal:
        end(journal, "run", input=1)
        journal.prune(later())
        with psycopg.connect(postgres_url) as conn:
            with refused("RUN_CONFLICT", "pruned"):
                journal.in_transaction(conn).start("run", input=2)
            # The host's transaction goes on.
            assert journal.in_transaction(conn).start("run", input=1).pruned_at is not None
            journal.in_transaction(conn).start("other")
        assert journal.get("other") is not None


@pytest.mark.parametrize("pruned_first", [True, False])
def test_delivery_that_was_being_sent(journal: Journal, pruned_first: bool) -> None:
    """Undelivered results hold their run; delivered ones go with it."""
    from .conftest import deliver

    end(journal, "run", delivery_ref="inbox")
    if pruned_first:
        done = journal.prune(later())
        assert (done.runs, done.held) == (0, {"undelivered": 1})
    deliver(journal)
    assert journal.prune(later()).runs == 1
    assert journal.deliveries() == []
    deliver(journal)
    assert journal.verify().findings == []
