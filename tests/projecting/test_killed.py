"""Case 36: killed at any statement, a projection has every event in its rows once."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

from .projectors import Seen, tables_of

SCRIPT = Path(__file__).with_name("killed_projection.py")
PROVE = os.environ.get("RUNJOURNAL_PROVE") == "1"
#: Kills, and checkpoints of each of the three runs: enough that the kills find work to interrupt.
KILLS, CHECKPOINTS = (100, 300) if PROVE else (20, 80)

Fill = Callable[..., None]
Start = Callable[..., "subprocess.Popen[str]"]
Whole = Callable[[Journal], dict[str, Any]]

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


def killed(start_script: Start, url: str, what: str) -> dict[str, Any]:
    said, complaints = start_script(SCRIPT, url, what, KILLS, 36).communicate()
    assert said, complaints
    found: dict[str, Any] = json.loads(said)
    print(f"{what}: {Counter(found['crossed'])}")
    assert len(found["crossed"]) == KILLS
    # Killed at each statement that makes a difference: one by one, on either side of it.
    assert set(found["crossed"]) >= set(found["aims"])
    return found


def test_counts_are_exact_wherever_it_is_killed(
    url: str, start_script: Start, fill: Fill, whole: Whole
) -> None:
    with open_journal(url) as journal:
        fill(journal, "a", "b", "c", checkpoints=CHECKPOINTS)
        order = [(e.originator_id[4:], e.originator_version) for _, e in events_of(journal)]
    found = killed(start_script, url, "catch_up")
    # Each time the rows were what the position says, and it never went back.
    positions = [look["position"] for look in found["looks"]]
    assert positions == sorted(positions)
    for look in found["looks"]:
        rows: dict[str, Any] = {}
        for run_id, version in order[: look["position"]]:
            rows.setdefault(run_id, {"versions": []})["versions"].append(version)
        assert look["rows"] == rows
    with open_journal(url) as journal:
        assert dict(journal.projection(Seen()).rows()) == whole(journal)


def test_old_rows_serve_wherever_a_rebuild_is_killed(
    url: str, start_script: Start, fill: Fill, whole: Whole
) -> None:
    """Case 34: killed, and begun anew; at the end nothing of them is left over."""
    with open_journal(url) as journal:
        fill(journal, "a", "b", "c", checkpoints=12)
        journal.projection(Seen()).catch_up()
        expected = whole(journal)
    found = killed(start_script, url, "rebuild")
    assert all(look["rows"] == expected for look in found["looks"])
    with open_journal(url) as journal:
        runner = journal.projection(Seen())
        assert dict(runner.rows()) == expected
        state = runner.state()
        assert state is not None
        assert tables_of(journal) == {state.table}


def events_of(journal: Journal) -> list[Any]:
    return list(journal.subscribe(follow=False))
