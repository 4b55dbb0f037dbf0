"""Export, import and copy: what arrives is what was there."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from runjournal import CallableGateway, DeliveryService, Journal, RunStoreError, open_journal
from runjournal.adapters.ciphering import Place
from runjournal.adapters.transfer import units
from runjournal.adapters.transfer.source import Source
from runjournal.domain.chain import GENESIS, chain_hash
from runjournal.domain.events import run_stream

from .conftest import UNITS, content, fill_all, is_sound

LATER = datetime.now(UTC) + timedelta(days=3)


def later() -> datetime:
    return LATER


def test_from_sqlite_to_postgres_and_back(
    tmp_path: Path, postgres_url: str, verify_run: Callable[[Journal, str], None]
) -> None:
    with (
        open_journal(f"sqlite:///{tmp_path / 'a.db'}?synchronous=normal") as first,
        open_journal(postgres_url) as second,
        open_journal(f"sqlite:///{tmp_path / 'b.db'}") as third,
    ):
        fill_all(first, runs=20)
        to_postgres = first.copy_to(second, send_deliveries=True)
        back = second.copy_to(third, send_deliveries=True)
        assert (to_postgres.new, to_postgres.conflicts) == (20 * (UNITS - 1) + 1, [])
        assert back == to_postgres
        assert content(first) == content(second) == content(third)
        for journal in (first, second, third):
            assert is_sound(journal)
        for record in third.runs(limit=1000):
            verify_run(third, record.run_id)
        assert second.runs(limit=1000) == third.runs(limit=1000)
        assert second.deliveries(limit=1000) == third.deliveries(limit=1000)
        assert third.deliveries(limit=1000) == first.deliveries(limit=1000)


def test_case_70_round_trip_and_idempotent_import(
    source: Journal, export_file: Path, journal: Journal, tmp_path: Path
) -> None:
    first = journal.import_from(export_file)
    assert (first.new, first.extended, first.unchanged, first.conflicts) == (UNITS, 0, 0, [])
    assert journal.verify().findings == []
    again = tmp_path / "again.jsonl"
    journal.export_to(again)
    assert again.read_bytes() == export_file.read_bytes()
    position = journal.position()
    second = journal.import_from(export_file)
    assert (second.new, second.extended, second.unchanged, second.events) == (0, 0, UNITS, 0)
    # Back into the source: nothing of it is new there.
    assert source.import_from(again).unchanged == UNITS
    assert journal.position() == position == first.events
    assert content(source) == content(journal)


def test_ids_commands_and_tokens_go_on(export_file: Path, journal: Journal) -> None:
    journal.import_from(export_file)
    ledger = journal.ledger(owner="new", clock=later)
    # The lease that came along has run out here, and its token is never given again.
    held = ledger.get("held-0")
    assert held.lease is not None
    assert held.lease.expires_at < LATER
    assert ledger.acquire("held-0", heartbeat=False).fencing_token == held.fencing_token + 1
    # A repeated start is the same run; a different one under its id is refused.
    assert ledger.start("queued-0", labels={"team": "b", "a": "c"}).version == 1
    with pytest.raises(RunStoreError) as caught:
        ledger.start("queued-0", labels={"team": "c"})
    assert caught.value.reason == "different_arguments"
    # What was queued is due, and what was decided counts.
    assert "queued-0" in {lease.run_id for lease in ledger.claim(limit=100, heartbeat=False)}
    asking = ledger.record_decision("asking-0", "legal", "yes")
    assert asking.status == "queued"
    assert journal.verify().findings == []


def test_deliveries_are_set_aside_until_somebody_asks(export_file: Path, journal: Journal) -> None:
    sent: list[str] = []
    gateway = CallableGateway(lambda request: sent.append(request.run_id))
    service = DeliveryService(journal, dict.fromkeys(("later", "inbox", "bad"), gateway))
    assert journal.import_from(export_file).held == 1
    service.deliver_due()
    assert sent == []
    ((run_id, reason),) = journal.attention()
    assert (run_id, reason.partition(":")[0]) == ("pending-0", "imported")
    (pending,) = journal.deliveries(status="pending")
    service.retry(pending.invocation_id)
    assert sent == ["pending-0"]
    assert is_sound(journal)


def test_a_second_import_lets_go_of_the_deliveries(export_file: Path, journal: Journal) -> None:
    sent: list[str] = []
    gateway = CallableGateway(lambda request: sent.append(request.run_id))
    service = DeliveryService(journal, {"later": gateway})
    journal.import_from(export_file)
    done = journal.import_from(export_file, send_deliveries=True)
    assert (done.unchanged, done.events) == (UNITS, 0)
    assert is_sound(journal)
    service.deliver_due()
    assert sent == ["pending-0"]


def test_a_copy_that_is_repeated_brings_over_what_came_since(journal: Journal) -> None:
    with open_journal("memory:") as source:
        fill_all(source)
        source.copy_to(journal)
        ledger = source.ledger(owner="worker", clock=later)
        ledger.acquire("held-0", heartbeat=False).complete("done")
        ledger.acquire("queued-0", heartbeat=False).save_checkpoint(1)
        source.ledger().start("new", delivery_ref="later")
        source.ledger().cancel("new")
        DeliveryService(source, {"later": CallableGateway(lambda _request: None)}).deliver_due()
        done = source.copy_to(journal)
        assert (done.new, done.extended, done.conflicts) == (1, 3, [])
        assert content(journal) == content(source)
        assert is_sound(journal)  # also the delivery that was held: it was sent over there
        stored = journal.get("held-0")
        assert stored == source.get("held-0")
        # A journal that is ahead has nothing to be told.
        assert journal.copy_to(source).unchanged == UNITS + 1
        assert source.ledger().get("queued-0").version == 3


def test_what_is_another_run_here_is_left_and_named(export_file: Path, journal: Journal) -> None:
    ledger = journal.ledger(owner="here")
    ledger.start("done-0", kind="other")  # shorter than the imported one
    lease = ledger.acquire("plain-0", heartbeat=False)
    for n in range(9):
        lease.save_checkpoint(n)  # longer
    done = journal.import_from(export_file)
    assert [c.stream for c in done.conflicts] == ["run/done-0", "run/plain-0"]
    assert "at version 1 here and 5 there" in done.conflicts[0].message
    assert done.new == UNITS - 2
    record = journal.get("done-0")
    assert record is not None
    assert (record.kind, record.version) == ("other", 1)
    assert journal.verify().findings == []
    assert [d.run_id for d in journal.deliveries() if d.run_id == "done-0"] == []


def test_a_chosen_run_comes_with_its_delivery(source: Journal, tmp_path: Path) -> None:
    done = source.export_to(tmp_path / "some.jsonl", ["refused-0", "held-0"])
    assert (done.streams, done.events) == (3, 2 + 1 + 5 + 3)
    with open_journal("memory:") as other:
        other.import_from(tmp_path / "some.jsonl")
        assert [r.run_id for r in other.runs()] == ["refused-0", "held-0"] or other.runs()
        assert len(other.runs()) == 2
        assert len(other.deliveries()) == 1
        assert is_sound(other)
    with pytest.raises(RunStoreError) as caught:
        source.export_to(tmp_path / "none.jsonl", ["held-0", "nobody"])
    assert (caught.value.code, caught.value.reason) == ("RUN_NOT_FOUND", "run")
    assert os.listdir(tmp_path) == ["some.jsonl"]


def test_one_run_as_one_document(journal: Journal) -> None:
    fill_all(journal)
    document = json.loads(json.dumps(journal.export_run("refused-0")))
    stored = list(journal.store.read(run_stream("refused-0")))
    assert [e["data"].encode() for e in document["events"]] == [e.data for e in stored]
    head = GENESIS
    for event in document["events"]:
        data = event["data"].encode()
        head = chain_hash(head, document["stream"], event["version"], event["topic"], data)
        assert event["hash"] == head
    record = journal.get("refused-0")
    assert record is not None
    assert document["head"] == head == record.head
    assert document["record"] == record.model_dump(mode="json", by_alias=True)
    (delivery,) = document["deliveries"]
    assert delivery["record"]["status"] == "unknown"
    assert next(e["topic"] for e in delivery["events"]) == "delivery.requested"
    assert journal.export_run("queued-0")["deliveries"] == []
    with pytest.raises(RunStoreError) as caught:
        journal.export_run("nobody")
    assert caught.value.code == "RUN_NOT_FOUND"


def test_stored_bytes_that_are_no_text(tmp_path: Path) -> None:
    class Compressing:
        """A host's cipher may do anything with the bytes."""

        def encrypt(self, data: bytes, _place: Place) -> bytes:
            return zlib.compress(data)

        def decrypt(self, data: bytes, _place: Place) -> bytes:
            return zlib.decompress(data)

    with (
        open_journal("memory:", cipher=Compressing()) as a,
        open_journal("memory:", cipher=Compressing()) as b,
        open_journal("memory:") as c,
    ):
        fill_all(a)
        a.export_to(tmp_path / "export")
        assert b'"base64":' in (tmp_path / "export").read_bytes()
        b.import_from(tmp_path / "export", send_deliveries=True)
        assert content(a) == content(b)
        assert is_sound(b)
        with pytest.raises(RunStoreError) as caught:
            c.import_from(tmp_path / "export")  # without the key
        assert (caught.value.code, caught.value.reason) == (
            "RUN_VALIDATION_ERROR",
            "missing_key",
        )
        assert "line 2: " in caught.value.message
        assert c.position() == 0


