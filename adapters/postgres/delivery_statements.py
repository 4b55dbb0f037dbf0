"""The SQL statements of the outbox, named, each with why it is as it is."""

from __future__ import annotations

from .wire import BOOL, BYTES, BYTESES, INT8, INT8S, MOMENT, TEXT, TEXTS, named, statement

DELIVERY = (
    "invocation_id, run_id, delivery_ref, status, version, next_attempt_at, updated_at, head, body"
)
DELIVERY_TYPES = (TEXT, TEXT, TEXT, TEXT, INT8, MOMENT, MOMENT, TEXT, BYTES)

#: The version decides between two who would write, and the hash between two histories: one that
#: waits for the other's row looks at it again. An attempt's end is a column of its own, so nothing
#: is judged on the clock here.
ADVANCE_DELIVERY = named(
    "advance_delivery",
    """
    WITH u AS (
        UPDATE @delivery_outbox SET status = :status, version = :version, attention = NULL,
            next_attempt_at = :next_attempt_at, updated_at = :updated_at, head = :head,
            body = :body
        WHERE invocation_id = :invocation_id AND version = :expected_version
            AND head = coalesce(:expected_head, head)
        RETURNING true AS written
    ), e AS (
        INSERT INTO @events (stream, version, topic, state)
        SELECT n.* FROM u, unnest(:streams::text[], :versions::bigint[], :topics::text[],
            :states::bytea[]) AS n (stream, version, topic, state) ORDER BY n.version
    )
    SELECT written FROM u
    """,
    {
        "invocation_id": TEXT,
        "expected_version": INT8,
        "expected_head": TEXT,
        "status": TEXT,
        "version": INT8,
        "next_attempt_at": MOMENT,
        "updated_at": MOMENT,
        "head": TEXT,
        "body": BYTES,
        "streams": TEXTS,
        "versions": INT8S,
        "topics": TEXTS,
        "states": BYTESES,
    },
    (BOOL,),
)
#: The clock comes along, so that a decision has the store's instant.
GET_DELIVERY = statement(
    "get_delivery",
    f"""
    SELECT {", ".join("d." + c.strip() for c in DELIVERY.split(","))}, clock_timestamp()
    FROM (SELECT 1) AS one LEFT JOIN @delivery_outbox d ON d.invocation_id = $1
    """,
    (TEXT,),
    (*DELIVERY_TYPES, MOMENT),
)
#: Ordered by the index. The clock is asked once, before the index is: a volatile bound would be a
#: filter, and walk everything that is not yet due.
DUE_DELIVERIES = statement(
    "due_deliveries",
    """
    SELECT invocation_id, delivery_ref FROM @delivery_outbox
    WHERE status = $1 AND next_attempt_at <= (SELECT coalesce($2, clock_timestamp()))
        AND attention IS NULL AND ($3::text[] IS NULL OR delivery_ref = ANY ($3))
        AND delivery_ref <> ALL ($4::text[])
    ORDER BY next_attempt_at, invocation_id LIMIT $5
    """,
    (TEXT, MOMENT, TEXTS, TEXTS, INT8),
    (TEXT, TEXT),
)
_LIST = f"""
    SELECT {DELIVERY}, attention FROM @delivery_outbox
    WHERE ($1::text IS NULL OR status = $1) AND invocation_id > coalesce($2, '') {{only}}
    ORDER BY invocation_id LIMIT $3
"""
#: NULL stands for all and for the beginning.
LIST_DELIVERIES = statement(
    "list_deliveries", _LIST.format(only=""), (TEXT, TEXT, INT8), (*DELIVERY_TYPES, TEXT)
)
#: Along an index that holds nothing else.
DELIVERIES_FOR_ATTENTION = statement(
    "deliveries_for_attention",
    _LIST.format(only="AND status = 'unknown' AND next_attempt_at IS NULL AND attention IS NULL"),
    (TEXT, TEXT, INT8),
    (*DELIVERY_TYPES, TEXT),
)
#: The rest of the row stays as its events made it.
SET_ASIDE_DELIVERY = statement(
    "set_aside_delivery",
    "UPDATE @delivery_outbox SET attention = $2 WHERE invocation_id = $1",
    (TEXT, TEXT),
    (),
)
