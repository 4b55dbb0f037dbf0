"""The Postgres schema as numbered migrations, and who applies them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import dedent
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from ...domain.checks import check_identifier, refuse
from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError

#: Taken while migrating, so that of several starting processes one migrates and the rest wait.
LOCK = 0x524A4E4C
#: Of a longer name Postgres keeps so many bytes, and drops the rest without an error.
NAME_BYTES = 63

#: @ stands for the schema, where a name is looked up later on.
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
    """
    -- attention: why a row that cannot be read was set aside.
    ALTER TABLE delivery_outbox ADD COLUMN attention text;
    CREATE INDEX delivery_outbox_due ON delivery_outbox (status, next_attempt_at)
        WHERE next_attempt_at IS NOT NULL AND attention IS NULL;
    CREATE INDEX delivery_outbox_attention ON delivery_outbox (invocation_id)
        WHERE status = 'unknown' AND next_attempt_at IS NULL;
    CREATE INDEX delivery_outbox_aside ON delivery_outbox (run_id) WHERE attention IS NOT NULL;
    """,
    """
    -- The projections of the users' own. in_service: the table that has the rows; tables_made: the
    -- number of the newest table, so that no name is ever given out twice.
    CREATE TABLE projections (
        name               text COLLATE "C" PRIMARY KEY,
        projection_version bigint NOT NULL,
        in_service         text COLLATE "C" NOT NULL,
        position           bigint NOT NULL,
        parked_at          bigint,
        parked_error       text,
        updated_at         timestamptz NOT NULL,
        tables_made        bigint NOT NULL
    ) WITH (fillfactor = 50);
    """,
    """
    -- parent_run_id: also in the body; a column, so that a run's children are found. ended_at: a
    -- run's last event is its end; a column, since an index on updated_at would be touched by
    -- every checkpoint.
    ALTER TABLE runs
        ADD COLUMN parent_run_id text COLLATE "C",
        ADD COLUMN ended_at timestamptz GENERATED ALWAYS AS
            (CASE WHEN status IN ('completed', 'failed', 'cancelled') THEN updated_at END) STORED;
    -- json cannot read an escaped NUL in any text of the body, and no id has one.
    UPDATE runs SET parent_run_id =
        replace(convert_from(body, 'UTF8'), '\\u0000', '\\u0001')::json ->> 'parent_run_id'
        WHERE position('"parent_run_id"'::bytea IN body) > 0;
    CREATE INDEX runs_children ON runs (parent_run_id)
        WHERE parent_run_id IS NOT NULL AND status IN ('queued', 'running', 'suspended');
    CREATE INDEX runs_ended ON runs (ended_at, run_id) WHERE ended_at IS NOT NULL;
    -- What is left of streams that were pruned. A run that came back from elsewhere can be pruned
    -- a second time: one for each audit event.
    CREATE TABLE tombstones (
        stream        text COLLATE "C" NOT NULL,
        audit_version bigint NOT NULL,
        version       bigint NOT NULL,
        head          text NOT NULL,
        body          bytea,
        PRIMARY KEY (stream, audit_version)
    );
    CREATE INDEX tombstones_audit ON tombstones (audit_version, stream);
    -- A trigger, and no condition of the statement that inserts: a start that waits for the prune
    -- of the same id has begun before there was a tombstone. This looks after the wait.
    CREATE FUNCTION refuse_pruned() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM @tombstones WHERE stream = 'run/' || NEW.run_id
                       AND (version, head) <> (NEW.version, NEW.head)) THEN
                RAISE unique_violation USING MESSAGE = 'another run of this id was pruned';
            END IF;
            RETURN NULL;
        END $$;
    CREATE TRIGGER runs_pruned AFTER INSERT ON runs FOR EACH ROW EXECUTE FUNCTION refuse_pruned();
    """,
    """
    -- Which server and which timeline this is; NULL where the server does not tell.
    CREATE FUNCTION this_server() RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        RETURN (SELECT system_identifier FROM pg_control_system())
            || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8);
    EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_function
        OR object_not_in_prerequisite_state THEN
        RETURN NULL;
    END $$;
    -- One row. epoch: what every fencing token that is granted from now on is above. server: where
    -- they are granted; the table's oid is another one wherever a dump was restored.
    CREATE TABLE token_epoch (epoch bigint NOT NULL, server text);
    INSERT INTO token_epoch VALUES (0, this_server() || '/' || 'token_epoch'::regclass::oid);
    """,
)


def migrate(conn: psycopg.Connection[Any], schema: str) -> list[int]:
    """Bring the namespace up to date; the numbers of the migrations that were applied.

    All of them in one transaction under an advisory lock. A database that is up to date is only
    read, so that a role without any right to create can open it.
    Raises RUN_INTEGRITY_ERROR / newer_database.
    """
    with _autocommit(conn):
        if not missing(conn, schema):
            return []
        with conn.transaction():
            return _migrate(conn, schema)


def _migrate(conn: psycopg.Connection[Any], schema: str) -> list[int]:
    # What others did while the lock was waited for must be seen.
    conn.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    conn.execute(_lock(schema).encode())
    numbers = missing(conn, schema)
    # Asking for a schema that exists needs the right to create one all the same.
    if numbers and not _exists(conn, schema):
        conn.execute(_creation(schema).encode())
    if numbers:
        conn.execute(_body(schema, numbers).encode())
    return numbers


def missing(conn: psycopg.Connection[Any], schema: str) -> list[int]:
    """The numbers of the migrations that the namespace lacks, without changing anything.

    Raises RUN_INTEGRITY_ERROR / newer_database.
    """
    with _autocommit(conn):
        return list(range(_version(conn, schema) + 1, len(MIGRATIONS) + 1))


def script(schema: str, numbers: list[int]) -> str:
    """What `migrate` does for these migrations, as SQL that somebody else can run.

    One transaction. Run where it does not fit, it fails and changes nothing.
    """
    if not numbers:
        return f"-- runjournal: nothing to do, the schema has version {len(MIGRATIONS)}.\n"
    return (
        f"-- runjournal: migrations {numbers[0]} to {numbers[-1]}, in one transaction.\n"
        f"BEGIN;\n{_lock(schema)};\n{_creation(schema)};\n{_body(schema, numbers)}COMMIT;\n"
    )


def check(conn: psycopg.Connection[Any], schema: str) -> None:
    """Refuse a namespace that this code cannot work with as it is.

    Raises RUN_INTEGRITY_ERROR / not_a_journal or newer_database.
    """
    if numbers := missing(conn, schema):
        lacks = f"has no migration {numbers[0]}" if numbers[0] > 1 else "holds no journal"
        raise RunStoreError(
            RUN_INTEGRITY_ERROR,
            "not_a_journal",
            f"schema {schema!r} {lacks}; `runjournal migrate` brings it up to date",
        )


def check_name(schema: str) -> None:
    """Refuse what Postgres would refuse as a schema's name, shorten, or take for something else.

    Raises RUN_VALIDATION_ERROR / identifier.
    """
    check_identifier(schema, "schema")
    if len(schema.encode()) > NAME_BYTES:
        raise refuse("identifier", f"schema {schema!r} is longer than {NAME_BYTES} bytes")
    if schema.startswith("pg_") or schema in ("information_schema", "$user"):
        raise refuse("identifier", f"schema {schema!r} is a name that Postgres keeps for itself")


@contextmanager
def _autocommit(conn: psycopg.Connection[Any]) -> Iterator[None]:
    """Transactions are ours alone: a host's pool may hand out connections that begin their own."""
    if conn.autocommit:
        yield
        return
    conn.autocommit = True
    try:
        yield
    finally:
        if not conn.closed:
            conn.autocommit = False


