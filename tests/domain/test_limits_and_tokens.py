"""What the deployment's limits and the token epoch make of a decision, at each boundary."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from runjournal import DeploymentLimits, RunStoreError
from runjournal.adapters.contract.scribe import START, after
from runjournal.domain import commands as c
from runjournal.domain.decide import decide
from runjournal.domain.events import LeaseGranted, Payload, RunFailed
from runjournal.domain.limiting import raise_ended
from runjournal.domain.limits import label_bytes
from runjournal.domain.record import RunRecord
from runjournal.domain.run import evolve
from runjournal.domain.tokens import EPOCH_SIZE, is_next, is_of

STATE = Payload(b"12345", "d")
EXCEEDED = "RUN_LIMIT_EXCEEDED"


def start(**fields: Any) -> c.Start:
    return c.Start(run_id="run", command_id="s", input=STATE, **fields)


def acquire(resume: bool = False, actor: str | None = None) -> c.Acquire:
    return c.Acquire(run_id="run", command_id="a", owner="w2", ttl=60.0, resume=resume, actor=actor)


def saving(token: int = 1) -> c.SaveCheckpoint:
    return c.SaveCheckpoint(
        run_id="run", command_id="c", fencing_token=token, key="k", snapshot_version=1, state=STATE
    )


def suspending(*approvals: str) -> c.Suspend:
    return c.Suspend(run_id="run", command_id="u", fencing_token=1, pending_approval_ids=approvals)


def of_holder(make: Any, **fields: Any) -> Any:
    return make(run_id="run", command_id="h", fencing_token=1, **fields)


def life(*steps: tuple[c.Command, float]) -> RunRecord:
    record: RunRecord | None = None
    for command, seconds in steps:
        for event in decide(record, command, after(seconds)):
            record = evolve(record, event, "h")
    assert record is not None
    return record


RUNNING = life((start(labels={"é": "x"}), 0), (acquire(), 0))
SAVED = life((start(), 0), (acquire(), 0), (saving(), 0))
WAITING = life((start(), 0), (acquire(), 0), (suspending("x", "y"), 0))
TAKEN = life((start(), 0), (acquire(), 0), (acquire(), 60))  # attempt 2, until 120


def refusal(record: RunRecord, command: c.Command, at: float, **limits: Any) -> RunStoreError:
    with pytest.raises(RunStoreError) as caught:
        decide(record, command, after(at), DeploymentLimits(**limits))
    assert caught.value.code == EXCEEDED
    assert caught.value.record is record
    assert "run 'run': " in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("record", "at", "limit", "actual"),
    [
        (SAVED, 60, "checkpoint_bytes", 5),
        (RUNNING, 60, "labels", 1),
        (RUNNING, 60, "label_bytes", 3),
        (WAITING, 0, "approvals", 2),
    ],
)
def test_a_run_beyond_a_limit_is_not_taken(
    record: RunRecord, at: float, limit: str, actual: int
) -> None:
    assert decide(record, acquire(True), after(at), DeploymentLimits(**{limit: actual}))
    error = refusal(record, acquire(True), at, **{limit: actual - 1})
    assert error.reason == limit
    assert f"would be {actual}; the limit is {actual - 1}" in str(error)


def test_attempts_are_counted_with_the_first_one() -> None:
    assert decide(TAKEN, acquire(), after(120), DeploymentLimits(attempts=3))
    (ending,) = decide(TAKEN, acquire(actor="boss"), after(120), DeploymentLimits(attempts=2))
    assert isinstance(ending, RunFailed)
    assert (ending.outcome.code, ending.fencing_token) == ("attempts_exhausted", 3)
    assert (ending.actor, ending.command_id, ending.originator_version) == ("boss", "a", 4)
    assert ending.timestamp == after(120)
    assert ending.outcome.message == "run 'run': attempts would be 3; the limit is 2"
    (ending,) = decide(TAKEN, acquire(), after(120), DeploymentLimits(attempts=2))
    assert ending.actor == "w2", "who found it so"
    # What another host allowed is not ended here: it is refused, and stays as it is.
    assert refusal(TAKEN, acquire(), 120, attempts=1).reason == "attempts"
    # A lease that was given back is no lost worker.
    released = life((start(), 0), (acquire(), 0), (of_holder(c.Release), 1))
    (grant,) = decide(released, acquire(), after(5), DeploymentLimits(attempts=1))
    assert isinstance(grant, LeaseGranted)


def test_age_ends_a_run_that_is_taken_and_refuses_its_checkpoints() -> None:
    limits = {"run_seconds": 60.0}
    allowed = DeploymentLimits(**limits)
    assert isinstance(decide(RUNNING, acquire(), after(60), allowed)[-1], LeaseGranted)
    (ending,) = decide(RUNNING, acquire(), after(60.5), allowed)
    assert isinstance(ending, RunFailed)
    assert (ending.outcome.code, ending.fencing_token) == ("duration_exhausted", 2)
    assert ending.outcome.message == "run 'run': run seconds would be 60.5; the limit is 60"
    # A clock that was put back makes no run younger.
    late = life((start(), 0), (acquire(), 100))
    assert isinstance(decide(late, acquire(), after(50), allowed)[-1], RunFailed)
    held = life((start(), 0), (acquire(), 30))
    assert decide(held, saving(), after(60), allowed)
    error = refusal(held, saving(), 60.5, **limits)
    assert error.reason == "run_seconds"
    assert "would be 60.5; the limit is 60" in str(error)
    assert decide(held, suspending(), after(60.5), allowed), "only checkpoints are refused"


def test_events_of_a_run() -> None:
    assert decide(RUNNING, saving(), after(0), DeploymentLimits(events_per_run=3))
    error = refusal(RUNNING, saving(), 0, events_per_run=2)
    assert error.reason == "events_per_run"
    assert "would be 3; the limit is 2" in str(error)
    assert refusal(WAITING, acquire(True), 0, events_per_run=4).reason == "events_per_run"
    assert decide(WAITING, acquire(True), after(0), DeploymentLimits(events_per_run=5))
    for command in (
        of_holder(c.Complete, code="ok", result=STATE),
        of_holder(c.Fail, code="bad"),
        of_holder(c.Release),
        c.Cancel(run_id="run", command_id="o"),
    ):
        assert decide(RUNNING, command, after(0), DeploymentLimits(events_per_run=2))
    give_up = c.GiveUp(run_id="run", command_id="o", code="lost")
    assert decide(RUNNING, give_up, after(60), DeploymentLimits(events_per_run=2))
    # Whoever creates a run is not limited by it; and what is already so is written nowhere.
    assert decide(None, start(), START, DeploymentLimits(events_per_run=2))
    assert decide(SAVED, saving(), after(0), DeploymentLimits(events_per_run=2)) == ()


@pytest.mark.parametrize(
    ("outcome", "code", "reason", "numbers"),
    [
        ("attempts_exhausted", EXCEEDED, "attempts", "would be 2; the limit is 1"),
        ("duration_exhausted", EXCEEDED, "run_seconds", "would be 60.5; the limit is 9"),
        ("other", "RUN_ALREADY_TERMINAL", "failed", "has already failed with 'other'"),
    ],
)
def test_why_a_run_ended_instead(outcome: str, code: str, reason: str, numbers: str) -> None:
    ended = life((start(), 0), (acquire(), 0), (of_holder(c.Fail, code=outcome), 0))
    ended = ended.changed({"ended_at": after(60.5)})
    with pytest.raises(RunStoreError) as caught:
        raise_ended(ended, DeploymentLimits(attempts=1, run_seconds=9))
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.record is ended
    assert numbers in str(caught.value)
    assert "run 'run'" in str(caught.value)


def test_an_ended_run_without_an_outcome_is_refused_like_any_other() -> None:
    ended = life((start(), 0), (acquire(), 0), (of_holder(c.Fail, code="bad"), 0))
    with pytest.raises(RunStoreError) as caught:
        raise_ended(ended.changed({"outcome": None}), DeploymentLimits())
    assert (caught.value.code, caught.value.reason) == ("RUN_ALREADY_TERMINAL", "failed")
    assert "run 'run' has already failed" in str(caught.value)
    assert "with" not in str(caught.value)


def test_ttl_within_its_range() -> None:
    limits = DeploymentLimits(min_ttl=2, max_ttl=5)
    limits.check_ttl(2)
    limits.check_ttl(5)
    for ttl in (1.999999, 5.000001):
        with pytest.raises(RunStoreError) as caught:
            limits.check_ttl(ttl)
        assert (caught.value.code, caught.value.reason) == (EXCEEDED, "lease_ttl")
        assert f"would be {ttl} s; the limits are 2 to 5 s" in str(caught.value)
    DeploymentLimits(min_ttl=5, max_ttl=5)
    with pytest.raises(ValueError, match="above max_ttl"):
        DeploymentLimits(min_ttl=5.1, max_ttl=5)


def test_labels_are_measured_in_utf8() -> None:
    assert label_bytes({"é": "xy", "a": "ü"}) == 2 + 2 + 1 + 2
    assert label_bytes({}) == 0


def test_numbers_in_a_refusal() -> None:
    error = DeploymentLimits(input_bytes=1_000_000).exceeded("input_bytes", 1_234_567, "run")
    assert "run 'run': input bytes would be 1,234,567; the limit is 1,000,000" in str(error)
    assert error.record is None
    whole = str(DeploymentLimits(run_seconds=20).exceeded("run_seconds", 1200.0, "run"))
    assert whole.endswith("would be 1,200; the limit is 20")
    shown = str(DeploymentLimits(run_seconds=0.5).exceeded("run_seconds", 1234.25, "run"))
    assert "would be 1,234.25; the limit is 0.5" in shown


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_new_token_is_of_the_present_epoch(epoch: int) -> None:
    def first(n: int) -> int:
        return epoch * EPOCH_SIZE + 1 if epoch else n

    def token(record: RunRecord | None, command: c.Command, at: float = 0) -> int:
        event = decide(record, command, after(at), DeploymentLimits(), epoch)[-1]
        return int(event.fencing_token)  # type: ignore[attr-defined]

    new = c.Acquire(run_id="run", command_id="a", owner="w", ttl=1.0, start=start())
    assert token(None, new) == first(1)
    assert token(RUNNING, acquire(), 60) == first(2)
    assert token(RUNNING, c.Cancel(run_id="run", command_id="o")) == first(2)
    # The token that the holder has already stays what it is.
    assert token(RUNNING, of_holder(c.Fail, code="bad")) == 1
    (saved,) = decide(RUNNING, saving(), START, DeploymentLimits(), epoch)
    assert saved == decide(RUNNING, saving(), START)[0]


def test_a_token_of_a_later_epoch_than_the_journals_only_grows() -> None:
    far = RUNNING.changed({"fencing_token": 5 * EPOCH_SIZE + 7})
    (grant,) = decide(far, acquire(), after(60), DeploymentLimits(), 5)
    assert isinstance(grant, LeaseGranted)
    assert grant.fencing_token == 5 * EPOCH_SIZE + 8
    (grant,) = decide(far, acquire(), after(60), DeploymentLimits(), 4)
    assert isinstance(grant, LeaseGranted)
    assert grant.fencing_token == 5 * EPOCH_SIZE + 8
    least = RUNNING.changed({"fencing_token": EPOCH_SIZE})
    (grant,) = decide(least, acquire(), after(60), DeploymentLimits(), 1)
    assert isinstance(grant, LeaseGranted)
    assert grant.fencing_token == EPOCH_SIZE + 1


def test_the_token_after_another() -> None:
    assert EPOCH_SIZE == 2**32
    assert is_next(8, 7)
    assert not is_next(7, 7)
    assert not is_next(9, 7)
    assert is_next(EPOCH_SIZE + 1, 7), "the first one of a later epoch"
    assert is_next(3 * EPOCH_SIZE + 1, EPOCH_SIZE + 7)
    assert not is_next(EPOCH_SIZE + 2, 7)
    assert not is_next(EPOCH_SIZE + 1, EPOCH_SIZE + 1)
    assert not is_next(1, EPOCH_SIZE + 7)
    assert is_of(EPOCH_SIZE + 1, 1)
    assert not is_of(EPOCH_SIZE, 1)
    assert is_of(1, 0)
    assert not is_of(0, 0)


def test_a_deadline_laid_over_the_record() -> None:
    later = RUNNING.with_deadline(after(99))
    assert later.lease is not None
    assert RUNNING.lease is not None
    assert dict(later.lease) == dict(RUNNING.lease) | {"expires_at": START + timedelta(seconds=99)}
    assert RUNNING.with_deadline(after(60)) is RUNNING
    assert WAITING.with_deadline(after(99)) is WAITING
