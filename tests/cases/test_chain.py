"""Case 76: the hash is over what is stored, byte for byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from runjournal import Journal, RunRecord, RunStoreError, open_journal
from runjournal.adapters.contract.tools import SteppedClock, race
from runjournal.domain.chain import GENESIS, chain_hash
from runjournal.domain.events import run_stream

Verify = Callable[[Journal, str], None]


def head_of(journal: Journal, run_id: str, change: Callable[[int, bytes], bytes]) -> str:
    """The last hash over the stored bytes, after `change(version, bytes)` of them."""
    head = GENESIS
    for stream, version, topic, data in journal.store.read(run_stream(run_id)):
        head = chain_hash(head, stream, version, topic, change(version, data))
    return head


def write_a_life(journal: Journal, clock: Callable[[], datetime]) -> RunRecord:
    ledger = journal.ledger(owner="w", lease_ttl=59.9999999, clock=clock)
    ledger.start("r", input={"text": "é\0\U0001f600"}, labels={"b": "2", "a": "1"}, actor="ada")
    lease = ledger.acquire("r", heartbeat=False)
    lease.save_checkpoint({"z": 1, "a": [1.0, -0.0, 2**53 + 1, 1e-7]})
    lease.suspend(["x"], resume_when_decided=True)
    ledger.record_decision("r", "x", "yes")
    return ledger.acquire("r", heartbeat=False).complete({"done": True})


@pytest.mark.parametrize("fraction", [0.123456789, 0.9999999, 0.0, 0.000001, 0.1])
def test_case_76_what_is_stored_is_what_was_hashed(
    journal: Journal, clock: SteppedClock, verify_run: Verify, fraction: float
) -> None:
    """Times finer than what is stored, texts, floats: the stored bytes give the recorded head."""
    clock.now = clock.now.replace(microsecond=0) + timedelta(seconds=fraction)
    record = write_a_life(journal, clock)
    verify_run(journal, "r")
    assert head_of(journal, "r", lambda _, data: data) == record.head
    for stored, event in zip(journal.store.read(run_stream("r")), journal.events("r"), strict=True):
        written = json.loads(stored.data)
        assert datetime.fromisoformat(written["timestamp"]) == event.timestamp == clock.now
        assert written["prev_hash"] == event.prev_hash


def test_case_76_reloaded_from_the_file(
    sqlite_url: str, clock: SteppedClock, verify_run: Verify
) -> None:
    with open_journal(sqlite_url) as journal:
        record = write_a_life(journal, clock)
        events = list(journal.events("r"))
    with open_journal(sqlite_url) as journal:
        verify_run(journal, "r")
        assert journal.get("r") == record
        assert list(journal.events("r")) == events


def test_case_76_any_changed_byte_is_noticed(journal: Journal, clock: SteppedClock) -> None:
    record = write_a_life(journal, clock)
    for changed in range(1, record.version + 1):

        def flip(version: int, data: bytes, changed: int = changed) -> bytes:
            return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:] if version == changed else data

        assert head_of(journal, "r", flip) != record.head


def test_case_76_first_two_writes_to_one_run(journal: Journal, verify_run: Verify) -> None:
    """On an empty journal, at once: one of them begins the chain and the other does not fork it."""
    for number in range(50):
        name = f"run-{number}"
        answers = race(2, lambda i, name=name: journal.ledger().start(name, input=i))
        (refusal,) = [a for a in answers if isinstance(a, RunStoreError)]
        assert (refusal.code, refusal.reason) == ("RUN_CONFLICT", "different_arguments")
        assert len(list(journal.events(name))) == 1
        same = race(2, lambda _, name=name: journal.ledger().start(f"{name}-same"))
        assert same[0] == same[1]
        for run_id in (name, f"{name}-same"):
            verify_run(journal, run_id)


def test_case_76_first_two_writes_to_two_runs(journal: Journal, verify_run: Verify) -> None:
    """Streams have chains of their own: writers of different runs do not meet."""
    answers = race(2, lambda i: journal.ledger().acquire(f"run-{i}", heartbeat=False).complete())
    for number, answer in enumerate(answers):
        assert isinstance(answer, RunRecord)
        verify_run(journal, f"run-{number}")


def test_case_76_two_writers_of_one_run(journal: Journal, verify_run: Verify) -> None:
    """Decisions and a holder's checkpoints interleave in one chain without a fork."""
    ledger = journal.ledger()
    names = [f"a{n}" for n in range(40)]
    ledger.acquire("r", heartbeat=False).suspend(names)

    def decide(half: int) -> None:
        for name in names[half::2]:
            journal.ledger().record_decision("r", name, "yes")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(decide, range(2)))
    record = journal.get("r")
    assert record is not None
    assert record.version == 3 + len(names)
    assert record.approvals == dict.fromkeys(names, "yes")
    verify_run(journal, "r")
