"""The SQL statements of checking and rebuilding, named, each with its one line of why."""

from __future__ import annotations

from ...domain.history_store import Table

#: Keys in one statement; SQLite takes 32,766 parameters.
KEYS = 500
NAMES: dict[Table, str] = {"run_records": "runs", "delivery_outbox": "delivery_outbox"}

#: Pages along the index of (stream, version): no long read transaction, no sorting.
WALK = (
    "SELECT stream, version, topic, state FROM events WHERE (stream, version) > (?, ?)"
    " ORDER BY stream, version LIMIT ?"
)
#: Along the same index, without a look at the events.
STREAM_AFTER = (
    "SELECT stream FROM events WHERE stream > ? ORDER BY stream, version LIMIT 1 OFFSET ?"
)
_RUN = (
    "run_id, version, head, status, kind, parent_run_id, fencing_token, created_at, updated_at,"
    " checkpoint, body"
)
_DELIVERY = (
    "invocation_id, version, head, status, run_id, delivery_ref, next_attempt_at, updated_at, body"
)
_COLUMNS: dict[Table, str] = {"run_records": _RUN, "delivery_outbox": _DELIVERY}
_KEY: dict[Table, str] = {"run_records": "run_id", "delivery_outbox": "invocation_id"}

#: Whether what no event tells can be read: a deadline or a due time, and a mark.
_IN_REACH = "ready_at BETWEEN -62135596800000000 AND 253402300799999999"
_DUE = f"(ready_at IS NULL OR (typeof(ready_at) = 'integer' AND {_IN_REACH}))"
_MARK = "typeof(attention) IN ('text', 'null')"
_READABLE: dict[Table, str] = {
    "run_records": f"{_DUE} AND {_MARK}",
    "delivery_outbox": _MARK,
}

#: Rows in the order of their keys. One range of the index: with a condition that may be NULL, each
#: page would read on to the end of the table.
IMAGES: dict[Table, str] = {
    table: (
        f"SELECT {columns}, {_READABLE[table]} FROM {NAMES[table]} WHERE {_KEY[table]} > ?1"
        f" AND {_KEY[table]} <= ?2 ORDER BY {_KEY[table]} LIMIT ?3"
    )
    for table, columns in _COLUMNS.items()
}


def images_of(table: Table, keys: int) -> str:
    """The rows of so many keys."""
    places = ", ".join("?" * keys)
    columns = f"{_COLUMNS[table]}, {_READABLE[table]}"
    return f"SELECT {columns} FROM {NAMES[table]} WHERE {_KEY[table]} IN ({places})"


def heads_of(table: Table, keys: int) -> str:
    """Of the rows of so many keys, what they say of their streams."""
    places = ", ".join("?" * keys)
    key = _KEY[table]
    return f"SELECT {key}, version, head, status FROM {NAMES[table]} WHERE {key} IN ({places})"


#: A status that takes a due time keeps the one there is, if it is one: a deadline is no fact, and
#: not repaired.
_READY_AT = (
    "ready_at = CASE WHEN ?4 IN ('queued', 'running')"
    f" THEN coalesce(CASE WHEN {_DUE} THEN ready_at END, ?12) END,"
    " attention = NULL"
)
#: Whoever writes a row meanwhile does so under its version; under one that is no number nobody can.
_VERSION = "(version = {version} OR typeof(version) <> 'integer')"
_UPDATE_RUN = (
    "UPDATE runs SET version = ?2, head = ?3, status = ?4, kind = ?5, parent_run_id = ?6,"
    " fencing_token = ?7, created_at = ?8, updated_at = ?9, checkpoint = ?10, body = ?11,"
    " {due} WHERE run_id = ?1 AND {version}"
)
REPAIR_RUN = _UPDATE_RUN.format(due=_READY_AT, version=_VERSION.format(version="?13"))
#: Going on with a run: what it was due for is over.
EXTEND_RUN = _UPDATE_RUN.format(due="ready_at = ?12, attention = NULL", version="version = ?13")
#: No other run of this id may have been pruned; the very same one may come back.
INSERT_RUN = (
    f"INSERT INTO runs ({_RUN}, ready_at)"
    " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12"
    " WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE stream = 'run/' || ?1"
    " AND (version, head) <> (?2, ?3))"
    " ON CONFLICT DO NOTHING"
)
REPAIR_DELIVERY = (
    "UPDATE delivery_outbox SET version = ?2, head = ?3, status = ?4, run_id = ?5,"
    " delivery_ref = ?6, next_attempt_at = ?7, updated_at = ?8, body = ?9, attention = ?10"
    " WHERE invocation_id = ?1 AND " + _VERSION.format(version="?11")
)
INSERT_DELIVERY = (
    f"INSERT INTO delivery_outbox ({_DELIVERY}, attention) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO NOTHING"
)
LAST_VERSION = "SELECT coalesce(max(version), 0) FROM events WHERE stream = ?"
EXISTS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
