"""The host's authorizer: what it does not allow reads like a run that does not exist."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunLedger, RunRecord, RunStoreError, open_journal
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.contract.tools import SteppedClock, ledger_on, refused, trace
from runjournal.domain.run_operator import RunOperator

Command = Callable[[RunOperator, str, str], RunRecord]

#: Every command from outside a lease: ledger, run id, actor.
COMMANDS: dict[str, Command] = {
    "start": lambda ledger, run, actor: ledger.start(run, actor=actor),
    "cancel": lambda ledger, run, actor: ledger.cancel(run, actor=actor),
    "fail": lambda ledger, run, actor: ledger.fail(run, "no-more", actor=actor),
    "request_resume": lambda ledger, run, actor: ledger.request_resume(run, actor=actor),
    "record_decision": lambda ledger, run, actor: ledger.record_decision(
        run, "go", "yes", actor=actor
    ),
}


class Teams:
    """Each actor may do everything to the runs of its own team, whose names begin with it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str | None, str, RunRecord | None]] = []

    def allows(self, actor: str | None, action: str, record: RunRecord | None) -> bool:
        self.asked.append((actor, action, record))
        return record is not None and record.run_id.startswith(f"{actor}/")


class Answers:
    """Gives an answer, or raises it."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def allows(self, *_: object) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def teams() -> Teams:
    return Teams()


@pytest.fixture
def journal(journal_url: str, teams: Teams) -> Iterator[Journal]:
    with open_journal(journal_url, authorizer=teams) as opened:
        yield opened


def suspended(journal: Journal, run_id: str) -> RunLedger:
    """A ledger beside a run that waits for the decision "go"."""
    ledger = journal.ledger()
    ledger.acquire(run_id, heartbeat=False).suspend(["go"])
    return ledger


def refusal(act: Command, ledger: RunOperator, run_id: str, actor: str) -> tuple[object, ...]:
    """Everything that a refusal tells, with the id that was asked for left out."""
    with pytest.raises(RunStoreError) as caught:
        act(ledger, run_id, actor)
    error = caught.value
    told = error.message.replace(repr(run_id), "RUN")
    return error.code, error.reason, told, error.hint, error.retryable, error.record


def test_what_is_not_allowed_reads_like_what_is_not_there(journal: Journal, teams: Teams) -> None:
    ledger = suspended(journal, "ada/run")
    before = trace(journal.store, "ada/run")
    for action, act in COMMANDS.items():
        teams.asked.clear()
        there = refusal(act, ledger, "ada/run", "bob")
        absent = refusal(act, ledger, "ada/none", "bob")
        assert there == absent
        assert there[:3] == ("RUN_NOT_FOUND", "run", "run RUN does not exist")
        assert {(actor, name) for actor, name, _ in teams.asked} == {("bob", action)}
        assert trace(journal.store, "ada/run") == before
        assert journal.get("ada/none") is None


def test_what_is_allowed_is_done_under_its_actor(journal: Journal, teams: Teams) -> None:
    for action, act in COMMANDS.items():
        run_id = f"bob/{action}"
        ledger = journal.ledger() if action == "start" else suspended(journal, run_id)
        teams.asked.clear()
        act(ledger, run_id, "bob")
        ((actor, name, record),) = teams.asked
        assert (actor, name) == ("bob", action)
        assert record is not None
        assert (record.run_id, record.status) == (
            run_id,
            "queued" if action == "start" else "suspended",
        )
        assert [e.actor for e in journal.events(run_id)][-1] == "bob"


def test_a_new_run_is_shown_as_it_would_be(journal: Journal, teams: Teams) -> None:
    """So that the host can judge its id, and answer alike whether it is taken or not."""
    written = journal.ledger().start("bob/run", "report", labels={"a": "b"}, actor="bob")
    ((_, _, shown),) = teams.asked
    assert shown is not None
    known = {"head", "created_at", "updated_at"}  # nearly: the store has the last word on time
    assert shown.model_dump(exclude=known) == written.model_dump(exclude=known)


def test_a_start_tells_nothing_of_a_run_that_may_not_be_seen(journal: Journal) -> None:
    """Neither that it is there, nor that it was started with these or other arguments."""
    ledger = journal.ledger()
    ledger.start("ada/run", input=1, actor="ada", command_id="first")
    same: Command = lambda on, run, actor: on.start(run, input=1, actor=actor)  # noqa: E731
    other: Command = lambda on, run, actor: on.start(run, input=2, actor=actor)  # noqa: E731
    repeated: Command = lambda on, run, actor: on.start(  # noqa: E731
        run, input=1, actor=actor, command_id="first"
    )
    told = {
        refusal(act, ledger, run_id, "bob")
        for act in (same, other, repeated)
        for run_id in ("ada/run", "ada/none")
    }
    assert len(told) == 1


def test_holders_and_takers_are_not_asked(journal: Journal, teams: Teams) -> None:
    """The lease is the capability; a worker takes runs under its owner's name."""
    ledger = journal.ledger()
    lease = ledger.acquire("ada/run", heartbeat=False)
    lease.save_checkpoint(1)
    lease.suspend()
    ledger.restore("ada/run", heartbeat=False).release()
    lease = ledger.claim(heartbeat=False)
    assert lease is not None
    ledger.adopt("ada/run", lease.fencing_token).save_checkpoint(2)
    lease.cancel()
    assert teams.asked == []


