"""Everything that is stored, against what the model says."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from runjournal import Journal
from runjournal.domain.delivery import DeliveryRecord, DeliveryStatus, delivery_invocation_id
from runjournal.domain.record import RunRecord

from .model import ENDED, Run, undecided

#: Of each stream the topics and hashes that were seen so far: none may ever change.
Streams = dict[str, list[tuple[str, str]]]


def assert_agreement(
    journal: Journal, runs: dict[str, Run], streams: Streams, now: datetime
) -> None:
    """Records, streams and the outbox are the model's; the chain verifies; nothing was lost."""
    for run_id, run in runs.items():
        record = journal.store.get(run_id, now).record
        if not run:
            assert record is None
            assert list(journal.events(run_id)) == []
            continue
        assert record is not None
        stored, said = said_of(record), said_by(run)
        differs = {key: (stored[key], said[key]) for key in said if stored[key] != said[key]}
        assert not differs, f"run {run_id}, stored and by the model: {differs}"
        _assert_history(journal, run_id, run, streams)
        assert record.version == len(run["history"])
        _assert_delivery(journal, run_id, run, streams)
    _assert_due(journal, runs, now)
    verification = journal.verify()
    assert verification.findings == []
    assert journal.attention() == []


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
    }


def said_by(run: Run) -> dict[str, Any]:
    said = {key: run[key] for key in ("status", "attempt", "token", "owner", "deadline")}
    said |= {key: run[key] for key in ("approvals", "failures", "outcome")}
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
