"""The SQL statements that read the whole journal, and those of the library's own contract."""

from __future__ import annotations

from .wire import BOOL, BYTES, BYTESES, INT8, INT8S, TEXT, TEXTS, statement

# The journal in order.

#: A standby does not show the primary's locks, so it says what it is.
HIGHEST = statement(
    "highest",
    "SELECT max(position), pg_is_in_recovery() FROM @events",
    (),
    (INT8, BOOL),
)
#: The first hole above $1 and below $2, found along the index.
HOLES = statement(
    "holes",
    """
    SELECT before + 1 FROM (
        SELECT position, lag(position, 1, $1) OVER (ORDER BY position) AS before
        FROM @events WHERE position > $1 AND position <= $2
    ) AS p WHERE position > before + 1 ORDER BY position LIMIT 1
    """,
    (INT8, INT8),
    (INT8,),
)
#: Whoever has inserted into the events table and not yet ended, as nobody else locks it so.
WRITERS = statement(
    "writers",
    """
    SELECT DISTINCT virtualtransaction, pid::bigint FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'RowExclusiveLock' AND granted
        AND relation = '@events'::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """,
    (),
    (TEXT, INT8),
)
NOTIFICATIONS = statement(
    "notifications",
    """
    SELECT position, stream, version, topic, state FROM @events
    WHERE position >= $1 AND position <= $2 AND ($3::text[] IS NULL OR topic = ANY ($3))
    ORDER BY position LIMIT $4
    """,
    (INT8, INT8, TEXTS, INT8),
    (INT8, TEXT, INT8, TEXT, BYTES),
)

# The library's own contract.

INSERT_EVENTS = statement(
    "insert_events",
    """
    INSERT INTO @events (stream, version, topic, state)
    SELECT n.* FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[])
        WITH ORDINALITY AS n (stream, version, topic, state, place)
    ORDER BY place RETURNING position
    """.replace("n.*", "n.stream, n.version, n.topic, n.state"),
    (TEXTS, INT8S, TEXTS, BYTESES),
    (INT8,),
)
INSERT_SNAPSHOTS = INSERT_EVENTS._replace(
    name=b"runjournal_insert_snapshots",
    text=INSERT_EVENTS.text.replace(b"INTO @events", b"INTO @snapshots").replace(
        b"RETURNING position", b"RETURNING version"
    ),
)
#: $5: newest first. Two bounds that are always given keep it one plan.
SELECT_EVENTS = statement(
    "select_events",
    """
    SELECT stream, version, topic, state FROM @events
    WHERE stream = $1 AND version > $2 AND version <= $3
    ORDER BY CASE WHEN $5 THEN -version ELSE version END LIMIT $4
    """,
    (TEXT, INT8, INT8, INT8, BOOL),
    (TEXT, INT8, TEXT, BYTES),
)
SELECT_SNAPSHOTS = SELECT_EVENTS._replace(
    name=b"runjournal_select_snapshots",
    text=SELECT_EVENTS.text.replace(b"FROM @events", b"FROM @snapshots"),
)
INSERT_TRACKING = statement(
    "insert_tracking",
    """
    INSERT INTO @tracking VALUES ($1, $2) ON CONFLICT (application_name)
    DO UPDATE SET notification_id = excluded.notification_id
    WHERE tracking.notification_id < excluded.notification_id RETURNING notification_id
    """,
    (TEXT, INT8),
    (INT8,),
)
MAX_TRACKING = statement(
    "max_tracking",
    "SELECT notification_id FROM @tracking WHERE application_name = $1",
    (TEXT,),
    (INT8,),
)
