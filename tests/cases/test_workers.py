"""Cases of workers: handlers that block, and what a signal leaves behind."""

from __future__ import annotations

import ctypes
import json
import logging
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunStoreError, Worker, WorkerContext, open_journal

HERE = Path(__file__).parent

Start = Callable[..., "subprocess.Popen[str]"]
Until = Callable[[Callable[[], Any]], None]
Verify = Callable[[Journal, str], None]

#: The case's two seconds, and its six, in proportion.
TTL = 0.5
BLOCKS = 3 * TTL


def hold_the_gil(seconds: float) -> None:
    """What a big json.dumps does, for a time that does not depend on the machine."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


def test_case_07_heartbeat_starved_by_blocking_handler(
    journal: Journal, verify_run: Verify, caplog: pytest.LogCaptureFixture
) -> None:
    """An async handler that blocks its loop keeps its lease: the beat is not in that loop."""
    contender = journal.ledger(owner="contender")

    async def handler(ctx: WorkerContext) -> str:
        end = time.monotonic() + BLOCKS
        while time.monotonic() < end:
            time.sleep(TTL / 5)
            with pytest.raises(RunStoreError) as caught:
                contender.acquire("r", heartbeat=False)
            assert caught.value.code == "RUN_LEASE_HELD"
        ctx.save_checkpoint("still mine")
        return "done"

    journal.ledger().start("r")
    with caplog.at_level(logging.WARNING, logger="runjournal"):
        record = Worker(journal, handler, lease_ttl=TTL).run_once()
    assert record is not None
    assert (record.status, record.attempt, record.fencing_token) == ("completed", 1, 1)
    assert caplog.text == ""
    verify_run(journal, "r")


def test_case_07_handler_that_holds_the_gil(
    journal: Journal, verify_run: Verify, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can renew then: what it writes later is refused, the next attempt completes."""
    refused: list[str] = []

    def handler(ctx: WorkerContext) -> int:
        if ctx.lease.attempt == 1:
            hold_the_gil(BLOCKS)
            try:
                ctx.save_checkpoint("late")
            except RunStoreError as e:
                refused.append(e.reason)
        return ctx.lease.attempt

    journal.ledger().start("r")
    worker = Worker(journal, handler, lease_ttl=TTL)
    with caplog.at_level(logging.WARNING, logger="runjournal"):
        first, second = worker.run_once(), worker.run_once()
    assert first is not None
    assert second is not None
    assert (first.status, refused) == ("running", ["expired"])
    assert (second.status, second.attempt, second.fencing_token) == ("completed", 2, 2)
    warnings = [r for r in caplog.records if r.name == "runjournal.beat"]
    assert len(warnings) <= 1  # the beat may learn of the loss before it comes to warn
    verify_run(journal, "r")


def test_case_07_late_beats_are_warned_about_once(
    wait_until: Until, caplog: pytest.LogCaptureFixture
) -> None:
    """Late by more than an interval, and renewed all the same: the run is kept, and told about."""
    with open_journal("memory:") as journal:
        ledger = journal.ledger(lease_ttl=10, heartbeat_every=0.1)
        with caplog.at_level(logging.WARNING, logger="runjournal"), ledger.acquire("r") as lease:
            for _ in range(2):
                hold_the_gil(0.3)
                at = lease.record.lease.expires_at  # type: ignore[union-attr]
                wait_until(lambda: lease.record.lease.expires_at > at)  # type: ignore[union-attr]  # noqa: B023
            assert lease.held
    (warning,) = caplog.records
    assert warning.name == "runjournal.beat"
    assert warning.getMessage().startswith("run r: its lease of 10 s was due for renewal 0.")


def answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_hands_back_what_stops_and_the_rest_is_taken_over_later(
    sqlite_url: str, start_script: Start, wait_until: Until, verify_run: Verify, number: int
) -> None:
    with open_journal(sqlite_url) as journal:
        for run_id in ("cooperative", "stubborn"):
            journal.ledger().start(run_id)
        process = start_script(HERE / "stubborn_worker.py", sqlite_url, 1, 0.1)
        wait_until(lambda: all(r.lease for r in journal.runs()))
        process.send_signal(number)
        assert answer(process) == {"runs": 2, "abandoned": ["stubborn"]}
        released = list(journal.events("cooperative"))[-1]
        assert (released.topic, released.reason) == ("run.lease_released", "shutdown")  # type: ignore[attr-defined]
        # The process lives and its handler works, and nothing renews the lease.
        second = journal.ledger(owner="second")
        taken: list[Any] = []

        def take_over() -> bool:
            taken.extend(lease for lease in second.claim(limit=9) if lease.run_id == "stubborn")
            return bool(taken)

        wait_until(take_over)
        assert (taken[0].fencing_token, taken[0].attempt) == (2, 2)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert answer(process) == [["RUN_LEASE_LOST", "abandoned"]] * 2
        taken[0].complete("the second's")
        assert [e.topic for e in journal.events("stubborn")] == [
            "run.queued",
            "run.lease_granted",
            "run.lease_granted",
            "run.completed",
        ]
        assert process.wait() == 0
        verify_run(journal, "stubborn")
