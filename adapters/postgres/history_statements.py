"""The SQL statements of checking and rebuilding, named, each with why it is as it is."""

from __future__ import annotations

from ...domain.history_store import Table
from .wire import BOOL, BYTES, INT8, MOMENT, TEXT, TEXTS, Statement, Type, named, statement

#: Pages along the primary key: no snapshot is held, so vacuum goes on.
WALK = statement(
    "walk",
    "SELECT stream, version, topic, state FROM @events WHERE (stream, version) > ($1, $2)"
    " ORDER BY stream, version LIMIT $3",
    (TEXT, INT8, INT8),
    (TEXT, INT8, TEXT, BYTES),
)
#: Along the same key, without a look at the events where vacuum has been.
STREAM_AFTER = statement(
    "stream_after",
    "SELECT stream FROM @events WHERE stream > $1 ORDER BY stream, version LIMIT 1 OFFSET $2",
    (TEXT, INT8),
    (TEXT,),
)
NAMES: dict[Table, str] = {"run_records": "runs", "delivery_outbox": "delivery_outbox"}
_KEY: dict[Table, str] = {"run_records": "run_id", "delivery_outbox": "invocation_id"}
#: The columns of an image, the key first.
RUN: dict[str, Type] = {
    "run_id": TEXT,
    "version": INT8,
    "head": TEXT,
    "status": TEXT,
    "kind": TEXT,
    "parent_run_id": TEXT,
    "fencing_token": INT8,
    "created_at": MOMENT,
    "updated_at": MOMENT,
    "checkpoint": BYTES,
    "body": BYTES,
}
DELIVERY: dict[str, Type] = {
    "invocation_id": TEXT,
    "version": INT8,
    "head": TEXT,
    "status": TEXT,
    "run_id": TEXT,
    "delivery_ref": TEXT,
    "next_attempt_at": MOMENT,
    "updated_at": MOMENT,
    "body": BYTES,
}
_COLUMNS: dict[Table, dict[str, Type]] = {"run_records": RUN, "delivery_outbox": DELIVERY}

#: Whether what no event tells can be read: a deadline or a due time.
_DUE = (
    "(ready_at IS NULL OR"
    " (ready_at >= '0001-01-01 00:00:00Z' AND ready_at < '10000-01-01 00:00:00Z'))"
)
_READABLE: dict[Table, str] = {"run_records": _DUE, "delivery_outbox": "true"}

#: Rows in the order of their keys. One range of the index: with a condition that may be NULL, each
#: page would read on to the end of the table.
IMAGES: dict[Table, Statement] = {
    table: statement(
        f"images_{table}",
        f"SELECT {', '.join(columns)}, {_READABLE[table]} FROM @{NAMES[table]}"
        f" WHERE {_KEY[table]} > $1"
        f" AND {_KEY[table]} <= $2 ORDER BY {_KEY[table]} LIMIT $3",
        (TEXT, TEXT, INT8),
        (*columns.values(), BOOL),
    )
    for table, columns in _COLUMNS.items()
}
IMAGES_OF: dict[Table, Statement] = {
    table: statement(
        f"images_of_{table}",
        f"SELECT {', '.join(columns)}, {_READABLE[table]} FROM @{NAMES[table]}"
        f" WHERE {_KEY[table]} = ANY ($1)",
        (TEXTS,),
        (*columns.values(), BOOL),
    )
    for table, columns in _COLUMNS.items()
}


#: Of the rows of these keys, what they say of their streams.
HEADS_OF: dict[Table, Statement] = {
    table: statement(
        f"heads_of_{table}",
        f"SELECT {key}, version, head, status FROM @{NAMES[table]} WHERE {key} = ANY ($1)",
        (TEXTS,),
        (TEXT, INT8, TEXT, TEXT),
    )
    for table, key in _KEY.items()
}


def _set(columns: dict[str, Type]) -> str:
    return ", ".join(f"{name} = :{name}" for name in list(columns)[1:])


#: A status that takes a due time keeps the one there is, if it is one: a deadline is no fact, and
#: not repaired.
REPAIR_RUN = named(
    "repair_run",
    f"""
    UPDATE @runs SET {_set(RUN)}, attention = NULL,
        ready_at = CASE WHEN :status IN ('queued', 'running')
                        THEN coalesce(CASE WHEN {_DUE} THEN ready_at END, :ready_at) END
    WHERE run_id = :run_id AND version = :stored RETURNING true
    """,
    {**RUN, "ready_at": MOMENT, "stored": INT8},
    (BOOL,),
)
#: No other run of this id may have been pruned; the very same one may come back.
INSERT_RUN = named(
    "insert_run",
    f"""
    INSERT INTO @runs ({", ".join(RUN)}, ready_at)
    SELECT {", ".join(f":{name}" for name in RUN)}, :ready_at
    WHERE NOT EXISTS (SELECT FROM @tombstones WHERE stream = 'run/' || :run_id
                      AND (version, head) <> (:version, :head))
    ON CONFLICT DO NOTHING RETURNING true
    """,
    {**RUN, "ready_at": MOMENT},
    (BOOL,),
)
#: Going on with a run: what it was due for is over.
EXTEND_RUN = named(
    "extend_run",
    f"""
    UPDATE @runs SET {_set(RUN)}, attention = NULL, ready_at = :ready_at
    WHERE run_id = :run_id AND version = :stored RETURNING true
    """,
    {**RUN, "ready_at": MOMENT, "stored": INT8},
    (BOOL,),
)
REPAIR_DELIVERY = named(
    "repair_delivery",
    f"UPDATE @delivery_outbox SET {_set(DELIVERY)}, attention = NULL"
    " WHERE invocation_id = :invocation_id AND version = :stored RETURNING true",
    {**DELIVERY, "stored": INT8},
    (BOOL,),
)
INSERT_DELIVERY = named(
    "insert_delivery",
    f"INSERT INTO @delivery_outbox ({', '.join(DELIVERY)})"
    f" VALUES ({', '.join(f':{name}' for name in DELIVERY)})"
    " ON CONFLICT DO NOTHING RETURNING true",
    dict(DELIVERY),
    (BOOL,),
)
LAST_VERSION = statement(
    "last_version",
    "SELECT coalesce(max(version), 0) FROM @events WHERE stream = $1",
    (TEXT,),
    (INT8,),
)
EXISTS = statement(
    "table_exists",
    "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = $1 AND c.relname = $2)",
    (TEXT, TEXT),
    (BOOL,),
)
