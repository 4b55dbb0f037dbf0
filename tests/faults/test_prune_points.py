"""A prune is crossed with every fault at each of its boundaries: runs go whole, and once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest
from runjournal import Journal

from .checker import read_raw
from .scenes import FAULTS, WHEN, Scene

#: The boundaries of one batch.
BOUNDARIES = {"memory": 1, "sqlite": 2, "postgres": 3}


def prune(journal: Journal) -> bool:
    """Prune all that has ended; whether anything went."""
    return bool(journal.prune(journal.store.now() + timedelta(minutes=1), actor="keeper").runs)


def live(scene: Scene, name: str) -> set[str]:
    """Two runs that have ended and whose results have arrived."""
    names = {f"{name}-{n}" for n in range(2)}
    for run_id in names:
        assert scene.life(run_id).go_on()
    return names


def boundaries(scene: Scene) -> int:
    """How many boundaries a prune crosses when nothing goes wrong."""
    live(scene, "well")
    scene.points.at_work = lambda: "prune"
    scene.points.on = True
    assert prune(scene.first)
    scene.points.on = False
    assert len(scene.points.crossed) == BOUNDARIES[scene.backend], scene.points.crossed
    return len(scene.points.crossed)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_boundary_of_a_prune(scene: Scene, fault: str) -> None:
    spots = [(number, when) for number in range(boundaries(scene)) for when in WHEN]
    scene.heirs.ledger().start("another", command_id="another")
    told: Counter[str] = Counter()
    for spot in spots:
        ended = live(scene, f"{fault} {spot}")
        told[scene.meet(fault, spot, partial(prune, scene.first), partial(prune, scene.heirs))] += 1
        left = {run.run_id for run in scene.heirs.runs(limit=1000)} - {"another"}
        assert left in (ended, set()), "both in one transaction, or none"
        assert prune(scene.heirs) == bool(left)
        for run_id in ended:
            again = scene.first.ledger().start(
                run_id, run_id, delivery_ref="inbox", command_id="start"
            )
            assert again.status == "completed"
    print(f"{scene.backend}, prune, {fault}: {len(spots)} spots, told {dict(told)}")
    assert told.total() == 2 * BOUNDARIES[scene.backend]
    if scene.backend != "memory":
        streams = {stream for _, stream, *_ in read_raw(scene.url).events}
        assert streams == {"journal/audit", "run/another"}
    assert scene.heirs.verify().findings == []
