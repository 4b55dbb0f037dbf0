"""Read in parts, a journal says what it says when it is read as a whole."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunStoreError
from runjournal.adapters import part_processes
from runjournal.adapters.checking import found_in
from runjournal.adapters.part_processes import PartProcesses
from runjournal.projections.findings import Finding
from runjournal.projections.parts import WHOLE, Part

from .conftest import Sql, fill

DAMAGE = [
    "DELETE FROM events WHERE stream = 'run/done-0' AND version = 3",
    "DELETE FROM events WHERE stream = 'run/held-0' AND version = 3",
    "DELETE FROM events WHERE stream = 'run/failed-0'",
    "DELETE FROM runs WHERE run_id = 'plain-0'",
    "UPDATE runs SET kind = 'x' WHERE run_id = 'queued-0'",
    "DELETE FROM events WHERE stream = 'run/resumed-0'",
    "DELETE FROM runs WHERE run_id = 'resumed-0'",
    "DELETE FROM delivery_outbox WHERE delivery_ref = 'bad'",
    "DELETE FROM events WHERE stream LIKE 'delivery/%' AND topic = 'delivery.requested'",
]
#: Every kind that this damage leads to.
FOUND = {
    "unreadable", "gap", "chain", "cut_tail", "record", "missing_record", "orphan_record",
    "missing_delivery", "anchor_missing", "anchor_cut",
}  # fmt: skip


@pytest.fixture
def anchor(stored: Journal, tmp_path: Path) -> Path:
    path = tmp_path / "anchor"
    path.write_text("".join(stored.anchor()))
    return path


@pytest.fixture
def processes(database_url: str, monkeypatch: pytest.MonkeyPatch) -> PartProcesses:
    """Two processes, and parts as small as they can be."""
    monkeypatch.setattr(part_processes, "SMALLEST", 1)
    return PartProcesses(database_url, 2)


def found(journal: Journal, anchor: Path | None, part: Part = WHOLE) -> list[Finding]:
    return list(found_in(journal.store, journal._codec, anchor, lambda _n: None, part))


def streams_of(sql: Sql) -> list[str]:
    return sorted(stream for (stream,) in sql("SELECT DISTINCT stream FROM events"))


def test_however_it_is_divided(stored: Journal, sql: Sql, anchor: Path) -> None:
    """At every stream, at what is no stream any more, and between the tables."""
    ends = [*streams_of(sql), "delivery", "delivery0", "journal/audit", "run", "run/", "run0"]
    for statement in DAMAGE:
        sql(statement)
    whole = found(stored, anchor)
    assert {f.kind for f in whole} == FOUND
    for end in ends:
        parts = found(stored, anchor, Part("", end)) + found(stored, anchor, Part(end, None))
        assert sorted(parts) == sorted(whole), end
    ends.sort()
    parts = []
    for after, upto in zip(["", *ends], [*ends, None], strict=True):
        parts += found(stored, anchor, Part(after, upto))
    assert sorted(parts) == sorted(whole)


def test_streams_divide_a_journal(journal: Journal) -> None:
    fill(journal, runs=2)
    store: Any = journal.store
    events: dict[str, int] = {}
    after = ("", 0)
    while page := store.walk(after, 50):
        after = page[-1].stream, page[-1].version
        for stored in page:
            events[stored.stream] = events.get(stored.stream, 0) + 1
    longest, streams = max(events.values()), sorted(events)
    for count in (1, 2, 10, 50):
        ends = store.divide(count)
        assert ends == sorted(set(ends))
        assert set(ends) <= set(streams)
        # As many as were asked for, and up to the end of the stream there.
        for begin, end in zip(["", *ends], ends, strict=False):
            between = sum(events[s] for s in streams if begin < s <= end)
            assert between < count + 2 * longest
            assert count <= between + longest
    assert store.divide(sum(events.values()) + 1) == []


def test_by_processes(stored: Journal, sql: Sql, anchor: Path, processes: PartProcesses) -> None:
    for statement in DAMAGE:
        sql(statement)
    alone = stored.verify(anchor)
    stored.acknowledge(alone.findings[:2], "ada", "known")
    events: list[int] = []
    done = stored.verify(anchor, events.append, processes)
    alone = stored.verify(anchor)
    assert (done.events, sum(events)) == (alone.events, alone.events)
    assert sorted(done.findings) == sorted(alone.findings)
    assert len(done.acknowledged) == 2


def test_rebuilt_by_processes(stored: Journal, sql: Sql, processes: PartProcesses) -> None:
    rows = "SELECT run_id, status, version, head, body FROM runs ORDER BY run_id"
    before = sql(rows)
    sql("DROP TABLE runs")
    done = stored.rebuild("run_records", processes=processes)
    assert (done.streams, done.repaired, done.findings) == (len(before), len(before), ())
    assert sql(rows) == before
    sql("UPDATE runs SET head = 'x' WHERE run_id = 'done-0'")
    again = stored.rebuild("run_records", processes=processes)
    assert [(f.kind, f.stream) for f in again.findings] == [("head", "run/done-0")]
    assert stored.rebuild("delivery_outbox", processes=processes).repaired == 0


def test_what_a_process_is_refused_is_raised(
    stored: Journal, anchor: Path, processes: PartProcesses, tmp_path: Path
) -> None:
    with pytest.raises(RunStoreError) as caught:
        stored.verify(tmp_path / "nowhere", processes=processes)
    assert caught.value.reason == "anchor"
    everything = processes.divided(stored.store, WHOLE)
    work = ["verify", "--anchor", str(tmp_path / "nowhere")]
    with pytest.raises(RunStoreError) as caught:
        list(processes.run(work, everything, lambda: False))
    assert caught.value.reason == "anchor"


def test_a_process_that_dies_is_no_sound_journal(stored: Journal, processes: PartProcesses) -> None:
    processes._command = [sys.executable, "-c", "input()"]
    with pytest.raises(RunStoreError, match="ended with status 0") as caught:
        stored.verify(processes=processes)
    assert (caught.value.code, caught.value.reason) == ("RUN_STORE_UNAVAILABLE", "failed")


def test_interrupted_processes_end(stored: Journal, sql: Sql, processes: PartProcesses) -> None:
    class Set:
        def is_set(self) -> bool:
            return True

    sql("UPDATE runs SET kind = 'x'")
    done = stored.rebuild("run_records", interrupt=Set(), processes=processes)
    assert done.streams == 0
    assert stored.rebuild("run_records").repaired > 0
