"""What the tests of projections share: a journal with something in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runjournal import Journal

Expected = dict[str, Any]


@pytest.fixture
def fill() -> Callable[..., None]:
    """Adds runs to a journal: of each, a start, a grant, some checkpoints, and an end."""

    def fill(journal: Journal, *run_ids: str, checkpoints: int = 2, kind: str = "import") -> None:
        ledger = journal.ledger(owner="worker-1")
        for run_id in run_ids:
            ledger.start(run_id, kind=kind)
            with ledger.acquire(run_id, heartbeat=False) as lease:
                for n in range(checkpoints):
                    lease.save_checkpoint(n)
                lease.complete()

    return fill


@pytest.fixture
def whole() -> Callable[[Journal], Expected]:
    """The rows that `Seen` makes of the whole journal, as its runs tell."""

    def whole(journal: Journal) -> Expected:
        return {
            run.run_id: {"versions": list(range(1, run.version + 1))}
            for run in journal.runs(limit=1000)
        }

    return whole
