"""The Postgres schema as numbered migrations, and who applies them."""

from __future__ import annotations

from typing import Any

import psycopg

from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError

#: Taken while migrating, so that of several starting processes one migrates and the rest wait.
LOCK = 0x524A4E4C

MIGRATIONS: tuple[str, ...] = (
    """
    -- cache 1: positions rise within a run, because they are drawn while its row is locked.
    CREATE TABLE events (
        position bigint GENERATED ALWAYS AS IDENTITY (CACHE 1),
        stream   text COLLATE "C" NOT NULL,
        version  bigint NOT NULL,
        topic    text COLLATE "C" NOT NULL,
        state    bytea NOT NULL,
        PRIMARY KEY (stream, version)
    );
    CREATE UNIQUE INDEX events_position ON events (position);
    -- The payload is JSON that does not shrink much; compressing it costs more than it saves.
    ALTER TABLE events ALTER COLUMN state SET STORAGE EXTERNAL;
    -- Room on each page for the next version of its rows: an update that stays on its page touches
    -- no index. ready_at: due time of a queued run, deadline of a held one, NULL once there is
    -- nothing to claim.
    CREATE TABLE runs (
        run_id        text COLLATE "C" PRIMARY KEY,
        kind          text COLLATE "C" NOT NULL,
        status        text COLLATE "C" NOT NULL,
        version       bigint NOT NULL,
        fencing_token bigint NOT NULL,
        ready_at      timestamptz,
        attention     text,
        created_at    timestamptz NOT NULL,
        updated_at    timestamptz NOT NULL,
        checkpoint    bytea,
        head          text NOT NULL,
        body          bytea NOT NULL,
        CHECK ((ready_at IS NOT NULL) = (status IN ('queued', 'running') AND attention IS NULL))
    ) WITH (fillfactor = 50);
    CREATE INDEX runs_ready ON runs (kind, ready_at) WHERE ready_at IS NOT NULL;
    CREATE INDEX runs_created ON runs (created_at, run_id);
    CREATE INDEX runs_attention ON runs (run_id) WHERE attention IS NOT NULL;
    CREATE TABLE delivery_outbox (
        invocation_id   text COLLATE "C" PRIMARY KEY,
        run_id          text COLLATE "C" NOT NULL,
        delivery_ref    text COLLATE "C" NOT NULL,
        status          text COLLATE "C" NOT NULL,
        version         bigint NOT NULL,
        next_attempt_at timestamptz,
        updated_at      timestamptz NOT NULL,
        head            text NOT NULL,
        body            bytea NOT NULL
    );
    CREATE TABLE tracking (
        application_name text COLLATE "C" PRIMARY KEY,
        notification_id  bigint NOT NULL
    );
    CREATE TABLE snapshots (
        stream  text COLLATE "C" NOT NULL,
        version bigint NOT NULL,
        topic   text COLLATE "C" NOT NULL,
        state   bytea NOT NULL,
        PRIMARY KEY (stream, version)
    );
    """,
)


def migrate(conn: psycopg.Connection[Any], schema: str) -> list[int]:
    """Bring the namespace up to date; the numbers of the migrations that were applied.

    All of them in one transaction under an advisory lock. A database that is up to date is only
    read, so that a role without any right to create can open it.
    Raises RUN_INTEGRITY_ERROR / newer_database.
    """
    if _version(conn, schema) == len(MIGRATIONS):
        return []
    with conn.transaction():
        conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK, schema))
        done = _version(conn, schema)
        conn.execute(
            psycopg.sql.SQL("CREATE SCHEMA IF NOT EXISTS {0}").format(
                psycopg.sql.Identifier(schema)
            )
        )
        conn.execute("SELECT set_config('search_path', quote_ident(%s), true)", (schema,))
        conn.execute("CREATE TABLE IF NOT EXISTS runjournal_schema (version bigint PRIMARY KEY)")
        applied = list(range(done + 1, len(MIGRATIONS) + 1))
        for number in applied:
            conn.execute(MIGRATIONS[number - 1].encode())
            conn.execute("INSERT INTO runjournal_schema VALUES (%s)", (number,))
    return applied


def _version(conn: psycopg.Connection[Any], schema: str) -> int:
    (exists,) = conn.execute(
        "SELECT to_regclass(quote_ident(%s) || '.runjournal_schema') IS NOT NULL", (schema,)
    ).fetchone() or (False,)
    if not exists:
        return 0
    table = psycopg.sql.Identifier(schema, "runjournal_schema")
    (version,) = conn.execute(
        psycopg.sql.SQL("SELECT coalesce(max(version), 0) FROM {0}").format(table)
    ).fetchone() or (0,)
    if version > len(MIGRATIONS):
        raise RunStoreError(
            RUN_INTEGRITY_ERROR,
            "newer_database",
            f"schema {schema!r} has version {version}; this code knows {len(MIGRATIONS)}",
        )
    return int(version)
