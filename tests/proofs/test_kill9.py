"""Workers killed with SIGKILL in the middle of their checkpoints lose nothing they acknowledged."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

WORKER = Path(__file__).with_name("killed_worker.py")
POINTS, CHECKPOINTS = 50 if os.environ.get("RUNJOURNAL_PROVE") else 20, 200

Start = Callable[..., "subprocess.Popen[str]"]
Verify = Callable[[Journal, str], None]


def kill_after(process: subprocess.Popen[str], acknowledged: int, delay: float) -> int:
    """Kill the worker so many seconds after it acknowledged that checkpoint; the last it did."""
    assert process.stdout is not None
    for _ in range(acknowledged):
        assert process.stdout.readline()
    end = time.perf_counter() + delay
    while time.perf_counter() < end:  # shorter than any sleep
        pass
    process.kill()
    last = acknowledged
    for line in process.stdout.read().splitlines(keepends=True):
        if line.endswith("\n"):
            last = int(line)
    process.wait()
    return last


def later() -> datetime:
    """An instant at which the killed worker's lease has expired."""
    return datetime.now(UTC) + timedelta(hours=1)


def take_over(url: str, run_id: str, acknowledged: int, verify_run: Verify) -> int:
    """Finish the killed worker's run as another worker does; which checkpoint it went on from."""
    with open_journal(url) as journal:
        verify_run(journal, run_id)
        lease = journal.ledger(owner="heir", clock=later).claim()
        assert lease is not None
        assert (lease.run_id, lease.fencing_token, lease.attempt) == (run_id, 2, 2)
        resumed = lease.checkpoint["n"] if lease.checkpoint else 0
        # The last acknowledged one, or the one after it, whose acknowledgement never came.
        assert resumed in (acknowledged, acknowledged + 1)
        for number in range(resumed + 1, CHECKPOINTS + 1):
            lease.save_checkpoint({"n": number, "pad": "y" * 500})
        lease.complete({"resumed": resumed})
        assert_whole(journal, run_id, resumed)
        verify_run(journal, run_id)
    return int(resumed)


def assert_whole(journal: Journal, run_id: str, resumed: int) -> None:
    """Every checkpoint is there once, in order, the first ones by the killed worker."""
    events: list[Any] = list(journal.events(run_id))
    saved = [e.state for e in events if e.topic == "run.checkpoint_saved"]
    assert [s["n"] for s in saved] == list(range(1, CHECKPOINTS + 1))
    assert {s["pad"] for s in saved[:resumed]} <= {"x" * 500}
    grants = [e for e in events if e.topic == "run.lease_granted"]
    assert [(g.owner, g.originator_version) for g in grants] == [
        ("killed", 2),
        ("heir", resumed + 3),
    ]
    assert grants[1].took_over.owner == "killed"
    assert grants[1].took_over.fencing_token == 1
    assert [e.originator_version for e in events if e.topic == "run.completed"] == [len(events)]


@pytest.mark.slow
def test_kill_9_at_many_points(tmp_path: Path, start_script: Start, verify_run: Verify) -> None:
    """Workers on one file, each killed somewhere else within 200 checkpoints.

    Each time the file was left as it was, log and all, and is opened anew by the heir. The points
    really crossed are counted by the last acknowledged checkpoint: all must differ.
    """
    url = f"sqlite:///{tmp_path / 'journal.db'}"
    chance = random.Random(9)
    crossed: Counter[int] = Counter()
    in_flight = 0
    for number in range(2 * POINTS):
        if len(crossed) == POINTS:
            break
        run_id = f"run-{number}"
        process = start_script(WORKER, url, run_id, CHECKPOINTS)
        # Next to each point that is still wanted, and up to a few checkpoints' time after it.
        wanted = [n for n in range(1, CHECKPOINTS, CHECKPOINTS // POINTS) if n not in crossed]
        target = chance.choice(wanted)
        acknowledged = kill_after(process, target, chance.uniform(0, 0.0015))
        resumed = take_over(url, run_id, acknowledged, verify_run)
        crossed[acknowledged] += 1
        in_flight += resumed - acknowledged
    print(
        f"{crossed.total()} workers killed at {len(crossed)} different points, "
        f"{in_flight} of them between commit and acknowledgement"
    )
    assert len(crossed) == POINTS
    # All of it is still there at the end, however often the file was recovered since.
    with open_journal(url) as journal:
        runs = journal.runs(limit=1000)
        assert len(runs) == crossed.total()
        for run in runs:
            assert run.status == "completed"
            verify_run(journal, run.run_id)
