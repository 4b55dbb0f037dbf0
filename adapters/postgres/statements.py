"""Every SQL statement of the Postgres store, named, each with why it is as it is.

Three things hold for all that write. A run's row is locked first (`l`), and only then the clock is
read (`c`): a wait for the lock counts against a lease, which a plain WHERE on the deadline would
not see when the blocker only locked or rolled back. The locked row is joined by run_id, never by
ctid: a heartbeat that commits meanwhile moves the ctid and would make a false lost guard. And one
append is one statement in autocommit, so one round trip and one transaction.

`now`, where given, replaces the store's clock for that one statement. The clock is
clock_timestamp(), never now(), which stands still while a statement waits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from .wire import (
    BOOL,
    BYTES,
    BYTESES,
    FLOAT8,
    FLOAT8S,
    INT8,
    INT8S,
    MOMENT,
    TEXT,
    TEXTS,
    Type,
)


class Statement(NamedTuple):
    """A prepared statement: its name, its text, and the types of what goes in and comes out.

    Tables are written @name: `within` puts the journal's schema in their place, so that nothing
    depends on the search path of a connection, which may be the host's or a pooler's.
    """

    name: bytes
    text: bytes
    takes: tuple[Type, ...]
    gives: tuple[Type, ...]
    encoders: tuple[Callable[[Any], bytes], ...]
    decoders: tuple[Callable[[bytes], Any], ...]

    @property
    def oids(self) -> list[int]:
        return [t.oid for t in self.takes]

    def within(self, schema: str) -> bytes:
        """The text for the journal in this schema."""
        prefix = quoted(schema)
        literal = prefix.replace("'", "''")
        return re.sub(rb"('?)@", lambda m: m[1] + (literal if m[1] else prefix).encode(), self.text)


def quoted(schema: str) -> str:
    """The schema as it stands before a table's name."""
    return '"' + schema.replace('"', '""') + '".'


def statement(name: str, text: str, takes: tuple[Type, ...], gives: tuple[Type, ...]) -> Statement:
    return Statement(
        b"runjournal_" + name.encode(),
        text.encode(),
        takes,
        gives,
        tuple(t.encode for t in takes),
        tuple(t.decode for t in gives),
    )


_RECORD = (
    "run_id, kind, status, version, fencing_token, ready_at, created_at, updated_at,"
    " checkpoint, head, body"
)
_RECORD_TYPES = (
    TEXT, TEXT, TEXT, INT8, INT8, MOMENT, MOMENT, MOMENT, BYTES, TEXT, BYTES,
)  # fmt: skip

#: The hot path. ready_at moves only when less than half of the ttl is left; a CASE that keeps the
#: value keeps the update heap-only, so no index is touched.
SAVE_CHECKPOINT = statement(
    "save_checkpoint",
    """
    WITH l AS MATERIALIZED (
        SELECT run_id, ready_at FROM @runs
        WHERE run_id = $1 AND version = $2 AND fencing_token = $3 AND status = 'running'
        FOR UPDATE
    ), c AS MATERIALIZED (
        SELECT run_id, ready_at, coalesce($4, clock_timestamp()) AS at FROM l
    ), u AS (
        UPDATE @runs r SET
            version = $2 + 1, updated_at = $5, checkpoint = $6, head = $7,
            ready_at = CASE WHEN c.ready_at - c.at < make_interval(secs => $8 / 2)
                            THEN c.at + make_interval(secs => $8) ELSE r.ready_at END
        FROM c WHERE r.run_id = c.run_id AND c.ready_at > c.at
        RETURNING c.at, r.ready_at, c.ready_at AS before
    ), e AS (
        INSERT INTO @events (stream, version, topic, state)
        SELECT $9, $2 + 1, $10, $11 FROM u
    )
    SELECT at, ready_at, ready_at <> before FROM u
    """,
    (TEXT, INT8, INT8, MOMENT, MOMENT, BYTES, TEXT, FLOAT8, TEXT, TEXT, BYTES),
    (MOMENT, MOMENT, BOOL),
)

_EVENTS = """e AS (
        INSERT INTO @events (stream, version, topic, state)
        SELECT n.* FROM u, unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[])
            AS n (stream, version, topic, state) ORDER BY n.stream DESC, n.version
    ), o AS (
        INSERT INTO @delivery_outbox (invocation_id, run_id, delivery_ref, status, version,
            next_attempt_at, updated_at, head, body)
        SELECT $5, $6, $7, $8, $9, $10, $11, $12, $13 FROM u WHERE $5::text IS NOT NULL
    )"""
