"""A page of runs is found by the index, however many runs come before it."""

from __future__ import annotations

import psycopg
import pytest
from runjournal.adapters.postgres.prune_statements import ENDED
from runjournal.adapters.postgres.statements import LIST
from runjournal.adapters.postgres.wire import Statement


@pytest.mark.parametrize(
    ("statement", "values", "found"),
    [
        (LIST, "NULL, NULL, 'run', 5", "ROW(created_at, run_id) > "),
        (ENDED, "now(), now(), 'run', 5", "ROW(ended_at, run_id) > "),
    ],
    ids=["runs", "ended runs"],
)
def test_page_begins_where_it_begins(
    postgres_url: str, statement: Statement, values: str, found: str
) -> None:
    with psycopg.connect(postgres_url) as conn:
        # The plan that a prepared statement comes to after some uses, on a table worth an index.
        conn.execute("SET plan_cache_mode = force_generic_plan")
        conn.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        conn.execute(b"PREPARE page AS " + statement.within("public"))
        plan = [row[0] for row in conn.execute(f"EXPLAIN EXECUTE page ({values})".encode())]
    assert any(line.strip().startswith("Index Cond:") and found in line for line in plan), plan
    assert not any("Sort" in line for line in plan)
