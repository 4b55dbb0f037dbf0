"""verify: whatever is changed behind the product's back is found and named."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runjournal import Journal, RunStoreError
from runjournal.adapters.contract.tools import refused
from runjournal.domain.chain import GENESIS, chain_hash
from runjournal.projections.anchor import read_anchor

from .conftest import Sql, fill

#: Every so manieth byte is changed in the bounded form.
STEP = 1 if os.environ.get("RUNJOURNAL_PROVE") else 29

EVENTS = "SELECT stream, version, state FROM events WHERE stream LIKE ? ORDER BY stream, version"


def kinds(journal: Journal, anchor: Path | None = None) -> list[tuple[str, str]]:
    return [(f.kind, f.stream) for f in journal.verify(anchor).findings]


def test_a_sound_journal_has_no_findings(journal: Journal) -> None:
    fill(journal, runs=3)
    seen = []
    done = journal.verify(progress=seen.append)
    assert (done.findings, done.acknowledged) == ([], [])
    written = journal.application.recorder.max_notification_id()
    assert done.events == sum(seen) == written


def test_any_byte_of_any_event(stored: Journal, sql: Sql) -> None:
    """Also of the topic, and also of a stream's last event: its hash is the record's head."""
    tried = 0
    for like in ("run/done%", "delivery/%"):
        for stream, version, state in sql(EVENTS, like):
            whole = bytes(state)
            for place in range(version % STEP, len(whole), STEP):
                changed = bytearray(whole)
                changed[place] ^= 1
                where = (stream, version)
                put = "UPDATE events SET state = ? WHERE stream = ? AND version = ?"
                sql(put, bytes(changed), *where)
                assert any(s == stream for _, s in kinds(stored)), (where, place)
                sql(put, whole, *where)
                tried += 1
    assert tried > 50
    assert kinds(stored) == []


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE events SET topic = 'run.cancelled' WHERE version = 3 AND stream = {s}", "chain"),
        ("UPDATE events SET version = 30 WHERE version = 3 AND stream = {s}", "gap"),
        ("DELETE FROM events WHERE version = 3 AND stream = {s}", "gap"),
        ("DELETE FROM events WHERE version = 1 AND stream = {s}", "gap"),
        ("DELETE FROM events WHERE version = 5 AND stream = {s}", "cut_tail"),
        ("DELETE FROM events WHERE version > 2 AND stream = {s}", "cut_tail"),
        ("DELETE FROM events WHERE stream = {s}", "orphan_record"),
        ("UPDATE events SET stream = 'run/other' WHERE stream = {s}", "orphan_record"),
        ("DELETE FROM runs WHERE run_id = 'done-0'", "missing_record"),
        ("UPDATE runs SET head = 'x' WHERE run_id = 'done-0'", "head"),
        ("UPDATE runs SET version = version - 1 WHERE run_id = 'done-0'", "record"),
        ("UPDATE runs SET version = version + 1 WHERE run_id = 'done-0'", "cut_tail"),
        ("UPDATE runs SET kind = 'x' WHERE run_id = 'done-0'", "record"),
        ("UPDATE runs SET status = 'failed' WHERE run_id = 'done-0'", "record"),
        ("UPDATE runs SET fencing_token = 7 WHERE run_id = 'done-0'", "record"),
        ("UPDATE runs SET checkpoint = NULL WHERE run_id = 'done-0'", "record"),
        ("UPDATE runs SET created_at = updated_at WHERE run_id = 'done-0'", "record"),
        ("UPDATE runs SET updated_at = created_at WHERE run_id = 'done-0'", "record"),
    ],
)
def test_changes_of_a_run(stored: Journal, sql: Sql, statement: str, finding: str) -> None:
    sql(statement.format(s="'run/done-0'"))
    assert (finding, "run/done-0") in kinds(stored)


def test_an_audit_log_under_another_name(stored: Journal, sql: Sql) -> None:
    sql("UPDATE runs SET kind = 'x' WHERE run_id = 'done-0'")
    stored.acknowledge(stored.verify().findings, "alice", "a known one")
    assert kinds(stored) == []
    sql("UPDATE events SET stream = 'notes' WHERE stream = 'journal/audit'")
    assert ("unreadable", "notes") in kinds(stored)


def test_two_events_that_change_places(stored: Journal, sql: Sql) -> None:
    for old, new in ((3, 100), (4, 3), (100, 4)):
        sql("UPDATE events SET version = ? WHERE stream = 'run/done-0' AND version = ?", new, old)
    assert ("chain", "run/done-0") in kinds(stored)


def test_changes_of_a_delivery(stored: Journal, sql: Sql) -> None:
    ((invocation_id,),) = sql("SELECT invocation_id FROM delivery_outbox WHERE run_id = 'done-0'")
    name = f"delivery/{invocation_id}"
    columns = "status", "delivery_ref", "run_id"
    for column in columns:
        ((before,),) = sql(
            f"SELECT {column} FROM delivery_outbox WHERE invocation_id = ?", invocation_id
        )
        put = f"UPDATE delivery_outbox SET {column} = ? WHERE invocation_id = ?"
        sql(put, "x", invocation_id)
        assert ("record", name) in kinds(stored), column
        sql(put, before, invocation_id)
    assert kinds(stored) == []
    sql("DELETE FROM delivery_outbox WHERE invocation_id = ?", invocation_id)
    assert set(kinds(stored)) == {("missing_record", name), ("missing_delivery", "run/done-0")}
    sql("DELETE FROM events WHERE stream = ?", name)
    assert kinds(stored) == [("missing_delivery", "run/done-0")]


def test_delivery_of_a_run_that_is_gone(stored: Journal, sql: Sql) -> None:
    sql("DELETE FROM events WHERE stream = 'run/done-0'")
    sql("DELETE FROM runs WHERE run_id = 'done-0'")
    ((kind, stream),) = kinds(stored)
    assert kind == "orphan_delivery"
    assert stream.startswith("delivery/")


def test_a_deadline_is_no_fact(stored: Journal, sql: Sql) -> None:
    sql("UPDATE runs SET ready_at = created_at WHERE ready_at IS NOT NULL")
    assert kinds(stored) == []


def test_a_deadline_that_is_no_time_is_named_and_put_right(stored: Journal, sql: Sql) -> None:
    """No event tells it, and the record cannot be read with it."""
    far = 2**62 if "sqlite" in type(stored.store).__module__ else "infinity"
    sql("UPDATE runs SET ready_at = ? WHERE run_id IN ('held-0', 'queued-0')", far)
    with refused("RUN_INTEGRITY_ERROR", "unreadable_record"):
        stored.get("held-0")
    assert kinds(stored) == [("record", "run/held-0"), ("record", "run/queued-0")]
    assert stored.rebuild("run_records").repaired == 2
    assert kinds(stored) == []
    assert stored.get("held-0") is not None


def test_differences_are_named_field_by_field(stored: Journal, sql: Sql) -> None:
    sql("UPDATE runs SET kind = 'x', fencing_token = 7 WHERE run_id = 'done-0'")
    (finding,) = stored.verify().findings
    assert "kind is 'x' and should be 'etl'" in finding.message
    assert "fencing_token is 7 and should be 1" in finding.message


def test_a_row_that_cannot_be_read_is_named(stored: Journal, sql: Sql) -> None:
    sql("UPDATE runs SET body = ? WHERE run_id = 'done-0'", b"[]")
    (finding,) = stored.verify().findings
    assert (finding.kind, finding.stream) == ("record", "run/done-0")
    assert "cannot be read" in finding.message


#: Runs, and what is put into their events and records in place of what.
FORGED = {
    "queued-0": (b'"team":"b"', b'"team":1'),
    "held-0": (b'"owner":"worker"', b'"owner":5'),
    "asking-0": (b'"resume_when_decided":true', b'"resume_when_decided":"?"'),
    "failed-0": (b'"it is full"', b"7"),
    # What the record does not hold any more, and `events` would stop at.
    "plain-0": (b'"snapshot_version":1', b'"snapshot_version":[1]'),
    "resumed-0": (b'"decision":"yes"', b'"decision":1'),
    "back-0": (b'"attempt":1', b'"attempt":"?"'),
}


def test_a_chain_made_anew_around_what_cannot_be_read(stored: Journal, sql: Sql) -> None:
    """Events, hashes and record are rewritten together: what cannot be read is named all the same.

    Had it been written so that it can be read, only an anchor would tell.
    """
    for run_id, (before, after) in FORGED.items():
        forge(sql, run_id, before, after)
        with refused("RUN_INTEGRITY_ERROR", "unreadable_event"):
            list(stored.events(run_id))
    for found in (stored.verify().findings, stored.rebuild("run_records").findings):
        assert [(f.kind, f.stream) for f in found] == [
            ("unreadable", f"run/{run_id}") for run_id in sorted(FORGED)
        ]


def forge(sql: Sql, run_id: str, before: bytes, after: bytes) -> None:
    """Put something else into a run's events and record, and link them up again."""
    stream, head = f"run/{run_id}", GENESIS
    for version, topic, state in sql(
        "SELECT version, topic, state FROM events WHERE stream = ? ORDER BY version", stream
    ):
        linked = re.sub(rb'("prev_hash":)"\w+"', rb'\1"%b"' % head.encode(), bytes(state))
        forged = linked.replace(before, after)
        head = chain_hash(head, stream, version, topic, forged)
        sql("UPDATE events SET state = ? WHERE stream = ? AND version = ?", forged, stream, version)
    ((body, checkpoint),) = sql("SELECT body, checkpoint FROM runs WHERE run_id = ?", run_id)
    sql(
        "UPDATE runs SET head = ?, body = ?, checkpoint = ? WHERE run_id = ?",
        head,
        bytes(body).replace(before, after),
        checkpoint and bytes(checkpoint).replace(before, after),
        run_id,
    )


