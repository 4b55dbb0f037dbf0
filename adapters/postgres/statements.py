"""The SQL statements of leases, claims and readings, named, each with why it is as it is.

Three things hold for all that write, the appends (`append_statements.py`) included. A run's row is
locked first (`l`), and only then the clock is read (`c`): a wait for the lock counts against a
lease, which a plain WHERE on the deadline would not see when the blocker only locked or rolled
back. The locked row is joined by run_id, never by ctid: a heartbeat that commits meanwhile moves
the ctid and would make a false lost guard. And one append is one statement in autocommit, so one
round trip and one transaction.

`now`, where given, replaces the store's clock for that one statement. The clock is
clock_timestamp(), never now(), which stands still while a statement waits.
"""

from __future__ import annotations

from .wire import BOOL, BYTES, FLOAT8S, INT8, INT8S, MOMENT, TEXT, TEXTS, statement

RECORD = (
    "run_id, kind, status, version, fencing_token, ready_at, created_at, updated_at,"
    " checkpoint, head, body"
)
RECORD_TYPES = (
    TEXT, TEXT, TEXT, INT8, INT8, MOMENT, MOMENT, MOMENT, BYTES, TEXT, BYTES,
)  # fmt: skip

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
    SELECT {RECORD}, coalesce($2, clock_timestamp()) FROM @runs
    WHERE kind = $1 AND ready_at >= $4
        AND ready_at <= (SELECT coalesce($2, clock_timestamp()))
    ORDER BY ready_at LIMIT $3 FOR UPDATE SKIP LOCKED
    """,
    (TEXT, MOMENT, INT8, MOMENT),
    (*RECORD_TYPES, MOMENT),
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
    "SELECT run_id, attention FROM @runs WHERE attention IS NOT NULL UNION ALL"
    " SELECT run_id, attention FROM @delivery_outbox WHERE attention IS NOT NULL ORDER BY 1, 2",
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

# The token epoch.

#: With it, whether grants go on elsewhere than where this is.
TOKEN_EPOCH = statement(
    "token_epoch",
    "SELECT epoch, coalesce(server <> @this_server() || '/' || tableoid, false) FROM @token_epoch",
    (),
    (INT8, BOOL),
)
#: Whoever raises it notes where this is.
RAISE_EPOCH = statement(
    "raise_epoch",
    """
    UPDATE @token_epoch SET epoch = $1, server = @this_server() || '/' || tableoid
    WHERE epoch = $1 - 1 RETURNING epoch
    """,
    (INT8,),
    (INT8,),
)
#: A sequence does not roll back: positions that are passed over stay so.
PASS_OVER = statement(
    "pass_over",
    """
    SELECT setval(s.name, nextval(s.name) + $1)
    FROM (SELECT pg_get_serial_sequence('@events', 'position')::regclass AS name) AS s
    """,
    (INT8,),
    (INT8,),
)

# Reading.

#: The clock comes along, so that a decision has the store's instant.
GET = statement(
    "get",
    f"""
    SELECT {", ".join("r." + c.strip() for c in RECORD.split(","))}, clock_timestamp()
    FROM (SELECT 1) AS one LEFT JOIN @runs r ON r.run_id = $1
    """,
    (TEXT,),
    (*RECORD_TYPES, MOMENT),
)
#: Filters that are not asked for are NULL; the order of creation is the order of the pages. Where
#: a page begins is no OR: one would make the index be read from its start for each page.
LIST = statement(
    "list",
    f"""
    SELECT {RECORD} FROM @runs
    WHERE ($1::text IS NULL OR status = $1) AND ($2::text IS NULL OR kind = $2)
        AND (created_at, run_id) > (
            CASE WHEN $3::text IS NULL THEN '-infinity'
                 ELSE (SELECT created_at FROM @runs WHERE run_id = $3) END,
            coalesce($3, ''))
    ORDER BY created_at, run_id LIMIT $4
    """,
    (TEXT, TEXT, TEXT, INT8),
    RECORD_TYPES,
)
READ_STREAM = statement(
    "read_stream",
    "SELECT stream, version, topic, state FROM @events WHERE stream = $1 AND version > $2"
    " ORDER BY version LIMIT $3",
    (TEXT, INT8, INT8),
    (TEXT, INT8, TEXT, BYTES),
)