def test_case_56_an_export_beside_writers_is_sound(tmp_path: Path, sqlite_url: str) -> None:
    stop = threading.Event()

    def write(name: str) -> None:
        with open_journal(f"{sqlite_url}?synchronous=normal") as mine:
            ledger = mine.ledger(owner=name)
            n = 0
            while not stop.is_set():
                with ledger.acquire(f"{name}-{n}", heartbeat=False) as lease:
                    lease.save_checkpoint(n)
                    lease.complete()
                n += 1

    with open_journal(f"{sqlite_url}?synchronous=normal") as journal, ThreadPoolExecutor() as pool:
        fill_all(journal, runs=5)
        writers = [pool.submit(write, f"w{n}") for n in range(2)]
        try:
            for n in range(3):
                path = tmp_path / f"{n}.jsonl"
                journal.export_to(path)
                assert path.stat().st_mode & 0o777 == 0o600
                with open_journal("memory:") as other:
                    assert other.import_from(path).conflicts == []
                    assert other.verify().findings == []
        finally:
            stop.set()
        for writer in writers:
            writer.result()
        # And into a journal that others write to.
        assert journal.import_from(path).conflicts == []


def test_case_56_a_partial_file_never_has_the_final_name(
    source: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "export.jsonl"
    seen: list[list[str]] = []
    source.export_to(path, progress=lambda _n: seen.append(os.listdir(tmp_path)))
    assert seen
    assert all("export.jsonl" not in names for names in seen)
    assert os.listdir(tmp_path) == ["export.jsonl"]
    before = path.read_bytes()
    with pytest.raises(RunStoreError) as caught:
        source.export_to(path)
    assert (caught.value.reason, path.read_bytes()) == ("argument", before)
    # Somebody else's file that comes while ours is written stays as well.
    late = tmp_path / "late"
    with pytest.raises(RunStoreError) as caught:
        source.export_to(late, progress=lambda _n: late.write_text("theirs"))
    assert (caught.value.reason, late.read_text()) == ("argument", "theirs")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        source.export_to(tmp_path / "full")
    assert sorted(os.listdir(tmp_path)) == ["export.jsonl", "late"]


def test_two_imports_at_once(export_file: Path, tmp_path: Path, sqlite_url: str) -> None:
    def run(_n: int) -> int:
        with open_journal(sqlite_url) as mine:
            done = mine.import_from(export_file)
            assert done.conflicts == []
            return done.new

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(run, range(4))) == UNITS
    with open_journal(sqlite_url) as journal:
        journal.export_to(tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == export_file.read_bytes()
        assert journal.verify().findings == []


def test_a_damaged_journal_is_not_exported(tmp_path: Path) -> None:
    with open_journal("memory:") as journal:
        fill_all(journal)
        stored = journal.store.tables.streams["run/done-0"]  # type: ignore[attr-defined]
        stored[2].__dict__["state"] = stored[2].state.replace(b"worker", b"nobody")
        with pytest.raises(RunStoreError) as caught:
            journal.export_to(tmp_path / "export")
        assert caught.value.code == "RUN_INTEGRITY_ERROR"
        assert "run/done-0" in caught.value.message
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("target", ["sqlite", "postgres"])
def test_large_runs_go_in_bounded_memory(
    tmp_path: Path, target: str, request: pytest.FixtureRequest
) -> None:
    with open_journal(f"sqlite:///{tmp_path / 'a.db'}?synchronous=normal") as source:
        lease = source.ledger().acquire("large", heartbeat=False)
        for n in range(500):
            lease.save_checkpoint([n, "x" * 40_000])
        lease.complete()
        url = str(request.getfixturevalue(f"{target}_url"))
        with open_journal(url) as journal:
            tracemalloc.start()
            try:
                source.export_to(tmp_path / "export")
                assert (tmp_path / "export").stat().st_size > 20_000_000
                journal.import_from(tmp_path / "export")
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert peak < 10_000_000
            assert journal.get("large") == source.get("large")
            assert is_sound(journal)


def test_streams_that_are_too_large_to_keep(
    source: Journal, export_file: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "KEPT", 600)
    assert content(source) == export_file.read_bytes()
    journal.import_from(export_file, send_deliveries=True)
    assert content(journal) == export_file.read_bytes()
    assert is_sound(journal)


def test_a_large_stream_that_is_changed_while_it_is_read(
    source: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(units, "KEPT", 0)
    store: Any = source.store
    ((strand,),) = Source(store, source._codec, lambda _n: None).units(["plain-0"])
    assert len(list(strand.events(2))) == 3
    stored = store.tables.streams["run/plain-0"][2]
    stored.__dict__["state"] = stored.state.replace(b"worker", b"nobody")
    with pytest.raises(RunStoreError) as caught:
        list(strand.events(2))
    assert "was changed while it was read" in caught.value.message


@pytest.mark.parametrize("written", [True, False])
def test_a_commit_whose_reply_was_lost(export_file: Path, journal: Journal, written: bool) -> None:
    store: Any = journal.store
    publish, lost = store.publish, []

    def losing(publications: Any) -> bool:
        if lost:
            return bool(publish(publications))
        lost.append(publications)
        if written:
            publish(publications)
        raise RunStoreError("RUN_OUTCOME_UNKNOWN", "reply_lost", "the connection was lost")

    store.publish = losing
    assert journal.import_from(export_file).conflicts == []
    assert content(journal) == export_file.read_bytes()
    assert journal.verify().findings == []
