"""Random histories of one run, each made by the rules themselves."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from runjournal import Event, RunRecord, RunStoreError
from runjournal.adapters.contract.scribe import START, contract_codec
from runjournal.domain import (
    Acquire,
    Command,
    Complete,
    Fail,
    GiveUp,
    RecordDecision,
    Release,
    RequestResume,
    SaveCheckpoint,
    Start,
    Suspend,
    decide,
    evolve,
)
from runjournal.domain.commands import Cancel

TTL = 10.0
CODEC = contract_codec()
NOTHING = CODEC.encode(None, "state")

#: What is tried next, by whom, and how many seconds after the step before.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["acquire"] * 4
            + ["checkpoint"] * 4
            + ["release", "suspend", "decide", "resume", "restore"]
            + ["complete", "fail", "give up", "cancel", "late checkpoint"]
        ),
        st.sampled_from("abc"),
        st.sampled_from([0.0, 0.5, 4.0, 9.999, 10.0, 11.0, 1000.0]),
    ),
    max_size=40,
)


def history(steps: list[tuple[str, str, float]]) -> tuple[list[Event], RunRecord, datetime]:
    """The events of what the rules allowed of these steps, the record, and the time after them."""
    now = START
    start = Start(run_id="r", command_id="start", input=NOTHING, actor="alice")
    events: list[Event] = []
    record: RunRecord | None = None

    def append(command: Command) -> None:
        nonlocal record
        try:
            decided = decide(record, command, now)
        except RunStoreError:
            return
        for event in decided:
            sealed = CODEC.seal(event, record.head if record else "0" * 64)
            opened = CODEC.open(sealed[:4])  # type: ignore[arg-type]
            events.append(opened)
            record = evolve(record, opened, opened.hash)

    append(start)
    for number, (what, who, seconds) in enumerate(steps):
        now += timedelta(seconds=seconds)
        assert record is not None
        append(_command(what, who, f"c{number}", record))
    assert record is not None
    return events, record, now


def _command(what: str, who: str, command_id: str, record: RunRecord) -> Command:
    at: dict[str, Any] = {"run_id": "r", "command_id": command_id}
    token = {**at, "fencing_token": record.fencing_token}
    state: dict[str, Any] = {"key": "k", "snapshot_version": 1, "state": NOTHING}
    return {
        "acquire": lambda: Acquire(**at, owner=who, ttl=TTL),
        "restore": lambda: Acquire(**at, owner=who, ttl=TTL, resume=True),
        "checkpoint": lambda: SaveCheckpoint(**token, **state),
        "late checkpoint": lambda: SaveCheckpoint(
            **{**token, "fencing_token": record.fencing_token - 1}, **state
        ),
        "release": lambda: Release(**token, error="boom" if who == "a" else None),
        "suspend": lambda: Suspend(
            **token, pending_approval_ids=("a", "b"), resume_when_decided=who == "a"
        ),
        "decide": lambda: RecordDecision(**at, approval_id=who, decision="yes", actor=who),
        "resume": lambda: RequestResume(**at, actor=who),
        "complete": lambda: Complete(**token, code="ok", result=NOTHING),
        "fail": lambda: Fail(**token, code="bad"),
        "give up": lambda: GiveUp(**at, code="gone", actor=who),
        "cancel": lambda: Cancel(**at, actor=who),
    }[what]()