def test_readings_are_not_asked(journal: Journal, teams: Teams) -> None:
    ledger = suspended(journal, "ada/run")
    assert ledger.get("ada/run") is not None
    assert ledger.resolve("unknown", "ada/run").record is not None
    assert teams.asked == []


@pytest.mark.parametrize("answer", [ValueError("password=hunter2"), "yes", None, 1], ids=repr)
def test_whatever_is_no_plain_yes_is_a_no(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    with open_journal("memory:", authorizer=Answers(answer)) as journal:
        ledger = suspended(journal, "ada/run")
        with caplog.at_level(logging.ERROR, "runjournal.authorizer"):
            for act in COMMANDS.values():
                told = refusal(act, ledger, "ada/run", "ada")
                assert told == ("RUN_NOT_FOUND", "run", "run RUN does not exist", *told[3:])
    assert [name for name in COMMANDS if f"{name} was refused" not in caplog.text] == []
    assert type(answer).__name__ in caplog.text
    assert "hunter2" not in caplog.text
    assert "ada" not in caplog.text


def test_an_interrupt_in_the_hook_passes_and_nothing_is_written() -> None:
    with open_journal("memory:", authorizer=Answers(KeyboardInterrupt())) as journal:
        with pytest.raises(KeyboardInterrupt):
            journal.ledger().start("run")
        assert journal.get("run") is None


def test_a_yes_that_is_taken_back_does_not_deny_what_was_written(clock: SteppedClock) -> None:
    """The reply to an allowed write is lost; what became of it is told all the same."""
    answers = Answers(True)
    with open_journal("memory:") as journal:
        lossy = LosesReplies(journal.store)
        ledger = ledger_on(lossy, clock, authorizer=answers)
        ledger.start("run")
        lossy.replies = 1
        real = lossy.append

        def append(*args: Any, **kwargs: Any) -> Any:
            answers.answer = False
            return real(*args, **kwargs)

        lossy.append = append  # type: ignore[method-assign]
        assert ledger.cancel("run").status == "cancelled"
        with refused("RUN_NOT_FOUND", "run"):
            ledger.cancel("run")


def test_an_open_write_is_not_denied_by_a_second_thought(
    clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reply is lost and it may land yet: sending it again is not asked about once more."""
    answers = Answers(True)
    with open_journal("memory:") as journal:
        ledger = ledger_on(journal.store, clock, authorizer=answers)
        ledger.start("run")
        append, lost = journal.store.append, [True]

        def lose_the_first(*args: Any) -> Any:
            answers.answer = False
            if lost and lost.pop():
                raise RunStoreError("RUN_OUTCOME_UNKNOWN", "reply_lost", "no reply")
            return append(*args)

        monkeypatch.setattr(journal.store, "append", lose_the_first)
        assert ledger.cancel("run").status == "cancelled"


def test_the_hook_is_asked_about_the_run_as_it_is_written_to(clock: SteppedClock) -> None:
    """Somebody else was first: the authorizer sees what became of the run, and may refuse now."""
    with open_journal("memory:") as journal:
        other = journal.ledger(clock=clock)
        other.start("run")

        class OnlyQueued:
            def allows(self, _actor: str | None, _action: str, record: RunRecord | None) -> bool:
                allowed = record is not None and record.status == "queued"
                if allowed:
                    other.acquire("run", heartbeat=False)
                return allowed

        with refused("RUN_NOT_FOUND", "run"):
            ledger_on(journal.store, clock, authorizer=OnlyQueued()).cancel("run")
        assert other.get("run").status == "running"  # type: ignore[union-attr]


def test_in_a_transaction_of_the_host_it_is_asked_as_well(postgres_url: str) -> None:
    with (
        open_journal(postgres_url, authorizer=Teams()) as journal,
        closing(psycopg.connect(postgres_url)) as conn,
    ):
        suspended(journal, "ada/run")
        for act in COMMANDS.values():
            operator = journal.in_transaction(conn)
            assert refusal(act, operator, "ada/run", "bob") == refusal(
                act, operator, "ada/none", "bob"
            )
        journal.in_transaction(conn).cancel("ada/run", actor="ada")
        conn.commit()
        assert journal.get("ada/run").status == "cancelled"  # type: ignore[union-attr]
