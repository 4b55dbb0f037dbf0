"""Every commit boundary of a run's whole life is crossed with every fault, and nothing breaks.

A life is started, claimed, checkpointed three times, suspended, decided, resumed, completed and
delivered. At one spot of it, before or after one boundary, one thing goes wrong. Then somebody else
finishes it, and `checker` proves the whole journal from its events.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.sqlite import database as sqlite_database
from runjournal.domain.errors import (
    RUN_ALREADY_TERMINAL,
    RUN_LEASE_LOST,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
)

from ..postgres.fixtures import impatient  # noqa: F401 - so pytest finds it
from .checker import Ack, check, read_raw
from .failpoints import Failpoints, When, watch_postgres, watch_sqlite, watch_store
from .life import Life, later

#: `make prove` sets it: every spot. Else every third one, another third for each fault.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
THIRD = 1 if PROVE else 3
PROCESS = Path(__file__).with_name("killed_process.py")
WHEN: tuple[When, ...] = get_args(When)

#: raise      the driver fails once
#: gone       it fails, and so does all that is tried after it
#: interrupt  KeyboardInterrupt
#: hang       nothing happens until somebody else, for whom the lease is over, did what he could
FAULTS = ("raise", "gone", "interrupt", "hang")
#: The errors that may reach whoever met the fault.
MET = {
    "raise": {RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE},
    # "Nothing to do": what was sent is left for somebody to report on, which is no error.
    "gone": {RUN_OUTCOME_UNKNOWN, RUN_STORE_UNAVAILABLE, "nothing to do"},
    "interrupt": {"KeyboardInterrupt"},
    "hang": {RUN_LEASE_LOST, RUN_ALREADY_TERMINAL, "nothing to do"},
}
#: How many boundaries a life crosses, when nothing goes wrong.
BOUNDARIES = {"memory": 14, "sqlite": 28, "postgres": 16}

Start = Callable[..., "subprocess.Popen[str]"]
Until = Callable[[Callable[[], Any]], None]


class Scene(NamedTuple):
    """A journal for whoever meets the faults, another for the heirs, and what both were told."""

    backend: str
    url: str
    first: Journal
    heirs: Journal
    points: Failpoints
    acks: list[Ack]
    received: list[str]

    def life(self, run_id: str) -> Life:
        return Life(
            self.first, run_id, f"first of {run_id}", self.acks.append, self.received.append
        )

    def heir(self, run_id: str) -> Life:
        return Life(
            self.heirs, run_id, f"heir of {run_id}", self.acks.append, self.received.append, later
        )

    def check(self) -> None:
        if self.backend != "memory":
            assert check(read_raw(self.url), self.acks, self.received) == []
        assert self.heirs.verify().findings == []


@pytest.fixture
def scene(
    journal_url: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    impatient: None,  # noqa: F811
) -> Iterator[Scene]:
    points = Failpoints()
    backend = journal_url.partition(":")[0].removesuffix("ql")
    # Who is locked out by a transaction that hangs need not wait for long to be told so.
    monkeypatch.setattr(sqlite_database, "PATIENCE", 0.05)
    watch_sqlite(points, monkeypatch.setattr)
    watch_postgres(points, monkeypatch.setattr)
    with open_journal(journal_url) as first:
        if backend == "memory":
            lost = RunStoreError(RUN_OUTCOME_UNKNOWN, "reply_lost", "lost")
            watch_store(points, monkeypatch.setattr, first.store, lost)
            yield Scene(backend, journal_url, first, first, points, [], [])
            return
        with open_journal(journal_url) as heirs:
            yield Scene(backend, journal_url, first, heirs, points, [], [])


def boundaries(scene: Scene) -> list[str]:
    """The boundaries of a life in which nothing goes wrong."""
    life = scene.life("well")
    scene.points.at_work = lambda: life.step
    scene.points.on = True
    assert life.go_on()
    scene.points.on = False
    return scene.points.crossed


def spots(scene: Scene, shift: int) -> list[tuple[int, When]]:
    """The spots to try: all of them, or every third from this one on."""
    names = boundaries(scene)
    assert len(names) == BOUNDARIES[scene.backend], names
    every = [(number, when) for number in range(len(names)) for when in WHEN]
    return every[shift % THIRD :: THIRD]


def live_through(scene: Scene, fault: str, number: int, when: When) -> str:
    """Live a life with one fault, and have it finished; what whoever met the fault was told."""
    points, run_id = scene.points, f"{fault}-{when}-{number}"
    life, heir = scene.life(run_id), scene.heir(run_id)

    def act(fail: Callable[[], None]) -> None:
        if fault == "interrupt":
            raise KeyboardInterrupt
        if fault == "hang":
            points.on = False
            try:
                heir.go_on()
            except RunStoreError as error:
                # A transaction that hangs keeps others out of the file.
                if (scene.backend, error.reason) != ("sqlite", "busy"):
                    raise
            points.on = True
            return
        points.gone = fault == "gone"
        fail()

    points.reset()
    points.choose(number, when, act)
    points.at_work = lambda: life.step
    points.on = True
    told = "nothing"
    try:
        told = "nothing" if life.go_on() else "nothing to do"
    except RunStoreError as error:
        told = error.code
    except KeyboardInterrupt:
        told = "KeyboardInterrupt"
    points.on = False
    assert points.fired, f"boundary {number} was not reached"
    assert told == "nothing" or told in MET[fault], (points.crossed[number], when, told)
    assert heir.go_on(), f"{run_id} cannot be finished after a fault at {points.crossed[number]}"
    # Whoever met the fault is not damaged by it.
    scene.first.ledger().start(f"after {run_id}")
    return told


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_boundary_with_every_fault(scene: Scene, fault: str) -> None:
    tried = spots(scene, FAULTS.index(fault))
    told = Counter(live_through(scene, fault, *spot) for spot in tried)
    assert told.total() == len(tried)
    assert not PROVE or len(tried) == 2 * BOUNDARIES[scene.backend]
    print(f"{scene.backend}, {fault}: {len(tried)} spots, who met it was told {dict(told)}")
    scene.check()


@pytest.mark.slow
@pytest.mark.parametrize("journal_url", ["sqlite", "postgres"], indirect=True)
def test_every_boundary_with_kill_9(
    scene: Scene, start_script: Start, wait_until: Until, tmp_path: Path
) -> None:
    log = tmp_path / "acks"
    tried = spots(scene, 2)
    process = start_script(PROCESS, scene.url, log)
    assert process.stdin is not None
    assert process.stdout is not None
    for number, when in tried:
        run_id = f"kill-{when}-{number}"
        process.stdin.write(f"{run_id} {number} {when}\n")
        process.stdin.flush()
        assert process.stdout.readline() == "-9\n", (number, when)
        # The server may still have to notice that the other end is gone.
        wait_until(scene.heir(run_id).go_on)
    for line in log.read_text().splitlines():
        said: dict[str, Any] = json.loads(line)
        if "ack" in said:
            scene.acks.append(Ack(*said["ack"]))
        else:
            scene.received.append(said["received"])
    print(f"{scene.backend}: {len(tried)} processes killed, each at another spot")
    scene.check()