def _version(conn: psycopg.Connection[Any], schema: str) -> int:
    """How many migrations the namespace has; 0 where there is no journal."""
    check_name(schema)
    # Looked up in the catalog's tables: to_regclass asks this backend's cache, which has not heard
    # of what others created while the lock was waited for.
    (exists,) = conn.execute(
        "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = 'runjournal_schema')",
        (schema,),
        prepare=False,  # a pooler would give the next call another server's connection
    ).fetchone() or (False,)
    if not exists:
        return 0
    table = Identifier(schema, "runjournal_schema")
    (found,) = conn.execute(
        SQL("SELECT coalesce(max(version), 0) FROM {0}").format(table), prepare=False
    ).fetchone() or (0,)
    if found > len(MIGRATIONS):
        raise RunStoreError(
            RUN_INTEGRITY_ERROR,
            "newer_database",
            f"schema {schema!r} has version {found}; this code knows {len(MIGRATIONS)}",
        )
    return int(found)


def _exists(conn: psycopg.Connection[Any], schema: str) -> bool:
    row = conn.execute(
        "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", (schema,), prepare=False
    ).fetchone()
    return row is not None and bool(row[0])


def _lock(schema: str) -> str:
    # Inside a DO block it gives no row, which psql would print.
    name = Literal(schema).as_string(None)
    text = Literal(f"BEGIN PERFORM pg_advisory_xact_lock({LOCK}, hashtext({name})); END")
    return f"DO {text.as_string(None)}"


def _creation(schema: str) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {Identifier(schema).as_string(None)}"


def _body(schema: str, numbers: list[int]) -> str:
    """The migrations themselves, and the note that they were applied."""
    prefix = Identifier(schema).as_string(None) + "."
    steps = [
        f"-- Migration {number}.\n{dedent(MIGRATIONS[number - 1]).strip().replace('@', prefix)}\n"
        f"INSERT INTO runjournal_schema VALUES ({number});\n"
        for number in numbers
    ]
    return (
        f"SET LOCAL search_path TO {Identifier(schema).as_string(None)};\n"
        f"CREATE TABLE IF NOT EXISTS runjournal_schema (version bigint PRIMARY KEY);\n"
        f"{''.join(steps)}"
    )
