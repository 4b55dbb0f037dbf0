"""The SQL statements that look at a whole journal on Postgres, each with why it is as it is."""

from __future__ import annotations

from .wire import BOOL, INT8, MOMENT, TEXT, statement

NOW = statement("now", "SELECT clock_timestamp()", (), (MOMENT,))
#: One pass over the runs' rows answers all there is to ask of them.
RUN_GROUPS = statement(
    "run_groups",
    """
    SELECT kind, status, count(*), count(*) FILTER (WHERE ready_at <= $1),
        min(ready_at) FILTER (WHERE ready_at <= $1), count(attention), min(updated_at),
        sum(version)::bigint
    FROM @runs GROUP BY kind, status
    """,
    (MOMENT,),
    (TEXT, TEXT, INT8, INT8, MOMENT, INT8, MOMENT, INT8),
)
#: What was never tried was last written, and became due, with the end of its run. Of the others the
#: run's row tells, which is never written again; looking it up costs ten times as much.
DELIVERY_GROUPS = statement(
    "delivery_groups",
    """
    SELECT d.status, count(*), sum(d.version)::bigint, count(*) FILTER (WHERE d.status = 'unknown'
        AND d.next_attempt_at IS NULL AND d.attention IS NULL), count(d.attention),
        min(CASE WHEN d.status = 'delivered' THEN NULL
            WHEN d.status = 'pending' AND d.next_attempt_at = d.updated_at THEN d.updated_at
            ELSE (SELECT updated_at FROM @runs r WHERE r.run_id = d.run_id) END)
    FROM @delivery_outbox d GROUP BY d.status
    """,
    (),
    (TEXT, INT8, INT8, INT8, INT8, MOMENT),
)
#: Tables and indexes of the journal and of its projections; $1: the schema's name.
SIZE = statement(
    "size",
    """
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND c.relkind = 'r'
        AND (c.relname = ANY
             ('{events,runs,delivery_outbox,tombstones,tracking,snapshots,projections}')
             OR starts_with(c.relname::text, 'projection_'))
    """,
    (TEXT,),
    (INT8,),
)
UNDELIVERED_REFS = statement(
    "undelivered_refs",
    "SELECT DISTINCT delivery_ref FROM @delivery_outbox WHERE status <> 'delivered'"
    " ORDER BY delivery_ref LIMIT $1",
    (INT8,),
    (TEXT,),
)
#: One that is not valid is kept up and not used: CREATE INDEX CONCURRENTLY was interrupted.
INDEXES = statement(
    "indexes",
    """
    SELECT c.relname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND i.indisvalid
    """,
    (TEXT,),
    (TEXT,),
)
#: The process that serves a connection. As plain text: nothing may be prepared to find that out.
PROCESS = b"SELECT pg_backend_pid()"
#: As this connection has them; and whether the server is a standby.
SERVER = statement(
    "server",
    "SELECT current_setting('fsync'), current_setting('full_page_writes'),"
    " current_setting('synchronous_commit'), pg_is_in_recovery()",
    (),
    (TEXT, TEXT, TEXT, BOOL),
)
