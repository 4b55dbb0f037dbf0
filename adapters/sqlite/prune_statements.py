"""The SQL statements of pruning in SQLite, named, each with its one line of why."""

from __future__ import annotations

from .statements import FIRST, RECORD

_ENDED = "status IN ('completed', 'failed', 'cancelled')"
#: Along the index of ended runs, from the page's beginning on (see LIST_RUNS).
ENDED = (
    f"SELECT {RECORD} FROM runs WHERE {_ENDED} AND updated_at < ?1"
    f" AND (updated_at, run_id) > (coalesce(?2, {FIRST}), coalesce(?3, ''))"
    " ORDER BY updated_at, run_id LIMIT ?4"
)
#: The same runs again, within the transaction that removes them.
ENDED_RUN = f"SELECT {RECORD} FROM runs WHERE run_id = ? AND {_ENDED}"
#: Along an index of those that have not ended.
LIVE_CHILD = (
    "SELECT run_id FROM runs WHERE parent_run_id = ?"
    " AND status IN ('queued', 'running', 'suspended') LIMIT 1"
)
POSITION = "SELECT position FROM events WHERE stream = ? AND version = ?"
DELETE_EVENTS = "DELETE FROM events WHERE stream = ?"
DELETE_RUN = "DELETE FROM runs WHERE run_id = ? AND version = ?"
DELETE_DELIVERY = "DELETE FROM delivery_outbox WHERE invocation_id = ? AND version = ?"

_TOMBSTONE = "stream, audit_version, version, head, body"
ADD_TOMBSTONE = (
    f"INSERT INTO tombstones ({_TOMBSTONE}) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
)
#: The last one: a run that came back may have been pruned again.
TOMBSTONE = (
    f"SELECT {_TOMBSTONE} FROM tombstones WHERE stream = ? ORDER BY audit_version DESC LIMIT 1"
)
TOMBSTONES = (
    f"SELECT {_TOMBSTONE} FROM tombstones WHERE (audit_version, stream) > (?, ?)"
    " ORDER BY audit_version, stream LIMIT ?"
)