# Anchors.


@pytest.fixture
def anchor(stored: Journal, tmp_path: Path) -> Path:
    path = tmp_path / "anchor.jsonl"
    path.write_text("".join(stored.anchor()))
    return path


def test_an_anchored_journal_goes_on(stored: Journal, anchor: Path) -> None:
    fill(stored, runs=2, first=1)
    assert kinds(stored, anchor) == []


def test_a_cut_tail_and_its_record(stored: Journal, sql: Sql, anchor: Path) -> None:
    """Somebody takes the last event and puts record and head back to before it."""
    before = stored.get("plain-0", version=4)
    assert before is not None
    sql("DELETE FROM events WHERE stream = 'run/plain-0' AND version = 5")
    sql("DELETE FROM runs WHERE run_id = 'plain-0'")
    stored.rebuild("run_records")
    assert kinds(stored) == []
    assert kinds(stored, anchor) == [("anchor_cut", "run/plain-0")]


def test_a_whole_run_with_its_record(stored: Journal, sql: Sql, anchor: Path) -> None:
    for run_id in ("plain-0", "asking-0"):  # one in the middle, and the first of all runs
        sql("DELETE FROM events WHERE stream = ?", f"run/{run_id}")
        sql("DELETE FROM runs WHERE run_id = ?", run_id)
    assert kinds(stored) == []
    assert sorted(kinds(stored, anchor)) == [
        ("anchor_missing", "run/asking-0"),
        ("anchor_missing", "run/plain-0"),
    ]


