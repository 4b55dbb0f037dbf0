"""Cases of payloads and names that are too large."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from runjournal import DeploymentLimits, Journal, RunRecord, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused

Verify = Callable[[Journal, str], None]
Doors = Callable[[Journal], dict[str, Callable[[Any], object]]]
#: `make prove` sets it: cases in their full size.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))

KIB, MIB = 1 << 10, 1 << 20
HUGE = (300 if PROVE else 64) * MIB


def text_of(size: int) -> str:
    """A text whose stored form has this many bytes: two are for the quotes."""
    return "x" * (size - 2)


@pytest.fixture
def unreachable(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, reaching for the store fails the test."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("the store was asked")

    def cut() -> None:
        for method in ("append", "get", "claim", "renew", "read", "runs"):
            monkeypatch.setattr(journal.store, method, refuse)

    return cut


@pytest.mark.parametrize(
    "size", [MIB + 1, 2 * MIB, (300 if PROVE else 64) * MIB], ids="{:,}".format
)
def test_case_49_too_large_is_refused_before_the_store(
    journal: Journal,
    unreachable: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    verify_run: Verify,
    size: int,
) -> None:
    """The message has size and limit, the hint says what to do, and the run stays usable."""
    ledger = journal.ledger()
    lease = ledger.acquire("r", heartbeat=False)
    payload = text_of(size)
    doors: dict[str, Callable[[], RunRecord]] = {
        "checkpoint_bytes": lambda: lease.save_checkpoint(payload),
        "result_bytes": lambda: lease.complete(payload),
        "input_bytes": lambda: ledger.start("new", input=payload),
    }
    unreachable()
    for limit, call in doors.items():
        with refused("RUN_LIMIT_EXCEEDED", limit) as caught:
            call()
        assert f"{size:,}" in caught.value.message
        assert f"{MIB:,}" in caught.value.message
        assert "a ref" in caught.value.hint
        assert not caught.value.retryable
    monkeypatch.undo()
    lease.save_checkpoint({"ref": "s3://bucket/large"})
    lease.complete(text_of(MIB))
    assert journal.get("new") is None
    verify_run(journal, "r")


@pytest.mark.parametrize("size", [KIB, 256 * KIB, MIB], ids="{:,}".format)
def test_case_49_up_to_the_limit_is_kept(journal: Journal, verify_run: Verify, size: int) -> None:
    payload = text_of(size)
    lease = journal.ledger().acquire("r", heartbeat=False)
    record = lease.save_checkpoint(payload)
    assert record.checkpoint_ref is not None
    assert record.checkpoint_ref.size == size
    assert lease.checkpoint == payload
    lease.complete(payload)
    verify_run(journal, "r")


def test_case_49_the_host_sets_the_limits(journal_url: str) -> None:
    limits = DeploymentLimits(checkpoint_bytes=3 * MIB, result_bytes=10, input_bytes=20)
    with open_journal(journal_url, limits=limits) as journal:
        ledger = journal.ledger()
        ledger.start("r", input=text_of(20))
        lease = ledger.acquire("r", heartbeat=False)
        lease.save_checkpoint(text_of(3 * MIB))
        for limit, call in {
            "checkpoint_bytes": lambda: lease.save_checkpoint(text_of(3 * MIB + 1)),
            "result_bytes": lambda: lease.complete(text_of(11)),
            "input_bytes": lambda: ledger.start("new", input=text_of(21)),
        }.items():
            with refused("RUN_LIMIT_EXCEEDED", limit):
                call()
        lease.complete(text_of(10))


def test_case_49_lists_and_records_never_load_payloads(
    journal_url: str, verify_run: Verify
) -> None:
    """Many large checkpoints in one run: listing and reading it costs what a small run costs."""
    faster = "?synchronous=normal" if journal_url.startswith("sqlite") else ""
    count = 10_000 if PROVE else 300
    with open_journal(journal_url + faster) as journal:
        ledger = journal.ledger()
        ledger.start("r", input=text_of(MIB))
        lease = ledger.acquire("r", heartbeat=False)
        for number in range(count):
            lease.save_checkpoint({"n": number, "pad": text_of(100_000)})
        journal.runs()  # what is loaded once, is loaded
        tracemalloc.start()
        try:
            (record,) = journal.runs()
            assert ledger.get("r") == record
            ledger.cancel("r")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 90_000, "a payload was loaded"
        assert record.version == count + 2
        verify_run(journal, "r")  # reads and folds all of it


#: Texts that are too long to name anything: by how many bytes they have.
TOO_LONG = {
    256: "x" * 256,
    257: "\u00e9" * 128 + "x",
    258: "\u65e5" * 86,
    1000: "y" * 1000,
    3000: random.Random(50).randbytes(1500).hex(),
    9000: "X" * 9000,
}


def test_case_50_names_that_are_too_long(
    journal: Journal,
    name_doors: Doors,
    unreachable: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    verify_run: Verify,
) -> None:
    """One limit in bytes of UTF-8 at every door, refused at once: the store is not even asked."""
    doors = name_doors(journal)
    unreachable()
    for door, call in doors.items():
        for size, text in TOO_LONG.items():
            assert len(text.encode()) == size
            with pytest.raises(RunStoreError) as caught:
                call(text)
            cause = (caught.value.code, caught.value.reason)
            assert cause == ("RUN_VALIDATION_ERROR", "identifier"), (door, size)
            assert f"{size} bytes" in caught.value.message
            assert "255" in caught.value.message
            assert len(caught.value.message) < 300
    monkeypatch.undo()
    assert [r.run_id for r in journal.runs()] == ["live"]
    verify_run(journal, "live")


@pytest.mark.parametrize(
    "text", ["x" * 255, "\u00e9" * 127, "\u65e5" * 85, "\U0001f600" * 63], ids=lambda t: t[0]
)
def test_case_50_names_up_to_the_limit(journal: Journal, verify_run: Verify, text: str) -> None:
    """What is accepted is kept as given, and works in every place."""
    ledger = journal.ledger(owner=text)
    labels = {text: text}
    ledger.start(text, text, None, text, text, labels, text, actor=text, command_id=text)
    lease = ledger.claim([text], heartbeat=False)
    assert lease is not None
    assert (lease.run_id, lease.owner) == (text, text)
    lease.save_checkpoint(1, key=text)
    lease.suspend([text])
    ledger.record_decision(text, text, text, actor=text)
    again = ledger.restore(text, heartbeat=False)
    record = again.complete(code=text)
    assert (record.run_id, record.kind, record.labels) == (text, text, labels)
    assert record == journal.get(text) == journal.runs(kind=text)[0]
    verify_run(journal, text)
