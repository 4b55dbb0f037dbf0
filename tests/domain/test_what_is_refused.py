"""What each command is refused for in each situation, and what it converges on: the whole table.

A refusal is its code and reason, and it carries the record that it was decided on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runjournal import RunStoreError
from runjournal.adapters.contract.scribe import START, after
from runjournal.domain import commands as c
from runjournal.domain.decide import decide
from runjournal.domain.events import Payload
from runjournal.domain.record import RunRecord
from runjournal.domain.refusals import pruned as pruned_error
from runjournal.domain.run import evolve
from runjournal.domain.status import can_transition_run, is_terminal_run_status
from runjournal.domain.tombstone import run_tombstone

NULL = Payload(b"null", "null")


def start(kind: str = "default", command_id: str = "s") -> c.Start:
    return c.Start(run_id="run", command_id=command_id, kind=kind, input=NULL)


def acquire(owner: str = "w2", *, resume: bool = False, create: bool = False) -> c.Acquire:
    return c.Acquire(
        run_id="run", command_id="a", owner=owner, ttl=60.0, resume=resume,
        start=start() if create else None,
    )  # fmt: skip


def held(make: Callable[..., Any], token: int = 1, **fields: Any) -> Any:
    return make(run_id="run", command_id="h", fencing_token=token, **fields)


def saving(token: int = 1, command_id: str = "h", digest: str = "x") -> c.SaveCheckpoint:
    state = Payload(b"1", digest)
    return c.SaveCheckpoint(
        run_id="run", command_id=command_id, fencing_token=token, key="latest",
        snapshot_version=1, state=state,
    )  # fmt: skip


def suspending(token: int = 1, *approvals: str, resume: bool = False) -> c.Suspend:
    return held(c.Suspend, token, pending_approval_ids=approvals, resume_when_decided=resume)


def completing(token: int = 1) -> c.Complete:
    return held(c.Complete, token, code="ok", result=NULL)


def failing(token: int = 1) -> c.Fail:
    return held(c.Fail, token, code="bad")


def releasing(token: int = 1) -> c.Release:
    return held(c.Release, token)


def cancelling(command_id: str = "o", message: str | None = None, token: int | None = None) -> Any:
    return c.Cancel(run_id="run", command_id=command_id, message=message, fencing_token=token)


def giving_up(command_id: str = "o") -> c.GiveUp:
    return c.GiveUp(run_id="run", command_id=command_id, code="lost")


def resuming(command_id: str = "o") -> c.RequestResume:
    return c.RequestResume(run_id="run", command_id=command_id)


def deciding(approval: str = "x", decision: str = "yes", command_id: str = "o") -> Any:
    return c.RecordDecision(
        run_id="run", command_id=command_id, approval_id=approval, decision=decision
    )


def after_commands(*commands: c.Command) -> RunRecord:
    """The record after these, each at the instant START."""
    record: RunRecord | None = None
    for command in commands:
        for event in decide(record, command, START):
            record = evolve(record, event, f"h{event.originator_version}")
    assert record is not None
    return record


def pruned() -> RunRecord:
    ended = after_commands(start(), acquire("w1"), completing())
    last = decide(RUNNING, completing(), START)[-1]
    left = run_tombstone(ended, last, 1, after(9)).record
    assert left is not None
    return left


QUEUED = after_commands(start())
RUNNING = after_commands(start(), acquire("w1"))  # token 1, until the second 60
SAVED = after_commands(start(), acquire("w1"), saving())
TAKEN = after_commands(start(), acquire("w1"), acquire("w1"))  # token 2
SUSPENDED = after_commands(start(), acquire("w1"), suspending(1, "x", "y"))
RESUMED = after_commands(start(), acquire("w1"), suspending(1, "x"), resuming("r"))
DECIDED = after_commands(start(), acquire("w1"), suspending(1, "x", "y"), deciding())
RELEASED = after_commands(start(), acquire("w1"), releasing())
COMPLETED = after_commands(start(), acquire("w1"), completing())
FAILED = after_commands(start(), acquire("w1"), failing())
CANCELLED = after_commands(start(), acquire("w1"), cancelling())
GIVEN_UP = after_commands(start(), giving_up())
DECIDED_CANCELLED = after_commands(
    start(), acquire("w1"), suspending(1, "x", "y"), deciding(), cancelling("k")
)

LOST = "RUN_LEASE_LOST"
ENDED = "RUN_ALREADY_TERMINAL"
HOLDERS = [saving, suspending, completing, failing, releasing]
OPERATORS = [cancelling, giving_up, resuming, deciding]

REFUSED: list[tuple[RunRecord | None, c.Command, float, str, str]] = [
    # There is no such run.
    *((None, make(), 0.0, "RUN_NOT_FOUND", "run") for make in HOLDERS + OPERATORS),
    (None, acquire(), 0, "RUN_NOT_FOUND", "run"),
    # The same name stands for something else.
    (QUEUED, start("other", "s2"), 0, "RUN_CONFLICT", "different_arguments"),
    (pruned(), start("other", "s2"), 0, "RUN_CONFLICT", "pruned"),
    (QUEUED, start("other"), 0, "RUN_CONFLICT", "command_reused"),
    (QUEUED, cancelling("s"), 0, "RUN_CONFLICT", "command_reused"),
    (CANCELLED, cancelling(message="else"), 0, "RUN_CONFLICT", "command_reused"),
    (SAVED, saving(digest="y"), 0, "RUN_CONFLICT", "command_reused"),
    (DECIDED, deciding(decision="no", command_id="p"), 0, "RUN_CONFLICT", "different_decision"),
    (
        DECIDED_CANCELLED,
        deciding(decision="no", command_id="p"),
        0,
        "RUN_CONFLICT",
        "different_decision",
    ),
    # Somebody holds it.
    (RUNNING, acquire(), 59.999999, "RUN_LEASE_HELD", "held"),
    (RUNNING, acquire(resume=True), 0, "RUN_LEASE_HELD", "held"),
    (RUNNING, giving_up(), 59.999999, "RUN_LEASE_HELD", "held"),
    # It waits.
    (SUSPENDED, acquire("w1"), 99, "RUN_SUSPENDED", "suspended"),
    (SUSPENDED, acquire(create=True), 0, "RUN_SUSPENDED", "suspended"),
    (QUEUED, deciding(), 0, "RUN_INVALID_TRANSITION", "not_suspended"),
    (RUNNING, deciding(), 0, "RUN_INVALID_TRANSITION", "not_suspended"),
    (RESUMED, deciding(), 0, "RUN_INVALID_TRANSITION", "not_suspended"),
    (SUSPENDED, deciding("z"), 0, "RUN_VALIDATION_ERROR", "unknown_approval"),
    # It has ended, for everybody but who ended it.
    *(
        (record, make(), 0.0, ENDED, status)
        for record, status, but in [
            (COMPLETED, "completed", ()),
            (FAILED, "failed", (giving_up,)),
            (CANCELLED, "cancelled", (cancelling,)),
            (GIVEN_UP, "failed", (giving_up,)),
        ]
        for make in [lambda: acquire("w1"), lambda: acquire("w1", resume=True)]
        + [lambda m=m: m(command_id="p") for m in OPERATORS if m not in but]  # type: ignore[misc]
    ),
    *((COMPLETED, make(), 0.0, ENDED, "completed") for make in (saving, suspending, failing)),
    *((FAILED, make(), 0.0, ENDED, "failed") for make in (saving, suspending, completing)),
    (COMPLETED, cancelling("p", token=1), 0, ENDED, "completed"),
    # The holder is none any more.
    *((RUNNING, make(), 60.0, LOST, "expired") for make in HOLDERS),
    (RUNNING, cancelling(token=1), 60, LOST, "expired"),
    *((TAKEN, make(1), 0.0, LOST, "taken_over") for make in HOLDERS),
    (TAKEN, cancelling(token=1), 0, LOST, "taken_over"),
    (RUNNING, saving(2), 0, LOST, "taken_over"),
    *((CANCELLED, make(1), 0.0, LOST, "cancelled") for make in HOLDERS),
    *((CANCELLED, make(0), 0.0, LOST, "taken_over") for make in HOLDERS),
    *((RELEASED, make(), 0.0, LOST, "released") for make in HOLDERS if make != releasing),
    *((RESUMED, make(), 0.0, LOST, "released") for make in HOLDERS if make != releasing),
    *((SUSPENDED, make(), 0.0, LOST, "released") for make in (saving, completing, failing)),
    # Repeating a suspension with another question must not be dropped without a word.
    (SUSPENDED, suspending(1, "x"), 0, LOST, "released"),
    (SUSPENDED, suspending(1, "x", "y", resume=True), 0, LOST, "released"),
    (SUSPENDED, suspending(2, "x", "y"), 0, LOST, "taken_over"),
]


@pytest.mark.parametrize(("record", "command", "at", "code", "reason"), REFUSED)
def test_refused(
    record: RunRecord | None, command: c.Command, at: float, code: str, reason: str
) -> None:
    with pytest.raises(RunStoreError) as caught:
        decide(record, command, after(at))
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.record is record
    assert "'run'" in str(caught.value), "which run it is about"


CONVERGES: list[tuple[RunRecord, c.Command, float]] = [
    (QUEUED, start(command_id="s2"), 0),
    (COMPLETED, start(command_id="s2"), 0),
    (pruned(), start(command_id="s2"), 0),
    (SAVED, saving(), 0),
    (SUSPENDED, suspending(1, "y", "x"), 99),
    (RELEASED, releasing(), 99),
    (SUSPENDED, releasing(), 99),
    (COMPLETED, releasing(), 99),
    (COMPLETED, completing(), 99),
    (FAILED, failing(), 99),
    (FAILED, giving_up(), 0),
    (GIVEN_UP, giving_up("p"), 0),
    (CANCELLED, cancelling("p"), 0),
    (CANCELLED, cancelling("p", message="else", token=1), 0),
    (QUEUED, resuming(), 0),
    (RUNNING, resuming(), 0),
    (DECIDED, deciding(command_id="p"), 0),
    (DECIDED_CANCELLED, deciding(command_id="p"), 0),
    # The same command once more, whatever the run is by now.
    (DECIDED_CANCELLED, deciding(), 0),
    (after_commands(start(), acquire("w1"), suspending(1), resuming(), acquire("w1"),
                    suspending(2)), resuming(), 0),
]  # fmt: skip


@pytest.mark.parametrize(("record", "command", "at"), CONVERGES)
def test_converges(record: RunRecord, command: c.Command, at: float) -> None:
    assert decide(record, command, after(at)) == ()


def test_a_checkpoint_of_another_command_is_written() -> None:
    """The same state once more, by another command, is another event."""
    (saved,) = decide(SAVED, saving(command_id="i"), START)
    assert saved.originator_version == SAVED.version + 1


def test_a_holder_may_give_back_up_to_its_last_instant() -> None:
    for make in HOLDERS:
        assert decide(RUNNING, make(), after(59.999999))


@pytest.mark.parametrize(
    ("record", "command", "names"),
    [
        (SUSPENDED, acquire(), "waiting for 'x', 'y', and no resume"),
        (after_commands(start(), acquire("w1"), suspending(1)), acquire(), "waiting for a resume,"),
        (TAKEN, saving(1), "taken over by 'w1': token 1 is stale, the run is at 2"),
        (
            after_commands(start(), acquire("w1"), acquire("w1"), releasing(2)),
            saving(1),
            "taken over: token 1 is stale",
        ),
        (COMPLETED, saving(), "has already completed with 'ok'"),
        (CANCELLED, resuming("p"), "has already been cancelled with 'cancelled'"),
    ],
)
def test_refusal_names_what_is_in_the_way(
    record: RunRecord, command: c.Command, names: str
) -> None:
    with pytest.raises(RunStoreError) as caught:
        decide(record, command, START)
    assert names in str(caught.value)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (COMPLETED.changed({"outcome": None}), "run 'run' has already completed"),
        (
            SUSPENDED.changed({"suspension": None}),
            "run 'run' is suspended, waiting for a resume, and no resume was requested",
        ),
    ],
)
def test_a_damaged_record_is_refused_as_what_is_left_of_it_says(
    record: RunRecord, says: str
) -> None:
    with pytest.raises(RunStoreError) as caught:
        decide(record, acquire(), START)
    assert caught.value.message == says


def test_a_pruned_run_is_not_found() -> None:
    record = pruned()
    error = pruned_error(record)
    assert (error.code, error.reason, error.record) == ("RUN_NOT_FOUND", "pruned", record)
    assert f"ended at {START.isoformat()} and was pruned at {after(9).isoformat()}" in str(error)


MOVES = {
    "queued": {"running", "cancelled", "failed"},
    "running": {"suspended", "completed", "failed", "cancelled", "queued"},
    "suspended": {"queued", "running", "cancelled", "failed"},
    "completed": set(),
    "failed": set(),
    "cancelled": set(),
}


def test_moves_between_statuses() -> None:
    for before, moves in MOVES.items():
        assert {to for to in MOVES if can_transition_run(before, to)} == moves
        assert is_terminal_run_status(before) == (not moves)
    for wrong in (("gone", "queued"), ("queued", "gone")):
        with pytest.raises(ValueError, match="gone"):
            can_transition_run(*wrong)
    with pytest.raises(ValueError, match="gone"):
        is_terminal_run_status("gone")
