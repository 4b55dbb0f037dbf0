"""The SQL statements of the users' projections in SQLite. `{table}` is one of their tables."""

from __future__ import annotations

_STATE = (
    "name, projection_version, in_service, position, parked_at, parked_error, updated_at,"
    " tables_made"
)
LAST_POSITION = "SELECT max(position) FROM events"
STATES = f"SELECT {_STATE} FROM projections ORDER BY name"
STATE = f"SELECT {_STATE} FROM projections WHERE name = ?"
TABLES = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'projection!_%' ESCAPE '!'"
)
CREATE = (
    "INSERT INTO projections (name, projection_version, in_service, position, updated_at,"
    " tables_made) VALUES (?, ?, ?, 0, ?, 1) ON CONFLICT DO NOTHING"
)
#: position: of the last event that touched the row.
CREATE_TABLE = (
    "CREATE TABLE {table} (key TEXT PRIMARY KEY, body BLOB NOT NULL, position INTEGER NOT NULL)"
    " STRICT"
)
#: Whoever lost the exclusive hold without noticing finds another position, or another table.
SAVE = (
    f"UPDATE projections SET position = ?, parked_at = ?, parked_error = ?, updated_at = ?"
    f" WHERE name = ? AND in_service = ? AND position = ? RETURNING {_STATE}"
)
RESUME = (
    "UPDATE projections SET parked_at = NULL, parked_error = NULL, updated_at = ?"
    " WHERE name = ? AND parked_at = ?"
)
NUMBER = "UPDATE projections SET tables_made = tables_made + 1 WHERE name = ? RETURNING tables_made"
#: A newer shadow means that another rebuild has begun.
PROMOTE = (
    "UPDATE projections SET projection_version = ?, in_service = ?, position = ?,"
    " parked_at = NULL, parked_error = NULL, updated_at = ?"
    f" WHERE name = ? AND in_service = ? AND tables_made = ? RETURNING {_STATE}"
)
ROW = "SELECT body FROM {table} WHERE key = ?"
#: Keys come as a JSON array: one statement for any number of them.
ROWS = "SELECT key, body FROM {table} WHERE key IN (SELECT value FROM json_each(?))"
PAGE = "SELECT key, body FROM {table} WHERE key > coalesce(?, '') ORDER BY key LIMIT ?"
PUT = (
    "INSERT INTO {table} (key, body, position) VALUES (?, ?, ?) ON CONFLICT (key)"
    " DO UPDATE SET body = excluded.body, position = excluded.position"
)
DELETE = "DELETE FROM {table} WHERE key = ?"
#: Dropping a large table at once would keep every writer waiting while its pages are freed.
DELETE_SOME = "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} LIMIT ?)"
DROP = "DROP TABLE {table}"