def test_the_last_stream_of_all(stored: Journal, sql: Sql, anchor: Path) -> None:
    (last,) = sql("SELECT max(stream) FROM events")
    sql("DELETE FROM events WHERE stream = ?", *last)
    sql("DELETE FROM runs WHERE run_id = ?", last[0].removeprefix("run/"))
    assert ("anchor_missing", last[0]) in kinds(stored, anchor)


def test_a_history_that_was_written_anew(stored: Journal, sql: Sql, anchor: Path) -> None:
    """A run is removed and made again, chain and record and all: only the anchor tells."""
    sql("DELETE FROM events WHERE stream = 'run/plain-0'")
    sql("DELETE FROM runs WHERE run_id = 'plain-0'")
    ledger = stored.ledger(owner="worker")
    ledger.start("plain-0", kind="etl")
    lease = ledger.acquire("plain-0")
    for n in range(2):
        lease.save_checkpoint(n)
    lease.complete()
    assert kinds(stored) == []
    assert kinds(stored, anchor) == [("anchor_changed", "run/plain-0")]


def test_an_anchor_lists_every_stream_in_order(stored: Journal, sql: Sql, anchor: Path) -> None:
    lines = [json.loads(line) for line in anchor.read_text().splitlines()]
    names = [line["stream"] for line in lines[1:-1]]
    assert names == sorted({name for (name,) in sql("SELECT stream FROM events")})
    assert lines[-1]["streams"] == len(names)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_spoilt_anchor_is_refused(data: st.DataObject) -> None:
    good = [
        '{"schema":"runjournal.anchor.v1","createdAt":"2026-01-01T00:00:00+00:00"}\n',
        '{"stream":"run/a","version":3,"head":"aa"}\n',
        '{"stream":"run/b","version":1,"head":"bb"}\n',
    ]
    digest = hashlib.sha256("".join(good).encode()).hexdigest()
    good.append(f'{{"streams":2,"digest":"{digest}"}}\n')
    assert len(list(read_anchor(good, "a"))) == 2
    text = "".join(good)
    place = data.draw(st.integers(0, len(text) - 2))
    change: Callable[[str], str] = data.draw(
        st.sampled_from(
            [
                lambda t: t[:place],
                lambda t: t[:place] + chr(ord(t[place]) ^ 1) + t[place + 1 :],
                lambda t: t[:place] + t[place + 1 :],
                lambda t: t + "{}\n",
            ]
        )
    )
    spoilt = change(text)
    with pytest.raises(RunStoreError) as caught:
        list(read_anchor(spoilt.splitlines(keepends=True), "a"))
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "anchor")


