"""Cases of repeated commands and of names that are none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from runjournal import Journal, RunLedger, RunRecord, RunStoreError
from runjournal.adapters.contract.tools import refused

Verify = Callable[[Journal, str], None]
Doors = Callable[[Journal], dict[str, Callable[[Any], object]]]

Command = Callable[[RunLedger, str, str], RunRecord]

#: By name: the status to begin with, a command of (ledger, run, command id), and another one.
OPERATOR_COMMANDS: dict[str, tuple[str, Command, Command]] = {
    "start": (
        "none",
        lambda ledger, run, id_: ledger.start(run, input={"n": 1}, command_id=id_),
        lambda ledger, run, id_: ledger.start(run, input={"n": 2}, command_id=id_),
    ),
    "cancel": (
        "queued",
        lambda ledger, run, id_: ledger.cancel(run, "one", command_id=id_),
        lambda ledger, run, id_: ledger.cancel(run, "two", command_id=id_),
    ),
    "fail": (
        "queued",
        lambda ledger, run, id_: ledger.fail(run, "one", command_id=id_),
        lambda ledger, run, id_: ledger.fail(run, "two", command_id=id_),
    ),
    "resume": (
        "suspended",
        lambda ledger, run, id_: ledger.request_resume(run, command_id=id_),
        lambda ledger, run, id_: ledger.cancel(run, command_id=id_),
    ),
    "decide": (
        "suspended",
        lambda ledger, run, id_: ledger.record_decision(run, "a", "yes", command_id=id_),
        lambda ledger, run, id_: ledger.record_decision(run, "b", "yes", command_id=id_),
    ),
}


def prepare(ledger: RunLedger, run_id: str, status: str) -> None:
    if status == "queued":
        ledger.start(run_id)
    elif status == "suspended":
        ledger.acquire(run_id, heartbeat=False).suspend(["a", "b"])


@pytest.mark.parametrize("name", OPERATOR_COMMANDS)
def test_case_28_the_same_command_id(journal: Journal, verify_run: Verify, name: str) -> None:
    """Repeated: the first result and no event. Anything else under that id: a conflict."""
    status, command, other = OPERATOR_COMMANDS[name]
    ledger = journal.ledger()
    for run_id in ("r", "q"):
        prepare(ledger, run_id, status)
    first = command(ledger, "r", "id-1")
    assert command(ledger, "r", "id-1") == first
    assert command(journal.ledger(owner="restarted"), "r", "id-1") == first
    with refused("RUN_CONFLICT", "command_reused"):
        other(ledger, "r", "id-1")
    assert journal.get("r") == first
    # For another run the id says nothing.
    assert command(ledger, "q", "id-1").version == first.version
    for run_id in ("r", "q"):
        verify_run(journal, run_id)


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("name", OPERATOR_COMMANDS)
@pytest.mark.parametrize("fault", ["crash", "lost reply"])
def test_case_28_between_commit_and_reply(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, verify_run: Verify, name: str, fault: str
) -> None:
    """What was written without a reply is found again under its id, and not written twice."""
    status, command, _ = OPERATOR_COMMANDS[name]
    prepare(journal.ledger(), "r", status)
    append = journal.store.append

    def append_and_lose(*args: Any, **options: Any) -> Any:
        append(*args, **options)
        monkeypatch.undo()
        if fault == "crash":
            raise Crash
        raise RunStoreError("RUN_OUTCOME_UNKNOWN", "reply_lost", "the connection broke")

    monkeypatch.setattr(journal.store, "append", append_and_lose)
    first: RunRecord | None = None
    try:
        first = command(journal.ledger(), "r", "id-1")
    except Crash:
        assert fault == "crash"
    written = journal.get("r")
    assert written is not None
    assert first in (None, written)
    restarted = journal.ledger(owner="restarted")
    resolved = restarted.resolve("id-1", "r")
    assert (resolved.applied, resolved.version) == (True, written.version)
    assert command(restarted, "r", "id-1") == written == journal.get("r")
    assert not restarted.resolve("id-2", "r").applied
    verify_run(journal, "r")


def test_case_28_a_late_repetition_does_not_act_again(journal: Journal) -> None:
    """An old resume that is sent again must not resume the run's next suspension."""
    ledger = journal.ledger()
    ledger.acquire("r", heartbeat=False).suspend()
    ledger.request_resume("r", command_id="id-1")
    second = ledger.acquire("r", heartbeat=False).suspend()
    assert ledger.request_resume("r", command_id="id-1") == second
    assert journal.get("r") == second
    assert ledger.request_resume("r", command_id="id-2").status == "queued"


def test_case_28_a_command_that_wrote_nothing_is_not_remembered(journal: Journal) -> None:
    """It asked for what already was: the record, and no event. So its id stands for nothing yet."""
    ledger = journal.ledger()
    ledger.start("r")
    version = ledger.request_resume("r", command_id="id-1").version
    assert version == 1
    assert not ledger.resolve("id-1", "r").applied
    ledger.acquire("r", heartbeat=False).suspend()
    # The first command of this id that finds something to do is the one that is remembered.
    assert ledger.request_resume("r", command_id="id-1").status == "queued"
    assert ledger.resolve("id-1", "r").applied
    again = ledger.acquire("r", heartbeat=False).suspend()
    assert ledger.request_resume("r", command_id="id-1") == again


def test_case_53_a_repeated_start_takes_no_position(journal: Journal) -> None:
    ledger = journal.ledger()
    first = ledger.start("r", input={"n": 1})
    for _ in range(100):
        assert ledger.start("r", input={"n": 1}) == first
    ledger.start("next")
    assert [position for position, _ in journal.subscribe(follow=False)] == [1, 2]


#: Names that are none: empty, blank, with outer spaces, with control characters, not a str.
NO_NAMES = ["", " ", "\t", "\n", "\u3000", "\xa0", " a", "a ", "a\n", "a\0b", "\x7f", 7, b"a", ()]


def test_case_29_names_that_are_none(
    journal: Journal, name_doors: Doors, verify_run: Verify
) -> None:
    """Refused at every door, before anything is written, though the recorder would take them."""
    doors = name_doors(journal)
    before = journal.runs(), list(journal.events("live"))
    for door, call in doors.items():
        for value in NO_NAMES:
            with pytest.raises(RunStoreError) as caught:
                call(value)
            cause = (caught.value.code, caught.value.reason)
            assert cause == ("RUN_VALIDATION_ERROR", "identifier"), (door, value)
    assert (journal.runs(), list(journal.events("live"))) == before
    assert journal.store.read("run/") == []
    verify_run(journal, "live")


def test_case_29_versions_that_are_none(journal: Journal) -> None:
    journal.ledger().start("r")
    for version in (0, -1, True, "1", 1.0):
        with refused("RUN_VALIDATION_ERROR", "argument"):
            journal.get("r", version=version)  # type: ignore[arg-type]
    for version in (2, 999, 2**62):
        with refused("RUN_NOT_FOUND", "version"):
            journal.get("r", version=version)
    with refused("RUN_NOT_FOUND", "version"):
        journal.get("r", as_of=datetime(2000, 1, 1, tzinfo=UTC))
    with refused("RUN_VALIDATION_ERROR", "time"):
        journal.get("r", as_of=datetime(2000, 1, 1))  # noqa: DTZ001 - that is the case
    for after_version in (-1, None, "0", 0.0):
        with refused("RUN_VALIDATION_ERROR", "argument"):
            journal.events("r", after_version=after_version)  # type: ignore[arg-type]
    assert list(journal.events("r", after_version=999)) == []
    assert journal.get("no such run", version=1) is None
