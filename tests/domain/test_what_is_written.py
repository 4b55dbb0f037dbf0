"""What each command writes and what the record is afterwards, field by field: no value is left out.

Every event is given in full. A field that is forgotten, or that comes from the wrong place, shows.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from runjournal.adapters.contract.scribe import START, after
from runjournal.domain import commands as c
from runjournal.domain.decide import decide
from runjournal.domain.delivering import Attempt, decide_delivery
from runjournal.domain.delivery import evolve_delivery, request_delivery
from runjournal.domain.events import CheckpointSaved, Event, Payload, RunEvent
from runjournal.domain.record import RunRecord
from runjournal.domain.run import COMMANDS_KEPT, advance, evolve, fold

INPUT, STATE, RESULT = Payload(b'{"a":1}', "in"), Payload(b"[1,2]", "state"), Payload(b"3", "out")
HOLDER = {"actor": "job", "command_id": "c"}


def start(run_id: str = "run", command_id: str = "s", **fields: Any) -> c.Start:
    return c.Start(run_id=run_id, command_id=command_id, input=INPUT, **fields)


def acquire(owner: str = "w1", **fields: Any) -> c.Acquire:
    fields = {"actor": "boss", "command_id": "a", "ttl": 60.0} | fields
    return c.Acquire(run_id="run", owner=owner, **fields)


def written(events: tuple[RunEvent, ...]) -> list[dict[str, Any]]:
    """The events as they are, without the fields that are the same for all here."""
    found = []
    for event in events:
        fields: dict[str, Any] = {"topic": event.topic} | dict(event)
        assert fields.pop("originator_id") == "run/run"
        assert (fields.pop("prev_hash"), fields.pop("hash")) == ("", "")
        assert fields.pop("correlation_id") is None
        for name in ("outcome", "took_over"):
            if fields.get(name) is not None:
                fields[name] = dict(fields[name])
        found.append(fields)
    return found


def event(topic: str, version: int, at: float, command_id: str, **fields: Any) -> dict[str, Any]:
    common = {"actor": None, "command_digest": None, "causation_id": None}
    place = {"topic": f"run.{topic}", "originator_version": version, "timestamp": after(at)}
    return common | place | {"command_id": command_id} | fields


def life(*steps: tuple[c.Command, float]) -> RunRecord:
    """The record after these commands, each at its second."""
    record: RunRecord | None = None
    for command, seconds in steps:
        for one in decide(record, command, after(seconds)):
            record = evolve(record, one, f"h{one.originator_version}")
    assert record is not None
    return record


def queued(**fields: Any) -> RunRecord:
    return life((start(**fields), 0))


def running(**fields: Any) -> RunRecord:
    """Held by w1 under token 1 until the second 60."""
    return life((start(**fields), 0), (acquire(), 0))


def suspend(*approvals: str, token: int = 1, resume: bool = False) -> c.Suspend:
    return c.Suspend(
        run_id="run",
        fencing_token=token,
        pending_approval_ids=approvals,
        resume_when_decided=resume,
        **HOLDER,
    )


def suspended(*approvals: str, resume: bool = False) -> RunRecord:
    return life((start(), 0), (acquire(), 0), (suspend(*approvals, resume=resume), 1))


def saving(state: Payload = STATE, command_id: str = "c", token: int = 1) -> c.SaveCheckpoint:
    return c.SaveCheckpoint(
        run_id="run",
        actor="job",
        command_id=command_id,
        fencing_token=token,
        key="k",
        snapshot_version=7,
        state=state,
    )


FULL = {
    "actor": "boss",
    "kind": "etl",
    "delivery_ref": "inbox",
    "authority_ref": "auth",
    "labels": {"team": "x"},
    "parent_run_id": "parent",
    "available_at": after(9),
}


def test_start() -> None:
    command = start(**FULL)
    expected = event("queued", 1, 2, "s", **FULL, input=INPUT)
    expected |= {"command_digest": command.digest(), "start_digest": command.digest()}
    assert written(decide(None, command, after(2))) == [expected]


def test_grant_of_a_new_run() -> None:
    command = acquire(start=start(actor="boss"))
    first, grant = written(decide(None, command, after(2)))
    assert (first["topic"], first["command_id"], first["timestamp"]) == (
        "run.queued",
        "s",
        after(2),
    )
    assert grant == event(
        "lease_granted", 2, 2, "a", actor="boss", owner="w1", fencing_token=1, attempt=1, ttl=60.0,
        took_over=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "at", "attempt", "stamp"),
    [("w2", 60, 2, 60), ("w1", 60, 2, 60), ("w1", 59.999999, 1, 59.999999), ("w1", -5, 1, 0)],
)
def test_grant_of_a_held_run(owner: str, at: float, attempt: int, stamp: float) -> None:
    grant = event("lease_granted", 3, stamp, "a", actor="boss", owner=owner, fencing_token=2)
    grant |= {"attempt": attempt, "ttl": 60.0, "took_over": {"owner": "w1", "fencing_token": 1}}
    assert written(decide(running(), acquire(owner), after(at))) == [grant]


def test_grant_of_a_suspended_run_resumes_it() -> None:
    resume, grant = written(decide(suspended(), acquire("w2", resume=True), after(5)))
    assert resume == event("resume_requested", 4, 5, "a", actor="boss")
    assert grant == event(
        "lease_granted", 5, 5, "a", actor="boss", owner="w2", fencing_token=2, attempt=1, ttl=60.0,
        took_over=None,
    )  # fmt: skip


@pytest.mark.parametrize(("at", "stamp"), [(5, 5), (-5, 0)])
def test_checkpoint(at: float, stamp: float) -> None:
    expected = event("checkpoint_saved", 3, stamp, "c", actor="job", key="k", snapshot_version=7)
    expected |= {"state": STATE, "digest": "state", "size": 5}
    (saved,) = decide(running(), saving(), after(at))
    assert written((saved,)) == [expected]
    assert saved == CheckpointSaved(**dict(saved)), "what is made unvalidated is valid"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            suspend("y", "n", resume=True),
            {"topic": "run.suspended", "pending_approval_ids": ("y", "n")}
            | {"resume_when_decided": True},
        ),
        (
            c.Release(
                run_id="run",
                fencing_token=1,
                reason="r",
                error="e",
                available_at=after(7),
                **HOLDER,
            ),
            {"topic": "run.lease_released", "reason": "r", "error": "e", "available_at": after(7)},
        ),
        (
            c.Complete(
                run_id="run", fencing_token=1, code="done", message="m", result=RESULT, **HOLDER
            ),
            {"topic": "run.completed", "outcome": {"code": "done", "message": "m"}}
            | {"result": RESULT, "digest": "out"},
        ),
        (
            c.Fail(run_id="run", fencing_token=1, code="bad", message="m", **HOLDER),
            {"topic": "run.failed", "outcome": {"code": "bad", "message": "m"}}
            | {"fencing_token": 1},
        ),
    ],
)
@pytest.mark.parametrize(("at", "stamp"), [(5, 5), (-5, 0)])
def test_holders_commands(command: Any, expected: dict[str, Any], at: float, stamp: float) -> None:
    common = event("", 3, stamp, "c", actor="job")
    assert written(decide(running(), command, after(at))) == [common | expected]


BY_OPERATOR = {"run_id": "run", "command_id": "o", "actor": "boss"}


@pytest.mark.parametrize("token", [None, 1])
def test_cancel(token: int | None) -> None:
    command = c.Cancel(message="m", fencing_token=token, **BY_OPERATOR)
    expected = event("cancelled", 3, 5, "o", actor="boss", command_digest=command.digest())
    expected |= {"outcome": {"code": "cancelled", "message": "m"}, "fencing_token": 2}
    assert written(decide(running(), command, after(5))) == [expected]


@pytest.mark.parametrize(
    ("record", "at", "token"), [(queued(), 5, 0), (suspended(), 5, 1), (running(), 60, 2)]
)
def test_give_up(record: RunRecord, at: float, token: int) -> None:
    command = c.GiveUp(code="lost", message="m", **BY_OPERATOR)
    expected = event("failed", record.version + 1, at, "o", actor="boss", fencing_token=token)
    expected |= {
        "command_digest": command.digest(),
        "outcome": {"code": "lost", "message": "m"},
    }
    assert written(decide(record, command, after(at))) == [expected]


def test_resume() -> None:
    command = c.RequestResume(**BY_OPERATOR)
    expected = event("resume_requested", 4, 5, "o", actor="boss", command_digest=command.digest())
    assert written(decide(suspended(), command, after(5))) == [expected]


@pytest.mark.parametrize(
    ("record", "resumes"),
    [
        (suspended("x", resume=True), True),
        (suspended("x"), False),
        (suspended("x", "y", resume=True), False),
    ],
)
def test_decision(record: RunRecord, resumes: bool) -> None:
    command = c.RecordDecision(approval_id="x", decision="yes", **BY_OPERATOR)
    decision, *resume = written(decide(record, command, after(5)))
    expected = event("approval_decided", 4, 5, "o", actor="boss", command_digest=command.digest())
    assert decision == expected | {"approval_id": "x", "decision": "yes"}
    queued_by_it = event("resume_requested", 5, 5, "o", actor="boss", causation_id="o")
    assert resume == ([queued_by_it] if resumes else [])


def changed(record: RunRecord, *commands: tuple[c.Command, float]) -> dict[str, Any]:
    """The fields of the record that these commands change."""
    before = dict(record)
    after_it: RunRecord | None = record
    for command, seconds in commands:
        for one in decide(after_it, command, after(seconds)):
            after_it = evolve(after_it, one, f"h{one.originator_version}")
    assert after_it is not None
    fields = {k: v for k, v in dict(after_it).items() if v != before[k]}
    for name in ("lease", "checkpoint_ref", "suspension", "outcome"):
        if fields.get(name) is not None:
            fields[name] = dict(fields[name])
    if "commands" in fields:
        fields["commands"] = [tuple(dict(a).values()) for a in fields["commands"]]
    return fields


def test_first_record() -> None:
    command = start(**FULL)
    record = dict(queued(**FULL))
    assert [dict(a) for a in record.pop("commands")] == [
        {"command_id": "s", "version": 1, "digest": command.digest()}
    ]
    given = {k: v for k, v in FULL.items() if k != "actor"}
    assert record == given | {
        "schema_": 1,
        "run_id": "run",
        "version": 1,
        "status": "queued",
        "attempt": 1,
        "fencing_token": 0,
        "lease": None,
        "checkpoint_ref": None,
        "outcome": None,
        "suspension": None,
        "created_at": START,
        "updated_at": START,
        "failures": 0,
        "last_error": None,
        "approvals": {},
        "ended_at": None,
        "start_digest": command.digest(),
        "head": "h1",
        "pruned_at": None,
    }


def test_granted_record() -> None:
    lease = {"owner": "w1", "acquired_at": after(5), "expires_at": after(65), "ttl": 60.0}
    moved = {"version": 2, "head": "h2", "updated_at": after(5)}
    expected = moved | {"status": "running", "fencing_token": 1, "lease": lease}
    assert changed(queued(), (acquire(), 5)) == expected
    assert changed(queued(available_at=after(9)), (acquire(), 5)) == expected | {
        "available_at": None
    }
    taken_over = changed(running(), (acquire("w2"), 60))
    assert (taken_over["attempt"], taken_over["fencing_token"]) == (2, 2)


def test_saved_record() -> None:
    assert changed(running(), (saving(), 5)) == {
        "version": 3,
        "head": "h3",
        "updated_at": after(5),
        "checkpoint_ref": {
            "key": "k",
            "snapshot_version": 7,
            "saved_at": after(5),
            "version": 3,
            "digest": "state",
            "size": 5,
            "command_id": "c",
        },
    }


def test_suspended_decided_and_resumed_record() -> None:
    moved = {"version": 3, "head": "h3", "updated_at": after(5), "status": "suspended"}
    waiting = {"suspended_at": after(5), "resume_when_decided": True}
    assert changed(running(), (suspend("x", "y", resume=True), 5)) == moved | {
        "lease": None,
        "approvals": {"x": None, "y": None},
        "suspension": waiting | {"pending_approval_ids": ("x", "y")},
    }
    decision = c.RecordDecision(approval_id="x", decision="yes", **BY_OPERATOR)
    resume = c.RequestResume(run_id="run", command_id="p")
    record = life((start(), 0), (acquire(), 0), (suspend("x", "y", resume=True), 5))
    known = ("s", 1, start().digest())
    assert changed(record, (decision, 6)) == {
        "version": 4,
        "head": "h4",
        "updated_at": after(6),
        "approvals": {"x": "yes", "y": None},
        "suspension": waiting | {"pending_approval_ids": ("y",)},
        "commands": [known, ("o", 4, decision.digest())],
    }
    assert changed(record, (decision, 6), (resume, 7)) == {
        "version": 5,
        "head": "h5",
        "updated_at": after(7),
        "status": "queued",
        "suspension": None,
        "approvals": {"x": "yes", "y": None},
        "commands": [known, ("o", 4, decision.digest()), ("p", 5, resume.digest())],
    }


def test_released_record() -> None:
    def let_go(error: str | None) -> c.Release:
        return c.Release(
            run_id="run", fencing_token=1, error=error, available_at=after(9), **HOLDER
        )

    moved = {"version": 3, "head": "h3", "updated_at": after(5), "status": "queued", "lease": None}
    assert changed(running(), (let_go(None), 5)) == moved | {"available_at": after(9)}
    assert changed(running(), (let_go("e"), 5)) == moved | {
        "available_at": after(9),
        "failures": 1,
        "last_error": "e",
    }
    twice = changed(
        life((start(), 0), (acquire(), 0), (let_go("e"), 5), (acquire(), 6)),
        (c.Release(run_id="run", fencing_token=2, error="f", **HOLDER), 7),
    )
    assert (twice["failures"], twice["last_error"]) == (2, "f")


def test_ended_records() -> None:
    moved = {"version": 3, "head": "h3", "updated_at": after(5), "ended_at": after(5)}
    complete = c.Complete(run_id="run", fencing_token=1, code="ok", result=RESULT, **HOLDER)
    assert changed(running(), (complete, 5)) == moved | {
        "status": "completed",
        "lease": None,
        "outcome": {"code": "ok", "message": None},
    }
    fail = c.Fail(run_id="run", fencing_token=1, code="bad", **HOLDER)
    assert changed(running(), (fail, 5)) == moved | {
        "status": "failed",
        "lease": None,
        "outcome": {"code": "bad", "message": None},
    }
    cancel = c.Cancel(**BY_OPERATOR)
    known = [("s", 1, start().digest()), ("o", 3, cancel.digest())]
    assert changed(running(), (cancel, 5)) == moved | {
        "status": "cancelled",
        "lease": None,
        "fencing_token": 2,
        "commands": known,
        "outcome": {"code": "cancelled", "message": None},
    }
    give_up = c.GiveUp(code="lost", **BY_OPERATOR)
    gone = changed(running(), (give_up, 60))
    assert (gone["status"], gone["fencing_token"], gone["lease"]) == ("failed", 2, None)
    waiting = life((start(), 0), (acquire(), 0), (suspend("x"), 1), (cancel, 5))
    assert (waiting.suspension, waiting.approvals) == (None, {"x": None})
    assert life((start(available_at=after(9)), 0), (cancel, 5)).available_at is None


def test_the_last_operator_commands_are_known() -> None:
    """So many, and no more; each with the version it wrote."""
    record = suspended(*(f"x{n}" for n in range(COMMANDS_KEPT + 1)))
    for n in range(COMMANDS_KEPT + 1):
        command = c.RecordDecision(
            run_id="run", command_id=f"d{n}", approval_id=f"x{n}", decision="yes"
        )
        for one in decide(record, command, after(5)):
            record = evolve(record, one, "h")
    known = [(a.command_id, a.version) for a in record.commands]
    assert known == [(f"d{n}", n + 4) for n in range(1, COMMANDS_KEPT + 1)]
    assert COMMANDS_KEPT == 32
    # The oldest is forgotten: a repetition is judged by what the run is now, and converges.
    assert record.applied("d0") is None
    assert record.applied("d1") is not None


def test_fold_leaves_the_record_that_it_is_given() -> None:
    record = running()
    before = dict(record)
    (saved,) = decide(record, saving(), after(5))
    folded = fold(record, [saved])
    assert folded is not None
    assert folded is not record
    assert (folded.version, record.version) == (3, 2)
    assert dict(record) == before
    assert fold(record, []) == record
    assert fold(None, []) is None
    # A fold that owns its record changes it in place, to what evolve makes.
    own = record.changed({})
    assert advance(own, saved, "h3") is own
    assert own == evolve(record, saved, "h3")
    assert advance(None, decide(None, start(), START)[0], "h1") == queued()


def test_fold_takes_the_hash_that_an_event_was_read_with() -> None:
    (first,) = decide(None, start(), START)
    read = first.model_copy(update={"hash": "as-read"})
    folded = fold(None, [read])
    assert folded is not None
    assert folded.head == "as-read"


def test_a_stream_that_begins_with_something_else_stays_readable() -> None:
    saved: Event = decide(running(), saving(), after(5))[0]
    record = evolve(None, saved, "h")
    assert (record.run_id, record.version, record.status) == ("run", 3, "queued")
    assert (record.created_at, record.updated_at) == (after(5), after(5))
    assert (record.start_digest, record.commands, record.head) == ("", (), "h")
    again = evolve(running(), decide(None, start(kind="other"), START)[0], "h")
    assert (again.kind, again.version, again.status) == ("default", 1, "running")


def test_what_is_made_unvalidated_knows_its_fields() -> None:
    """So that it can be copied and dumped like any model, also without what is as by default."""
    record = life((start(delivery_ref="inbox"), 0), (acquire(), 0), (saving(), 0))
    later = record.with_deadline(after(99))
    assert later.lease is not None
    assert record.checkpoint_ref is not None
    (saved,) = decide(record, saving(command_id="d"), START)
    (completed,) = decide(
        record, c.Complete(run_id="run", fencing_token=1, code="ok", result=RESULT, **HOLDER), START
    )
    ended = evolve(record, completed, "h")
    request = request_delivery(ended, completed)
    assert request is not None
    delivery = evolve_delivery(None, request, "h")
    (attempted,) = decide_delivery(delivery, Attempt(command_id="c", owner="s", ttl=1.0), START)
    sending = evolve_delivery(delivery, attempted, "h")
    assert sending.sending is not None
    parts: list[BaseModel] = [later.lease, record.checkpoint_ref, record.commands[0], saved]
    for model in [record, later, ended, queued(), delivery, sending, sending.sending, *parts]:
        given = model.model_dump(exclude_unset=True)
        assert given
        assert given.keys() == model.model_fields_set
        defaults = {k for k, f in type(model).model_fields.items() if not f.is_required()}
        assert model.model_fields_set >= type(model).model_fields.keys() - defaults
