"""The SQL statements that append to a run, named, each with why it is as it is.

What holds for all that write is said in `statements.py`. Nearly every append has one event and no
delivery: it has a form of its own, because arrays and the outbox cost a tenth of the whole trip.
"""

from __future__ import annotations

from .wire import (
    BOOL,
    BYTES,
    BYTESES,
    FLOAT8,
    INT8,
    INT8S,
    MOMENT,
    TEXT,
    TEXTS,
    Statement,
    named,
)

#: What each append answers: the instant it was judged at, ready_at, and whether that has moved.
_REPLY = (MOMENT, MOMENT, BOOL)

_EVENT = """e AS (
        INSERT INTO @events (stream, version, topic, state)
        SELECT :stream, :version, :topic, :state FROM u
    )"""
_EVENT_TAKES = {"stream": TEXT, "topic": TEXT, "state": BYTES}

#: The hot path. ready_at moves only when less than half of the ttl is left; a CASE that keeps the
#: value keeps the update heap-only, so no index is touched.
SAVE_CHECKPOINT = named(
    "save_checkpoint",
    f"""
    WITH l AS MATERIALIZED (
        SELECT run_id, ready_at FROM @runs
        WHERE run_id = :run_id AND version = :expected_version AND fencing_token = :token
            AND status = 'running' AND head = coalesce(:expected_head, head)
        FOR UPDATE
    ), c AS MATERIALIZED (
        SELECT run_id, ready_at, coalesce(:now, clock_timestamp()) AS at FROM l
    ), u AS (
        UPDATE @runs r SET
            version = :version, updated_at = :updated_at, checkpoint = :checkpoint, head = :head,
            ready_at = CASE WHEN c.ready_at - c.at < make_interval(secs => :ttl / 2)
                            THEN c.at + make_interval(secs => :ttl) ELSE r.ready_at END
        FROM c WHERE r.run_id = c.run_id AND c.ready_at > c.at
        RETURNING c.at, r.ready_at, c.ready_at AS before
    ), {_EVENT}
    SELECT at, ready_at, ready_at <> before FROM u
    """,
    {
        "run_id": TEXT,
        "expected_version": INT8,
        "expected_head": TEXT,
        "version": INT8,
        "token": INT8,
        "now": MOMENT,
        "updated_at": MOMENT,
        "checkpoint": BYTES,
        "head": TEXT,
        "ttl": FLOAT8,
        **_EVENT_TAKES,
    },
    _REPLY,
)

#: What every statement that may give a run a new token asks of the journal: that the token is of
#: the present epoch and, for a grant, that this is the server that the journal grants on.
_TOKEN = """EXISTS (
            SELECT FROM @token_epoch j WHERE :fencing_token > j.epoch * 4294967296
                AND (:status <> 'running'
                     OR coalesce(j.server = @this_server() || '/' || j.tableoid, true))
        )"""

_READY_AT = """CASE WHEN :ttl::float8 IS NOT NULL THEN c.at + make_interval(secs => :ttl)
                 WHEN :status = 'queued' THEN coalesce(:available_at, c.at) END"""
_RUN_TAKES = {
    "now": MOMENT,
    "run_id": TEXT,
    "status": TEXT,
    "version": INT8,
    "fencing_token": INT8,
    "ttl": FLOAT8,
    "available_at": MOMENT,
    "updated_at": MOMENT,
    "checkpoint": BYTES,
    "head": TEXT,
    "body": BYTES,
}

_EVENTS = """e AS (
        INSERT INTO @events (stream, version, topic, state)
        SELECT n.* FROM u, unnest(:streams::text[], :versions::bigint[], :topics::text[],
            :states::bytea[]) AS n (stream, version, topic, state)
        ORDER BY n.stream DESC, n.version
    ), o AS (
        INSERT INTO @delivery_outbox (invocation_id, run_id, delivery_ref, status, version,
            next_attempt_at, updated_at, head, body)
        SELECT :invocation_id, :run_id, :delivery_ref, :delivery_status, :delivery_version,
            :next_attempt_at, :delivery_updated_at, :delivery_head, :delivery_body
        FROM u WHERE :invocation_id::text IS NOT NULL
    )"""
_EVENTS_TAKES = {
    "streams": TEXTS,
    "versions": INT8S,
    "topics": TEXTS,
    "states": BYTESES,
    "invocation_id": TEXT,
    "delivery_ref": TEXT,
    "delivery_status": TEXT,
    "delivery_version": INT8,
    "next_attempt_at": MOMENT,
    "delivery_updated_at": MOMENT,
    "delivery_head": TEXT,
    "delivery_body": BYTES,
}

