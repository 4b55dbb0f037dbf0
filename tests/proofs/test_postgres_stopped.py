"""A worker that is stopped past its lease and wakes up writes nothing more and reports the loss."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

WORKER = Path(__file__).parent.parent / "postgres" / "stopped_worker.py"
#: `make prove` sets it: the proof at full length.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
TTL = 10.0 if PROVE else 1.0
TIMES = 5 if PROVE else 1

Start = Callable[..., "subprocess.Popen[str]"]
Until = Callable[[Callable[[], Any]], None]
Verify = Callable[[Journal, str], None]


def acknowledged(process: subprocess.Popen[str], least: int) -> int:
    """Read what the worker saved until it is so much; the last one."""
    assert process.stdout is not None
    last = 0
    while last < least:
        last = int(process.stdout.readline().removeprefix("saved "))
    return last


@pytest.mark.slow
@pytest.mark.parametrize("heir_finishes", [True, False], ids=["finished", "taken over"])
def test_stopped_past_its_lease(
    postgres_url: str,
    start_script: Start,
    wait_until: Until,
    verify_run: Verify,
    heir_finishes: bool,
) -> None:
    with open_journal(postgres_url) as journal:
        ledger = journal.ledger(owner="second")
        for number in range(TIMES):
            run_id = f"run-{number}"
            ledger.start(run_id, delivery_ref="inbox")
            process = start_script(WORKER, postgres_url, TTL)
            # Longer than the ttl: the beat has renewed it at least once.
            acknowledged(process, least=5)
            process.send_signal(signal.SIGSTOP)
            assert ledger.claim() is None
            claimed: list[Any] = []
            wait_until(lambda: claimed.append(ledger.claim()) or claimed[-1])  # noqa: B023
            lease = claimed[-1]
            assert (lease.run_id, lease.fencing_token, lease.attempt) == (run_id, 2, 2)
            resumed = lease.checkpoint["n"]
            lease.save_checkpoint({"n": resumed + 1, "by": "second"})
            if heir_finishes:
                lease.complete("second")
            before = list(journal.events(run_id))
            process.send_signal(signal.SIGCONT)
            output, log = process.communicate()
            assert process.returncode == 0, log
            *saved, last = output.splitlines()
            # Whatever it acknowledged, it had saved before the takeover.
            assert max((int(s.removeprefix("saved ")) for s in saved), default=0) <= resumed
            said = json.loads(last)
            status = "completed by None" if heir_finishes else "running by second"
            assert said.pop("reported") == status
            assert set(said) == {"save_checkpoint", "renew", "release", "complete"}
            assert set(said.values()) == {"RUN_LEASE_LOST/taken_over"}
            assert "token 1 is stale" in log
            assert list(journal.events(run_id)) == before
            verify_run(journal, run_id)
            lease.complete("second")
            verify_run(journal, run_id)
            logging.getLogger(__name__).info("%s was taken over at %d", run_id, resumed)
