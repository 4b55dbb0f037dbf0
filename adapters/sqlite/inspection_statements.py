"""The SQL statements that look at a whole SQLite journal, each with its one line of why."""

from __future__ import annotations

#: Whether each row of a group has what it is counted by; with other types a sum is no number.
_RUNS_FIT = (
    "min(typeof(version) = 'integer' AND typeof(updated_at) = 'integer'"
    " AND typeof(ready_at) IN ('integer', 'null') AND typeof(attention) IN ('text', 'null'))"
)
_DELIVERIES_FIT = (
    "min(typeof(d.version) = 'integer' AND typeof(d.updated_at) = 'integer'"
    " AND typeof(d.next_attempt_at) IN ('integer', 'null')"
    " AND typeof(d.attention) IN ('text', 'null'))"
)
#: One pass over the runs' rows answers all there is to ask of them.
RUN_GROUPS = (
    "SELECT kind, status, count(*), count(*) FILTER (WHERE ready_at <= ?1),"
    " min(ready_at) FILTER (WHERE ready_at <= ?1), count(attention), min(updated_at), sum(version),"
    f" {_RUNS_FIT} FROM runs GROUP BY kind, status"
)
#: What was never tried was last written, and became due, with the end of its run. Of the others the
#: run's row tells, which is never written again; looking it up costs ten times as much.
DELIVERY_GROUPS = (
    "SELECT d.status, count(*), sum(d.version), count(*) FILTER (WHERE d.status = 'unknown'"
    " AND d.next_attempt_at IS NULL AND d.attention IS NULL), count(d.attention),"
    " min(CASE WHEN d.status = 'delivered' THEN NULL"
    " WHEN d.status = 'pending' AND d.next_attempt_at = d.updated_at THEN d.updated_at"
    " ELSE (SELECT updated_at FROM runs r WHERE r.run_id = d.run_id) END),"
    f" {_DELIVERIES_FIT} FROM delivery_outbox d GROUP BY d.status"
)
UNDELIVERED_REFS = (
    "SELECT DISTINCT delivery_ref FROM delivery_outbox WHERE status <> 'delivered'"
    " ORDER BY delivery_ref LIMIT ?"
)
INDEXES = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
JOURNAL_MODE = "PRAGMA journal_mode"
SYNCHRONOUS = "PRAGMA synchronous"