_CREATE = f"""
    WITH c AS MATERIALIZED (SELECT coalesce(:now, clock_timestamp()) AS at), u AS (
        INSERT INTO @runs (run_id, kind, status, version, fencing_token, ready_at, created_at,
            updated_at, checkpoint, head, body, parent_run_id)
        SELECT :run_id, :kind, :status, :version, :fencing_token, {_READY_AT},
            :created_at, :updated_at, :checkpoint, :head, :body, :parent_run_id FROM c
        WHERE (:fencing_token = 0 OR {_TOKEN})
        ON CONFLICT (run_id) DO NOTHING
        RETURNING ready_at
    ), {{events}}
    SELECT c.at, u.ready_at, true FROM u, c
"""
_CREATE_TAKES = {**_RUN_TAKES, "kind": TEXT, "created_at": MOMENT, "parent_run_id": TEXT}
#: A new stream: the guard is that there is no row yet. Repeating it draws no position. That the run
#: was not pruned is for a trigger to say (schema.py): the later look is the one that counts.
CREATE = named("create", _CREATE.format(events=_EVENT), {**_CREATE_TAKES, **_EVENT_TAKES}, _REPLY)
#: The same with several events, or with a delivery.
CREATE_MANY = named(
    "create_many", _CREATE.format(events=_EVENTS), {**_CREATE_TAKES, **_EVENTS_TAKES}, _REPLY
)

_NEXT_RECORD = f"""status = :status, version = :version, fencing_token = :fencing_token,
            attention = NULL, ready_at = {_READY_AT},
            updated_at = :updated_at, checkpoint = :checkpoint, head = :head, body = :body"""
_ADVANCE = f"""
    WITH l AS MATERIALIZED (
        SELECT run_id, status, fencing_token, ready_at FROM @runs
        WHERE run_id = :run_id AND version = :expected_version
            AND head = coalesce(:expected_head, head) FOR UPDATE
    ), c AS MATERIALIZED (
        SELECT l.*, coalesce(:now, clock_timestamp()) AS at FROM l
    ), u AS (
        UPDATE @runs r SET {_NEXT_RECORD}
        FROM c WHERE r.run_id = c.run_id AND (
            :token::bigint IS NULL
            OR c.status = 'running' AND c.fencing_token = :token AND CASE
                WHEN :live THEN c.ready_at > c.at ELSE coalesce(c.ready_at <= c.at, true) END
        ) AND (:live OR :fencing_token = c.fencing_token OR {_TOKEN})
        RETURNING c.at, r.ready_at
    ), {{events}}
    SELECT at, ready_at, true FROM u
"""
_EXPECTED = {"expected_version": INT8, "expected_head": TEXT}
_ADVANCE_TAKES = {**_RUN_TAKES, **_EXPECTED, "token": INT8, "live": BOOL}
#: Any other change of a run, under no guard but its version, a live lease or an expired one. A run
#: that was set aside has no deadline left and counts as expired; its next append puts it back.
ADVANCE = named(
    "advance", _ADVANCE.format(events=_EVENT), {**_ADVANCE_TAKES, **_EVENT_TAKES}, _REPLY
)
#: The same with several events, or with a delivery.
ADVANCE_MANY = named(
    "advance_many", _ADVANCE.format(events=_EVENTS), {**_ADVANCE_TAKES, **_EVENTS_TAKES}, _REPLY
)

#: The grant inside a claim. DUE has locked the row in this very transaction, so nothing is locked
#: or waited for again.
GRANT = named(
    "grant",
    f"""
    WITH c AS MATERIALIZED (SELECT coalesce(:now, clock_timestamp()) AS at), u AS (
        UPDATE @runs SET {_NEXT_RECORD}
        FROM c WHERE run_id = :run_id AND version = :expected_version AND {_TOKEN}
        RETURNING c.at, ready_at
    ), {_EVENT}
    SELECT at, ready_at, true FROM u
    """,
    {**_RUN_TAKES, "expected_version": INT8, **_EVENT_TAKES},
    _REPLY,
)


def _looking(statement: Statement) -> Statement:
    """The same, and nothing happens where the run was pruned and that can be seen at once."""
    run_id = b"$%d" % (list(_CREATE_TAKES).index("run_id") + 1)
    look = b"WHERE NOT EXISTS (SELECT FROM @tombstones WHERE stream = 'run/' || "
    text = statement.text.replace(b"WHERE (", look + run_id + b") AND (", 1)
    assert text != statement.text
    return statement._replace(name=statement.name + b"_looking", text=text)


#: What is sent instead within a host's transaction, which an error would end.
LOOKING = {s.name: _looking(s) for s in (CREATE, CREATE_MANY)}


def _telling(statement: Statement) -> Statement:
    """The same, and a NOTIFY when it makes a run claimable.

    A NOTIFY serialises the commits of a whole database, so it is optional, and never sent by a
    checkpoint or a renewal.
    """
    status = b"$%d" % (list(_RUN_TAKES).index("status") + 1)
    told = (
        b"CASE WHEN " + status + b" = 'queued' THEN"
        b" (pg_notify('runjournal_' || md5('@'), '') IS NULL) IS NOT NULL ELSE true END"
    )
    head, _, tail = statement.text.rpartition(b"true")
    return statement._replace(name=statement.name + b"_telling", text=head + told + tail)


#: What is sent instead where the journal tells of claimable runs.
TELLING = {
    s.name: _telling(s) for s in (CREATE, CREATE_MANY, *LOOKING.values(), ADVANCE, ADVANCE_MANY)
}
