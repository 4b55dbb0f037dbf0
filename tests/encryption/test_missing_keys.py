"""Keys that are missing, wrong or lost, and stored values that were changed or moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from runjournal import Journal, KeyRing, RunStoreError, Worker, open_journal
from runjournal.domain.events import run_stream

from ..projecting.projectors import Seen
from ..verifying.conftest import Sql, behind_its_back
from .conftest import NEW, cause, fill_with_canaries, ring

MISSING = "RUN_VALIDATION_ERROR/missing_key"
UNREADABLE = ("RUN_INTEGRITY_ERROR/unreadable_event", "RUN_INTEGRITY_ERROR/unreadable_record")


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def filled(database_url: str) -> str:
    """The address of a journal that was encrypted with `old`."""
    with open_journal(database_url, cipher=ring("old")) as journal:
        fill_with_canaries(journal)
    return database_url


@pytest.fixture
def sql(database_url: str) -> Sql:
    return behind_its_back(database_url)


def failure(call: Callable[[], Any]) -> RunStoreError:
    with pytest.raises(RunStoreError) as caught:
        call()
    return caught.value


def readings(journal: Journal) -> Iterator[Callable[[], Any]]:
    yield lambda: journal.get("full")
    yield lambda: journal.get("full", version=3)
    yield lambda: list(journal.events("full"))
    yield journal.runs
    yield journal.deliveries
    yield lambda: journal.timeline("full")
    yield lambda: journal.report(["full"])
    yield lambda: journal.export_run("full")
    yield lambda: list(journal.export())
    yield lambda: next(iter(journal.subscribe(follow=False)))
    yield lambda: journal.application.record_at("full", 3)


def test_every_reading_names_the_key_that_is_missing(filled: str) -> None:
    for keys in (None, ring("new"), KeyRing({"old": NEW})):
        with open_journal(filled, cipher=keys) as journal:
            for read in readings(journal):
                error = failure(read)
                assert cause(error) == MISSING, error
                assert "the key 'old'" in error.message
            assert journal.attention() == []


def test_nobody_without_the_key_sets_anything_aside(filled: str) -> None:
    for keys in (None, ring("new"), KeyRing({"old": NEW})):
        with open_journal(filled, cipher=keys) as journal:
            check_that_nothing_is_set_aside(journal)
    with open_journal(filled, cipher=ring("new", "old")) as journal:
        assert journal.attention() == []
        claimed = journal.ledger().claim(limit=10)
        assert {lease.run_id for lease in claimed} == {"waiting", "held"}
        assert journal.projection(Seen()).catch_up() > 0
        assert len(journal.deliveries()) == 1


def check_that_nothing_is_set_aside(journal: Journal) -> None:
    ledger, runner = journal.ledger(), journal.projection(Seen())
    for call in (lambda: ledger.claim(limit=10), journal.deliveries, runner.catch_up):
        assert cause(failure(call)) == MISSING
    state = runner.state()
    assert state is not None
    assert state.parked_at is None


def test_what_is_encrypted_is_not_gone_on_with_in_plain(database_url: str) -> None:
    with open_journal(database_url, cipher=ring("old")) as journal:
        journal.ledger().start("secret")
    with open_journal(database_url) as journal:
        ledger = journal.ledger()
        for write in (lambda: ledger.start("more"), lambda: ledger.cancel("secret")):
            assert cause(failure(write)) == MISSING
        assert journal.position() == 1


def test_a_mixed_journal(journal_url: str) -> None:
    with open_journal(journal_url) as journal:
        fill_with_canaries(journal)
        if journal_url == "memory:":
            journal._codec.cipher = ring("old")
            check_mixed(journal)
            return
    with open_journal(journal_url, cipher=ring("old")) as journal:
        check_mixed(journal)


def check_mixed(journal: Journal) -> None:
    """A journal of which the first part is in plain goes on, encrypted."""
    ledger = journal.ledger(owner="later")
    lease = ledger.acquire("waiting")
    assert lease.input == "canary-waiting-input"
    lease.save_checkpoint("second")
    stored = journal.store.read(run_stream("waiting"))
    assert [e.data[:1] for e in stored] == [b"{", b"\x01", b"\x01"]
    assert lease.checkpoint == "second"
    lease.complete()
    assert journal.verify().findings == []
    assert journal.rebuild("run_records").repaired == 0


def test_verify_without_keys_checks_what_bytes_tell(filled: str, sql: Sql) -> None:
    with open_journal(filled, cipher=ring("old")) as journal:
        anchor = list(journal.anchor())
    with open_journal(filled) as journal:
        assert list(journal.anchor())[1:-1] == anchor[1:-1]
        done = journal.verify()
        assert done.events == journal.position() - 2  # without the pruned run's
        assert {f.kind for f in done.findings} == {"no_key"}
        *findings, tombstones = done.findings
        assert "the tombstone of 'run/gone'" in tombstones.message
        streams = [f.stream for f in findings]
        assert len(set(streams)) == len(streams) == len(anchor) - 2
        assert all("'old'" in f.message for f in done.findings)
        assert journal.rebuild("run_records").repaired == 0

        changed = b"\x01\x03oldxxxx"
        sql("UPDATE events SET state = ? WHERE stream = 'run/full' AND version = 2", changed)
        sql("DELETE FROM events WHERE stream = ? AND version = 2", "run/held")
        kinds = {(f.kind, f.stream) for f in journal.verify().findings} - {
            ("no_key", stream) for stream in streams
        }
        assert {("head", "run/full"), ("gap", "run/held"), ("head", "run/held")} == kinds


def test_verify_names_what_a_key_takes_with_it_and_that_can_be_acknowledged(filled: str) -> None:
    with open_journal(filled, cipher=ring("new", "old")) as journal:
        ledger = journal.ledger()
        ledger.start("later")
        ledger.acquire("cancelled-later").complete()
        ledger.acquire("waiting").complete()
    with open_journal(filled, cipher=ring("new", lost=("old",))) as journal:
        found = journal.verify().findings
        lost = {f.stream for f in found if f.kind == "no_key"}
        assert "run/full" in lost
        assert "run/waiting" in lost  # its first event
        assert lost.isdisjoint({"run/later", "run/cancelled-later"})
        # The log that it goes to has lost an event as well.
        journal.acknowledge(found, "ada", "the key was destroyed")
        done = journal.verify()
        assert (done.findings, len(done.acknowledged)) == ([], len(found))
        assert "which is lost" in journal.report(["full"])


def test_a_lost_key_sets_its_runs_aside_and_the_others_go_on(filled: str) -> None:
    with open_journal(filled, cipher=ring("new", "old")) as journal:
        journal.ledger().start("later", input="new")
    with open_journal(filled, cipher=ring("new", lost=("old",))) as journal:
        worker = Worker(journal, lambda ctx: ctx.input)
        record = worker.run_once()
        assert record is not None
        assert (record.run_id, record.status) == ("later", "completed")
        assert {a.run_id for a in journal.attention()} == {"waiting", "held"}
        assert cause(failure(lambda: journal.get("waiting"))) == "RUN_INTEGRITY_ERROR/lost_key"


def test_a_row_under_a_lost_key_is_made_anew_from_its_events(database_url: str, sql: Sql) -> None:
    with open_journal(database_url, cipher=ring("new")) as journal:
        journal.ledger().start("run", labels={"a": "b"})
        (row,) = sql("SELECT body FROM runs")
    with open_journal(database_url, cipher=ring("old", "new")) as journal:
        journal.ledger().cancel("run")
        old = sql("SELECT body FROM runs")[0][0]
        assert bytes(row[0])[:5] == b"\x01\x03new"
        assert bytes(old)[:5] == b"\x01\x03old"
        sql("UPDATE runs SET body = ?", b"\x01\x03xyz" + bytes(60))
        assert [f.kind for f in journal.verify().findings] == ["record"]
        assert journal.rebuild("run_records").repaired == 1
        assert journal.verify().findings == []
        assert dict(journal.get("run").labels) == {"a": "b"}  # type: ignore[union-attr]


MOVES = {
    "an event into another run": (
        "UPDATE events SET state = (SELECT state FROM events WHERE stream = 'run/waiting'"
        " AND version = 1) WHERE stream = 'run/cancelled' AND version = 1"
    ),
    "an event within its run": (
        "UPDATE events SET state = (SELECT state FROM events WHERE stream = 'run/cancelled'"
        " AND version = 2) WHERE stream = 'run/cancelled' AND version = 1"
    ),
    "a row's body": (
        "UPDATE runs SET body = (SELECT body FROM runs WHERE run_id = 'waiting')"
        " WHERE run_id = 'cancelled'"
    ),
    "a body into the checkpoint": (
        "UPDATE runs SET checkpoint = body WHERE run_id = 'cancelled'"
    ),
    "the end is cut": (
        "UPDATE events SET state = substr(state, 1, length(state) - 1)"
        " WHERE stream = 'run/cancelled' AND version = 1"
    ),
    "nothing is left": "UPDATE runs SET body = substr(body, 1, 1) WHERE run_id = 'cancelled'",
}  # fmt: skip


@pytest.mark.parametrize("statement", MOVES.values(), ids=MOVES)
def test_what_was_moved_or_cut_is_found(sqlite_url: str, statement: str) -> None:
    with open_journal(sqlite_url, cipher=ring("old")) as journal:
        fill_with_canaries(journal)
    behind_its_back(sqlite_url)(statement)
    with open_journal(sqlite_url, cipher=ring("old")) as journal:
        error = failure(lambda: (list(journal.events("cancelled")), journal.get("cancelled")))
        assert cause(error) in UNREADABLE
        assert "changed" in error.message or "belong elsewhere" in error.message
        assert {f.stream for f in journal.verify().findings} == {"run/cancelled"}