_EVENT_TYPES = (
    TEXTS, INT8S, TEXTS, BYTESES,
    TEXT, TEXT, TEXT, TEXT, INT8, MOMENT, MOMENT, TEXT, BYTES,
)  # fmt: skip

#: A new stream: that there is no row yet is the guard. Repeating it draws no position.
CREATE = statement(
    "create",
    f"""
    WITH c AS MATERIALIZED (SELECT coalesce($14, clock_timestamp()) AS at), u AS (
        INSERT INTO @runs (run_id, kind, status, version, fencing_token, ready_at, created_at,
            updated_at, checkpoint, head, body)
        SELECT $15, $16, $17, $18, $19,
            CASE WHEN $20::float8 IS NOT NULL THEN c.at + make_interval(secs => $20)
                 WHEN $17 = 'queued' THEN coalesce($21, c.at) END,
            $22, $23, $24, $25, $26 FROM c
        ON CONFLICT (run_id) DO NOTHING
        RETURNING ready_at
    ), {_EVENTS}
    SELECT c.at, u.ready_at, true FROM u, c
    """,
    (
        *_EVENT_TYPES, MOMENT,
        TEXT, TEXT, TEXT, INT8, INT8, FLOAT8, MOMENT, MOMENT, MOMENT, BYTES, TEXT, BYTES,
    ),
    (MOMENT, MOMENT, BOOL),
)  # fmt: skip

#: Any other change of a run, under no guard but its version, a live lease or an expired one. A run
#: that was set aside has no deadline left and counts as expired; its next append puts it back.
ADVANCE = statement(
    "advance",
    f"""
    WITH l AS MATERIALIZED (
        SELECT run_id, status, fencing_token, ready_at FROM @runs
        WHERE run_id = $15 AND version = $16 FOR UPDATE
    ), c AS MATERIALIZED (
        SELECT l.*, coalesce($14, clock_timestamp()) AS at FROM l
    ), u AS (
        UPDATE @runs r SET
            status = $17, version = $18, fencing_token = $19, attention = NULL,
            ready_at = CASE WHEN $20::float8 IS NOT NULL THEN c.at + make_interval(secs => $20)
                            WHEN $17 = 'queued' THEN coalesce($21, c.at) END,
            updated_at = $22, checkpoint = $23, head = $24, body = $25
        FROM c WHERE r.run_id = c.run_id AND (
            $26::bigint IS NULL
            OR c.status = 'running' AND c.fencing_token = $26 AND CASE
                WHEN $27 THEN c.ready_at > c.at ELSE coalesce(c.ready_at <= c.at, true) END
        )
        RETURNING c.at, r.ready_at
    ), {_EVENTS}
    SELECT at, ready_at, true FROM u
    """,
    (
        *_EVENT_TYPES, MOMENT,
        TEXT, INT8, TEXT, INT8, INT8, FLOAT8, MOMENT, MOMENT, BYTES, TEXT, BYTES, INT8, BOOL,
    ),
    (MOMENT, MOMENT, BOOL),
)  # fmt: skip


def _telling(statement: Statement) -> Statement:
    """The same, and a NOTIFY when it makes a run claimable.

    A NOTIFY serialises the commits of a whole database, so it is optional, and never sent by a
    checkpoint or a renewal.
    """
    told = (
        b"CASE WHEN $17 = 'queued' THEN (pg_notify('runjournal_' || md5('@'), '') IS NULL)"
        b" IS NOT NULL ELSE true END"
    )
    head, _, tail = statement.text.rpartition(b"true")
    return statement._replace(name=statement.name + b"_telling", text=head + told + tail)


CREATE_TELLING = _telling(CREATE)
ADVANCE_TELLING = _telling(ADVANCE)

# Leases.

_RENEW = """
    WITH w AS MATERIALIZED (
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::float8[]) AS w (run_id, token, ttl)
    ), l AS MATERIALIZED (
        SELECT r.run_id, r.ready_at, w.ttl FROM @runs r JOIN w ON r.run_id = w.run_id
        WHERE r.fencing_token = w.token AND r.status = 'running' AND r.ready_at IS NOT NULL
        ORDER BY r.run_id FOR UPDATE OF r {skip}
    ), c AS MATERIALIZED (
        SELECT l.*, coalesce($4, clock_timestamp()) AS at FROM l
    )
    UPDATE @runs r SET ready_at = greatest(c.ready_at, c.at + make_interval(secs => c.ttl))
    FROM c WHERE r.run_id = c.run_id AND c.ready_at > c.at
    RETURNING r.run_id, c.at, r.ready_at, r.ready_at > c.ready_at
"""
_RENEW_TYPES = ((TEXTS, INT8S, FLOAT8S, MOMENT), (TEXT, MOMENT, MOMENT, BOOL))
#: All leases of a ledger in one trip; a row that somebody else has locked holds nobody up.
RENEW = statement("renew", _RENEW.format(skip="SKIP LOCKED"), *_RENEW_TYPES)
#: One lease whose row was locked: waits, for as long as SET_LOCK_TIMEOUT allows.
RENEW_PATIENTLY = statement("renew_patiently", _RENEW.format(skip=""), *_RENEW_TYPES)

