"""The SQL statements of pruning in Postgres, named, each with why it is as it is."""

from __future__ import annotations

from .delivery_statements import DELIVERY, DELIVERY_TYPES
from .statements import RECORD, RECORD_TYPES
from .wire import BYTES, BYTESES, INT8, INT8S, MOMENT, TEXT, TEXTS, statement

#: Along the index of ended runs; `ended_at` is a column of its own, because an index on
#: `updated_at` would make every checkpoint touch it. From the page's beginning on (see LIST).
ENDED = statement(
    "ended",
    f"""
    SELECT {RECORD} FROM @runs
    WHERE ended_at < $1
        AND (ended_at, run_id) > (coalesce($2::timestamptz, '-infinity'), coalesce($3, ''))
    ORDER BY ended_at, run_id LIMIT $4
    """,
    (MOMENT, MOMENT, TEXT, INT8),
    RECORD_TYPES,
)
#: The same runs again, within the transaction that removes them. Another prune's are passed over.
LOCK_ENDED = statement(
    "lock_ended",
    f"SELECT {RECORD} FROM @runs WHERE run_id = ANY ($1) AND ended_at IS NOT NULL"
    " ORDER BY run_id FOR UPDATE SKIP LOCKED",
    (TEXTS,),
    RECORD_TYPES,
)
_DELIVERIES = f"SELECT {DELIVERY} FROM @delivery_outbox WHERE invocation_id = ANY ($1)"
DELIVERIES_OF = statement("deliveries_of", _DELIVERIES, (TEXTS,), DELIVERY_TYPES)
LOCK_DELIVERIES = statement(
    "lock_deliveries",
    f"{_DELIVERIES} ORDER BY invocation_id FOR UPDATE SKIP LOCKED",
    (TEXTS,),
    DELIVERY_TYPES,
)
#: Along an index of those that have a parent and have not ended.
LIVE_CHILDREN = statement(
    "live_children",
    "SELECT parent_run_id, min(run_id) FROM @runs WHERE parent_run_id = ANY ($1)"
    " AND status IN ('queued', 'running', 'suspended') GROUP BY parent_run_id",
    (TEXTS,),
    (TEXT, TEXT),
)
#: Where the last event of each stream is: one look-up each, however long the streams are.
POSITIONS = statement(
    "positions",
    """
    SELECT e.stream, e.position FROM unnest($1::text[], $2::bigint[]) AS w (stream, version)
    JOIN @events e ON e.stream = w.stream AND e.version = w.version
    """,
    (TEXTS, INT8S),
    (TEXT, INT8),
)
DELETE_EVENTS = statement(
    "delete_events", "DELETE FROM @events WHERE stream = ANY ($1)", (TEXTS,), ()
)
_VERSIONED = "unnest($1::text[], $2::bigint[]) AS w (key, version) WHERE w.version = t.version"
DELETE_RUNS = statement(
    "delete_runs",
    f"DELETE FROM @runs t USING {_VERSIONED} AND t.run_id = w.key RETURNING t.run_id",
    (TEXTS, INT8S),
    (TEXT,),
)
DELETE_DELIVERIES = statement(
    "delete_deliveries",
    f"DELETE FROM @delivery_outbox t USING {_VERSIONED} AND t.invocation_id = w.key"
    " RETURNING t.invocation_id",
    (TEXTS, INT8S),
    (TEXT,),
)

_TOMBSTONE = "stream, audit_version, version, head, body"
_TOMBSTONE_TYPES = (TEXT, INT8, INT8, TEXT, BYTES)
#: An empty body stands for none: an array on the wire has no NULL here.
ADD_TOMBSTONES = statement(
    "add_tombstones",
    f"""
    INSERT INTO @tombstones ({_TOMBSTONE})
    SELECT n.stream, n.audit_version, n.version, n.head, nullif(n.body, '')
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::bytea[])
        AS n (stream, audit_version, version, head, body)
    ON CONFLICT DO NOTHING RETURNING version
    """,
    (TEXTS, INT8S, INT8S, TEXTS, BYTESES),
    (INT8,),
)
#: The last one of each: a run that came back may have been pruned again.
TOMBSTONES_OF = statement(
    "tombstones_of",
    f"SELECT DISTINCT ON (stream) {_TOMBSTONE} FROM @tombstones WHERE stream = ANY ($1)"
    " ORDER BY stream, audit_version DESC",
    (TEXTS,),
    _TOMBSTONE_TYPES,
)
TOMBSTONES = statement(
    "tombstones",
    f"SELECT {_TOMBSTONE} FROM @tombstones WHERE (audit_version, stream) > ($1, $2)"
    " ORDER BY audit_version, stream LIMIT $3",
    (INT8, TEXT, INT8),
    _TOMBSTONE_TYPES,
)
