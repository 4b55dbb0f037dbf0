"""A page of runs is found by the index, however many runs come before it."""

from __future__ import annotations

import sqlite3

import pytest
from runjournal.adapters.sqlite.prune_statements import ENDED
from runjournal.adapters.sqlite.statements import LIST_RUNS, MIGRATIONS


@pytest.mark.parametrize(
    ("query", "values", "found"),
    [
        (LIST_RUNS, (None, None, "run", 5), "runs_created ((created_at,run_id)>(?,?)"),
        (ENDED, (2, 1, "run", 5), "runs_ended ((updated_at,run_id)>(?,?)"),
    ],
    ids=["runs", "ended runs"],
)
def test_page_begins_where_it_begins(query: str, values: tuple[object, ...], found: str) -> None:
    conn = sqlite3.connect(":memory:")
    conn.executescript("".join(MIGRATIONS))
    plan = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {query}", values)]
    conn.close()
    assert plan[0].startswith(f"SEARCH runs USING INDEX {found}"), plan
    assert not any("TEMP B-TREE" in step for step in plan)
