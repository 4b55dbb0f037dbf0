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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .checker import Ack
from .failpoints import When
from .scenes import FAULTS, WHEN, Scene

#: `make prove` sets it: every spot. Else every third one, another third for each fault.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
THIRD = 1 if PROVE else 3
PROCESS = Path(__file__).with_name("killed_process.py")
#: How many boundaries a life crosses, when nothing goes wrong.
BOUNDARIES = {"memory": 14, "sqlite": 28, "postgres": 16}

Start = Callable[..., "subprocess.Popen[str]"]
Until = Callable[[Callable[[], Any]], None]


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
    run_id = f"{fault}-{when}-{number}"
    life, heir = scene.life(run_id), scene.heir(run_id)
    scene.points.at_work = lambda: life.step
    told = scene.meet(fault, (number, when), life.go_on, heir.go_on)
    assert heir.go_on(), f"{run_id} cannot be finished"
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
