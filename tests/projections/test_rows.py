"""A record that went through its row is the record that its events fold to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from runjournal import Journal
from runjournal.domain import RunRecord
from runjournal.projections.run_records import BODY, COLUMNS, body, from_row

START = datetime(2026, 1, 1, tzinfo=UTC)


def test_every_field_is_a_column_or_in_the_body() -> None:
    assert COLUMNS | BODY.keys() | {"schema_", "pruned_at"} == set(RunRecord.model_fields)
    assert not COLUMNS & BODY.keys()


def test_defaults_are_not_stored_and_come_back() -> None:
    record = RunRecord(
        run_id="r",
        version=1,
        status="queued",
        created_at=START,
        updated_at=START,
        start_digest="d",
        head="h",
    )
    assert body(record) == {"start_digest": "d"}
    row = ("r", "default", "queued", 1, 0, None, START, START, None, "h", body(record))
    assert from_row(*row) == record


def test_stored_record_is_the_folded_one_at_every_step(journal: Journal, clock: Any) -> None:
    ledger = journal.ledger(owner="a", lease_ttl=60, clock=clock)
    ledger.start("r", labels={"team": "x"}, delivery_ref="inbox", available_at=START)

    def check() -> None:
        stored = journal.get("r")
        assert stored is not None
        folded = journal.get("r", version=stored.version)
        assert folded is not None
        assert folded.with_deadline(stored.lease.expires_at if stored.lease else START) == stored

    check()
    lease = ledger.acquire("r", heartbeat=False)
    check()
    lease.save_checkpoint({"n": 1})
    check()
    lease.release(error="", available_at=clock.now + timedelta(seconds=1))
    check()
    assert journal.get("r").last_error == ""  # type: ignore[union-attr]
    lease = ledger.acquire("r", heartbeat=False)
    lease.suspend(["a", "b"], resume_when_decided=True)
    check()
    ledger.record_decision("r", "a", "yes", command_id="decision-1")
    check()
    ledger.restore("r", heartbeat=False).complete({"done": True}, message="all of it")
    check()