#: The kinds that have anything to claim, by hopping along the partial index.
CLAIMABLE_KINDS = statement(
    "claimable_kinds",
    """
    WITH RECURSIVE k (kind) AS (
        (SELECT kind FROM @runs WHERE ready_at IS NOT NULL ORDER BY kind LIMIT 1)
        UNION ALL
        SELECT (SELECT kind FROM @runs WHERE ready_at IS NOT NULL AND kind > k.kind
                ORDER BY kind LIMIT 1) FROM k WHERE k.kind IS NOT NULL
    ) SELECT kind FROM k WHERE kind IS NOT NULL
    """,
    (),
    (TEXT,),
)
#: One probe per kind: ordered by the index, so a backlog is never sorted; rows that another
#: worker is taking are passed over. Both bounds are asked once, before the index is: a volatile
#: one would be a filter, and walk every run that is not yet due. $4 skips the entries of finished
#: runs that an old snapshot keeps from being removed; the store knows when not to.
DUE = statement(
    "due",
    f"""
    SELECT {_RECORD}, coalesce($2, clock_timestamp()) FROM @runs
    WHERE kind = $1 AND ready_at >= $4
        AND ready_at <= (SELECT coalesce($2, clock_timestamp()))
    ORDER BY ready_at LIMIT $3 FOR UPDATE SKIP LOCKED
    """,
    (TEXT, MOMENT, INT8, MOMENT),
    (*_RECORD_TYPES, MOMENT),
)
_SET_ASIDE = (
    "UPDATE @runs SET ready_at = NULL, attention = $2 WHERE run_id = $1 AND attention IS NULL"
)
#: A claim sets aside what it cannot grant: a queued run, or one whose lease has expired.
SET_ASIDE = statement("set_aside", _SET_ASIDE, (TEXT, TEXT), ())
#: From outside a claim, only what nobody holds.
SET_ASIDE_QUEUED = statement(
    "set_aside_queued", _SET_ASIDE + " AND status = 'queued'", (TEXT, TEXT), ()
)
ATTENTION = statement(
    "attention",
    "SELECT run_id, attention FROM @runs WHERE attention IS NOT NULL ORDER BY run_id",
    (),
    (TEXT, TEXT),
)
#: For the transaction it stands in.
SET_LOCK_TIMEOUT = statement(
    "set_lock_timeout", "SELECT set_config('lock_timeout', $1, true)", (TEXT,), (TEXT,)
)
BEGIN = statement("begin", "BEGIN", (), ())
COMMIT = statement("commit", "COMMIT", (), ())
ROLLBACK = statement("rollback", "ROLLBACK", (), ())

# Reading.

#: The clock comes along, so that a decision has the store's instant.
GET = statement(
    "get",
    f"""
    SELECT {", ".join("r." + c.strip() for c in _RECORD.split(","))}, clock_timestamp()
    FROM (SELECT 1) AS one LEFT JOIN @runs r ON r.run_id = $1
    """,
    (TEXT,),
    (*_RECORD_TYPES, MOMENT),
)
#: Filters that are not asked for are NULL; the order of creation is the order of the pages.
LIST = statement(
    "list",
    f"""
    SELECT {_RECORD} FROM @runs
    WHERE ($1::text IS NULL OR status = $1) AND ($2::text IS NULL OR kind = $2)
        AND ($3::text IS NULL
             OR (created_at, run_id) > ((SELECT created_at FROM @runs WHERE run_id = $3), $3))
    ORDER BY created_at, run_id LIMIT $4
    """,
    (TEXT, TEXT, TEXT, INT8),
    _RECORD_TYPES,
)
READ_STREAM = statement(
    "read_stream",
    "SELECT stream, version, topic, state FROM @events WHERE stream = $1 AND version > $2"
    " ORDER BY version LIMIT $3",
    (TEXT, INT8, INT8),
    (TEXT, INT8, TEXT, BYTES),
)
