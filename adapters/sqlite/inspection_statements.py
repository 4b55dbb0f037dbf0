"""The SQL statements that look at a whole SQLite journal, each with its one line of why."""

from __future__ import annotations

#: One pass over the runs' rows answers all there is to ask of them.
RUN_GROUPS = (
    "SELECT kind, status, count(*), count(*) FILTER (WHERE ready_at <= ?1),"
    " min(ready_at) FILTER (WHERE ready_at <= ?1), count(attention), min(updated_at)"
    " FROM runs GROUP BY kind, status"
)
#: A run that has ended is never written again, so its row tells when. Asked of those only whose
#: result is not delivered.
DELIVERY_GROUPS = (
    "SELECT d.status, count(*), count(*) FILTER (WHERE d.status = 'unknown'"
    " AND d.next_attempt_at IS NULL AND d.attention IS NULL), count(d.attention),"
    " min(CASE WHEN d.status <> 'delivered'"
    " THEN (SELECT updated_at FROM runs r WHERE r.run_id = d.run_id) END)"
    " FROM delivery_outbox d GROUP BY d.status"
)
UNDELIVERED_REFS = (
    "SELECT DISTINCT delivery_ref FROM delivery_outbox WHERE status <> 'delivered'"
    " ORDER BY delivery_ref LIMIT ?"
)
INDEXES = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
JOURNAL_MODE = "PRAGMA journal_mode"
SYNCHRONOUS = "PRAGMA synchronous"
