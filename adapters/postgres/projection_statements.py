"""The SQL statements of the users' projections on Postgres.

Each projection has tables of its own, so the statements on them are made for the table; a name of
a prepared statement has at most 63 bytes, and so is a digest.
"""

from __future__ import annotations

from functools import cache
from hashlib import md5

from .wire import BYTES, BYTESES, INT8, INT8S, MOMENT, TEXT, TEXTS, Statement, Type, statement

_STATE = (
    "name, projection_version, in_service, position, parked_at, parked_error, updated_at,"
    " tables_made"
)
_STATE_TYPES = (TEXT, INT8, TEXT, INT8, INT8, TEXT, MOMENT, INT8)

STATES = statement("states", f"SELECT {_STATE} FROM @projections ORDER BY name", (), _STATE_TYPES)
STATE = statement(
    "state", f"SELECT {_STATE} FROM @projections WHERE name = $1", (TEXT,), _STATE_TYPES
)
#: $1: a schema's name. Looked up in the catalog: CREATE TABLE IF NOT EXISTS asks for the right to
#: create even where there is nothing to do.
TABLES = statement(
    "projection_tables",
    "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = $1 AND c.relkind = 'r' AND starts_with(c.relname::text, 'projection_')",
    (TEXT,),
    (TEXT,),
)
CREATE = statement(
    "create_projection",
    "INSERT INTO @projections (name, projection_version, in_service, position, updated_at,"
    " tables_made) VALUES ($1, $2, $3, 0, clock_timestamp(), 1) ON CONFLICT (name) DO NOTHING",
    (TEXT, INT8, TEXT),
    (),
)
RESUME = statement(
    "resume_projection",
    "UPDATE @projections SET parked_at = NULL, parked_error = NULL, updated_at = clock_timestamp()"
    " WHERE name = $1 AND parked_at = $2 RETURNING position",
    (TEXT, INT8),
    (INT8,),
)
NUMBER = statement(
    "number_shadow",
    "UPDATE @projections SET tables_made = tables_made + 1 WHERE name = $1 RETURNING tables_made",
    (TEXT,),
    (INT8,),
)
#: A newer shadow means that another rebuild has begun.
PROMOTE = statement(
    "promote",
    f"""
    UPDATE @projections SET projection_version = $4, in_service = $5, position = $6,
        parked_at = NULL, parked_error = NULL, updated_at = clock_timestamp()
    WHERE name = $1 AND in_service = $2 AND tables_made = $3 RETURNING {_STATE}
    """,
    (TEXT, TEXT, INT8, INT8, TEXT, INT8),
    _STATE_TYPES,
)
#: What an owner must run for a role that may not create tables. Key and body as everywhere here;
#: position: of the last event that touched the row.
TABLE = (
    'CREATE TABLE {table} (key text COLLATE "C" PRIMARY KEY, body bytea NOT NULL,'
    " position bigint NOT NULL)"
)


def _on(table: str, text: str, takes: tuple[Type, ...], gives: tuple[Type, ...]) -> Statement:
    text = text.replace("@rows", f"@{table}")
    return statement(f"rows_{md5(text.encode()).hexdigest()}", text, takes, gives)


@cache
def create_table(table: str) -> Statement:
    return _on(table, TABLE.format(table="@rows"), (), ())


@cache
def drop_table(table: str) -> Statement:
    return _on(table, "DROP TABLE IF EXISTS @rows", (), ())


@cache
def row(table: str) -> Statement:
    return _on(table, "SELECT body FROM @rows WHERE key = $1", (TEXT,), (BYTES,))


@cache
def rows(table: str) -> Statement:
    text = "SELECT key, body FROM @rows WHERE key = ANY ($1)"
    return _on(table, text, (TEXTS,), (TEXT, BYTES))


@cache
def page(table: str) -> Statement:
    text = "SELECT key, body FROM @rows WHERE key > coalesce($1, '') ORDER BY key LIMIT $2"
    return _on(table, text, (TEXT, INT8), (TEXT, BYTES))


_PUT = """
    INSERT INTO @rows (key, body, position)
    SELECT n.key, n.body, n.position
    FROM unnest($1::text[], $2::bytea[], $3::bigint[]) AS n (key, body, position) {guard}
    ON CONFLICT (key) DO UPDATE SET body = excluded.body, position = excluded.position
"""
_DELETE = "DELETE FROM @rows WHERE key = ANY ($4) {guard}"
_WRITES = (TEXTS, BYTESES, INT8S, TEXTS)


@cache
def fill(table: str) -> Statement:
    """Write rows, and delete others."""
    put, delete = _PUT.format(guard=""), _DELETE.format(guard="")
    return _on(table, f"WITH put AS ({put}) {delete}", _WRITES, ())


@cache
def save(table: str) -> Statement:
    """Rows and position in one statement, and so in one transaction and one trip.

    Whoever lost the exclusive hold without noticing finds another position, or another table; then
    `moved` has no row, and nothing is written.
    """
    text = f"""
        WITH moved AS (
            UPDATE @projections SET position = $8, parked_at = $9, parked_error = $10,
                updated_at = clock_timestamp()
            WHERE name = $5 AND in_service = $6 AND position = $7 RETURNING {_STATE}
        ), put AS ({_PUT.format(guard=", moved")}),
        gone AS ({_DELETE.format(guard="AND EXISTS (SELECT FROM moved)")})
        SELECT {_STATE} FROM moved
    """
    takes = (*_WRITES, TEXT, TEXT, INT8, INT8, INT8, TEXT)
    return _on(table, text, takes, _STATE_TYPES)