@pytest.mark.parametrize("what", ["missing", "folder", "binary"])
def test_a_file_that_is_no_anchor(stored: Journal, tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    elif what == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunStoreError) as caught:
        stored.verify(path)
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "anchor")


# Acknowledging.


def test_case_78_recovery_from_a_known_break(stored: Journal, sql: Sql) -> None:
    def spoil(version: int, run_id: str = "done-0") -> None:
        where = (f"run/{run_id}", version)
        ((state,),) = sql("SELECT state FROM events WHERE stream = ? AND version = ?", *where)
        changed = bytes(state).replace(b'"timestamp":"20', b'"timestamp":"21', 1)
        put = "UPDATE events SET state = ? WHERE stream = ? AND version = ?"
        assert changed != bytes(state)
        sql(put, changed, *where)

    spoil(2)
    first = stored.verify().findings
    assert first
    stored.acknowledge(first, "ada", "the disk of last week")
    known = stored.verify()
    assert known.findings == []
    assert [(f, a.actor, a.reason) for f, a in known.acknowledged] == [
        (f, "ada", "the disk of last week") for f in first
    ]
    stored.acknowledge(first, "ada", "again")
    assert len(stored.verify().acknowledged) == len(first)
    spoil(4)  # a new break in the same run
    later = stored.verify()
    assert [f.stream for f in later.findings] == ["run/done-0"] * len(later.findings)
    assert later.findings
    spoil(2, "plain-0")  # and in another one
    assert "run/plain-0" in [f.stream for f in stored.verify().findings]


def test_acknowledgements_have_a_chain_too(stored: Journal, sql: Sql, tmp_path: Path) -> None:
    sql("UPDATE runs SET kind = 'x' WHERE run_id IN ('done-0', 'plain-0')")
    stored.acknowledge(stored.verify().findings, "ada", "known")
    anchor = tmp_path / "anchor"
    anchor.write_text("".join(stored.anchor()))
    assert kinds(stored, anchor) == []
    sql("DELETE FROM events WHERE stream = 'journal/audit' AND version = 2")
    assert ("anchor_cut", "journal/audit") in kinds(stored, anchor)
    sql("DELETE FROM events WHERE stream = 'journal/audit'")
    assert ("anchor_missing", "journal/audit") in kinds(stored, anchor)
    assert len(stored.verify().findings) == 2


@pytest.mark.parametrize("argument", [{"actor": "", "reason": "x"}, {"actor": "x", "reason": " "}])
def test_who_and_why_must_be_said(stored: Journal, sql: Sql, argument: Any) -> None:
    sql("UPDATE runs SET kind = 'x' WHERE run_id = 'done-0'")
    with pytest.raises(RunStoreError) as caught:
        stored.acknowledge(stored.verify().findings, **argument)
    assert caught.value.code == "RUN_VALIDATION_ERROR"
