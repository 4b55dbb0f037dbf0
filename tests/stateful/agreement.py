"""Everything that is stored, against what the model says."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from runjournal import Journal, RunStoreError
from runjournal.domain.delivery import DeliveryRecord, DeliveryStatus, delivery_invocation_id
from runjournal.domain.record import RunRecord

from ..projecting.projectors import Seen
from .model import ENDED, Run, undecided
from .model_of_pruning import Passed

#: Of each stream the topics and hashes that were seen so far: none may ever change.
Streams = dict[str, list[tuple[str, str]]]


@dataclass
class State:
    """All that a journal holds, by the model.

    audit   the topics of `journal/audit`
    graves  the streams that were pruned, and how long they were
    epoch   the journal's token epoch
    passed  how far the projection has come with each run; None where it never ran
    rows    the projection's rows, as long as the run's stream was when it was seen
    """

    runs: dict[str, Run]
    epoch: int
    streams: Streams = field(default_factory=dict)
    audit: list[str] = field(default_factory=list)
    graves: list[tuple[str, int]] = field(default_factory=list)
    passed: Passed | None = None
    rows: dict[str, int] = field(default_factory=dict)


def assert_agreement(journal: Journal, state: State, now: datetime) -> None:
    """Records, streams and the outbox are the model's; the chain verifies; nothing was lost."""
    for run_id, run in state.runs.items():
        record = journal.store.get(run_id, now).record
        if not run:
            assert record is None
            assert list(journal.events(run_id)) == []
        elif run["pruned"]:
            assert record is None
            _assert_pruned(journal, run_id, run)
        else:
            assert record is not None
            _assert_said(record, run_id, run)
            _assert_history(journal, run_id, run, state.streams)
            assert record.version == len(run["history"])
            _assert_delivery(journal, run_id, run, state.streams)
    _assert_due(journal, state.runs, now)
    _assert_audit(journal, state)
    _assert_projected(journal, state)
    verification = journal.verify()
    assert verification.findings == []
    assert journal.attention() == []


def _assert_said(record: RunRecord, run_id: str, run: Run) -> None:
    token = run.pop("token_or", None)
    if token == record.fencing_token:
        run["token"] = token
    stored, said = said_of(record), said_by(run)
    differs = {key: (stored[key], said[key]) for key in said if stored[key] != said[key]}
    assert not differs, f"run {run_id}, stored and by the model: {differs}"


def _assert_pruned(journal: Journal, run_id: str, run: Run) -> None:
    """Nothing is left of it but its tombstone, which says what it was."""
    assert list(journal.events(run_id)) == []
    invocation_id = delivery_invocation_id(run_id, "inbox")
    assert journal.delivery(invocation_id) is None
    assert list(journal.delivery_events(invocation_id)) == []
    with pytest.raises(RunStoreError) as caught:
        journal.get(run_id)
    assert (caught.value.code, caught.value.reason) == ("RUN_NOT_FOUND", "pruned")
    left = caught.value.record
    assert left is not None
    assert left.pruned_at is not None
    assert left.version == len(run["history"])
    _assert_said(left, run_id, run)


def _assert_audit(journal: Journal, state: State) -> None:
    """What was done to the whole journal is on record, and of each stream that went a tombstone."""
    store: Any = journal.store
    assert store.read_epoch() == state.epoch
    events = store.read("journal/audit")
    assert [e.topic.removeprefix("audit.") for e in events] == state.audit
    found = sorted((t.stream, t.version) for t in store.tombstones((0, ""), 100))
    assert found == sorted(state.graves)


def _assert_projected(journal: Journal, state: State) -> None:
    if state.passed is not None:
        rows = dict(journal.projection(Seen()).rows())
        assert rows == {n: {"versions": list(range(1, v + 1))} for n, v in state.rows.items()}


def said_of(record: RunRecord) -> dict[str, Any]:
    """What a record says, in the model's words."""
    lease, suspension = record.lease, record.suspension
    return {
        "status": record.status.value,
        "attempt": record.attempt,
        "token": record.fencing_token,
        "owner": lease and lease.owner,
        "deadline": lease and lease.expires_at,
        "approvals": dict(record.approvals),
        "waits for": None if suspension is None else list(suspension.pending_approval_ids),
        "failures": record.failures,
        "outcome": record.outcome and record.outcome.code,
        "parent": record.parent_run_id,
        "stamp": record.updated_at,
    }


def said_by(run: Run) -> dict[str, Any]:
    said = {key: run[key] for key in ("status", "attempt", "token", "owner", "deadline")}
    said |= {key: run[key] for key in ("approvals", "failures", "outcome", "parent", "stamp")}
    return said | {"waits for": undecided(run) if run["status"] == "suspended" else None}


def _assert_history(journal: Journal, run_id: str, run: Run, streams: Streams) -> None:
    events: list[Any] = list(journal.events(run_id))
    topics = [e.topic.removeprefix("run.") for e in events]
    assert topics == run["history"], f"run {run_id}: {topics}, and by the model {run['history']}"
    assert [e.originator_version for e in events] == list(range(1, len(events) + 1))
    tokens = [e.fencing_token for e in events if e.topic == "run.lease_granted"]
    assert tokens == sorted(set(tokens))
    ends = [n for n, topic in enumerate(run["history"]) if topic in ENDED]
    assert ends in ([], [len(events) - 1])
    states = [e.state for e in events if e.topic == "run.checkpoint_saved"]
    assert (states[-1] if states else None) == run["checkpoint"]
    _assert_kept(streams, run_id, events)


def _assert_delivery(journal: Journal, run_id: str, run: Run, streams: Streams) -> None:
    """A row exactly when a run with a delivery_ref has ended."""
    invocation_id = delivery_invocation_id(run_id, "inbox")
    row, wanted = journal.delivery(invocation_id), run["delivery"]
    assert (row is not None) is (run["arguments"][0] is not None and run["status"] in ENDED)
    assert (row is not None) is (wanted is not None)
    if row is None:
        return
    events = list(journal.delivery_events(invocation_id))
    assert [e.topic.removeprefix("delivery.") for e in events] == wanted["history"]
    assert row.version == len(events)
    assert _said_of_delivery(row) == {k: v for k, v in wanted.items() if k != "history"}
    _assert_kept(streams, invocation_id, events)


def _said_of_delivery(row: DeliveryRecord) -> dict[str, Any]:
    return {
        "status": row.status.value,
        "attempts": row.attempts,
        "sender": row.sending and row.sending.owner,
        "due_at": row.next_attempt_at,
        "stamp": row.updated_at,
    }


def _assert_kept(streams: Streams, name: str, events: list[Any]) -> None:
    """Nothing that was ever there is lost or changed."""
    seen, there = streams.get(name, []), [(e.topic, e.hash) for e in events]
    assert there[: len(seen)] == seen
    streams[name] = there


def _assert_due(journal: Journal, runs: dict[str, Run], now: datetime) -> None:
    """What is due to be sent is what the model says, the longest due first."""
    for status in (DeliveryStatus.PENDING, DeliveryStatus.UNKNOWN):
        due = sorted(
            (run["delivery"]["due_at"], delivery_invocation_id(run_id, "inbox"))
            for run_id, run in runs.items()
            if run and run["delivery"] and run["delivery"]["status"] == status.value
            if run["delivery"]["due_at"] is not None and run["delivery"]["due_at"] <= now
        )
        found = journal.store.due_deliveries(status, 10, None, now)
        assert [d.invocation_id for d in found] == [invocation_id for _, invocation_id in due]
