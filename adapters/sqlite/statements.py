"""Every SQL statement of the SQLite store, named, each with its one line of why."""

from __future__ import annotations

#: "RJNL": how a file is recognised as ours before anything in it is touched.
APPLICATION_ID = 0x524A4E4C

#: One string per schema version; applying all to an empty file gives the schema.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE events (
        position INTEGER PRIMARY KEY,
        stream   TEXT NOT NULL,
        version  INTEGER NOT NULL,
        topic    TEXT NOT NULL,
        state    BLOB NOT NULL,
        UNIQUE (stream, version)
    ) STRICT;
    -- The next position is the highest one + 1. Keeping the last event keeps a pruned position from
    -- being handed out again; AUTOINCREMENT would do it with one more page in every commit.
    CREATE TRIGGER events_last_stays BEFORE DELETE ON events
    WHEN old.position = (SELECT max(position) FROM events)
    BEGIN
        SELECT RAISE(ABORT, 'the event with the highest position must stay');
    END;
    -- ready_at: due time of a queued run, deadline of a held one, NULL once there is nothing to
    -- claim. One column and one partial index answer "what is due", however many have finished.
    CREATE TABLE runs (
        run_id        TEXT PRIMARY KEY,
        kind          TEXT NOT NULL,
        status        TEXT NOT NULL,
        version       INTEGER NOT NULL,
        fencing_token INTEGER NOT NULL,
        ready_at      INTEGER,
        attention     TEXT,
        created_at    INTEGER NOT NULL,
        updated_at    INTEGER NOT NULL,
        checkpoint    BLOB,
        head          TEXT NOT NULL,
        body          BLOB NOT NULL,
        CHECK ((ready_at IS NOT NULL) = (status IN ('queued', 'running') AND attention IS NULL))
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX runs_ready ON runs (kind, ready_at) WHERE ready_at IS NOT NULL;
    CREATE INDEX runs_created ON runs (created_at, run_id);
    CREATE INDEX runs_attention ON runs (run_id) WHERE attention IS NOT NULL;
    CREATE TABLE delivery_outbox (
        invocation_id   TEXT PRIMARY KEY,
        run_id          TEXT NOT NULL,
        delivery_ref    TEXT NOT NULL,
        status          TEXT NOT NULL,
        version         INTEGER NOT NULL,
        next_attempt_at INTEGER,
        updated_at      INTEGER NOT NULL,
        head            TEXT NOT NULL,
        body            BLOB NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE tracking (
        application_name TEXT PRIMARY KEY,
        notification_id  INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE snapshots (
        stream  TEXT NOT NULL,
        version INTEGER NOT NULL,
        topic   TEXT NOT NULL,
        state   BLOB NOT NULL,
        PRIMARY KEY (stream, version)
    ) STRICT, WITHOUT ROWID;
    """,
    """
    -- attention: why a row that cannot be read was set aside.
    ALTER TABLE delivery_outbox ADD COLUMN attention TEXT;
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
        name               TEXT PRIMARY KEY,
        projection_version INTEGER NOT NULL,
        in_service         TEXT NOT NULL,
        position           INTEGER NOT NULL,
        parked_at          INTEGER,
        parked_error       TEXT,
        updated_at         INTEGER NOT NULL,
        tables_made        INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """,
    """
    -- parent_run_id: also in the body; a column, so that a run's children are found.
    ALTER TABLE runs ADD COLUMN parent_run_id TEXT;
    UPDATE runs SET parent_run_id = json_extract(CAST(body AS TEXT), '$.parent_run_id')
        WHERE instr(body, CAST('"parent_run_id"' AS BLOB)) > 0;
    CREATE INDEX runs_children ON runs (parent_run_id)
        WHERE parent_run_id IS NOT NULL AND status IN ('queued', 'running', 'suspended');
    -- A run's last event is its end, so that is when it was last updated.
    CREATE INDEX runs_ended ON runs (updated_at, run_id)
        WHERE status IN ('completed', 'failed', 'cancelled');
    -- What is left of streams that were pruned. A run that came back from elsewhere can be pruned
    -- a second time: one for each audit event.
    CREATE TABLE tombstones (
        stream        TEXT NOT NULL,
        audit_version INTEGER NOT NULL,
        version       INTEGER NOT NULL,
        head          TEXT NOT NULL,
        body          BLOB,
        PRIMARY KEY (stream, audit_version)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX tombstones_audit ON tombstones (audit_version, stream);
    """,
    """
    -- One row: what every fencing token that is granted from now on is above (domain/tokens.py).
    CREATE TABLE token_epoch (epoch INTEGER NOT NULL) STRICT;
    INSERT INTO token_epoch VALUES (0);
    """,
)

RECORD = (
    "run_id, kind, status, version, fencing_token, ready_at, created_at, updated_at, "
    "checkpoint, head, body"
)

# Appending.

#: A new stream: the guard is that there is no row yet, and none that was pruned.
CREATE_RUN = (
    "INSERT INTO runs (run_id, kind, status, version, fencing_token, ready_at, created_at,"
    " updated_at, checkpoint, head, body, parent_run_id)"
    " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12"
    " WHERE NOT EXISTS (SELECT 1 FROM tombstones WHERE stream = 'run/' || ?1)"
    " ON CONFLICT DO NOTHING"
)
_SAVE_CHECKPOINT = (
    "UPDATE runs SET version = ?, updated_at = ?, checkpoint = ?, head = ?{moved}"
    " WHERE run_id = ? AND version = ? AND head = coalesce(?, head)"
    " AND status = 'running' AND fencing_token = ? AND ready_at > ?"
)
#: The hot path, for a deadline far ahead: naming ready_at in SET would rewrite its index.
SAVE_CHECKPOINT = _SAVE_CHECKPOINT.format(moved="")
#: The same when less than half of the ttl was left: it moves the deadline.
SAVE_CHECKPOINT_AND_RENEW = _SAVE_CHECKPOINT.format(moved=", ready_at = ?")

_ADVANCE = (
    "UPDATE runs SET status = ?, version = ?, fencing_token = ?, ready_at = ?, attention = NULL,"
    " updated_at = ?, checkpoint = ?, head = ?, body = ?"
    " WHERE run_id = ? AND version = ? AND head = coalesce(?, head)"
)
#: A token that is new must be of the present epoch.
_TOKEN = " AND (fencing_token = ?3 OR ?3 > (SELECT epoch * 4294967296 FROM token_epoch))"
#: A lifecycle change decided on a version.
ADVANCE = _ADVANCE + _TOKEN
#: The same by the holder: its token and its deadline must still be good.
ADVANCE_LIVE = _ADVANCE + " AND status = 'running' AND fencing_token = ? AND ready_at > ?"
#: A takeover: a renewal that came first must win. What was set aside has no deadline left.
ADVANCE_EXPIRED = (
    ADVANCE + " AND status = 'running' AND fencing_token = ? AND coalesce(ready_at, 0) <= ?"
)

INSERT_EVENT = "INSERT INTO events (stream, version, topic, state) VALUES (?, ?, ?, ?)"
INSERT_DELIVERY = (
    "INSERT INTO delivery_outbox (invocation_id, run_id, delivery_ref, status, version,"
    " next_attempt_at, updated_at, head, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

# Leases.

#: max: a renewal never moves a deadline backwards.
RENEW = (
    "UPDATE runs SET ready_at = max(ready_at, ?)"
    " WHERE run_id = ? AND fencing_token = ? AND status = 'running' AND ready_at > ?"
    " RETURNING ready_at"
)
#: Kinds that have anything to claim, by hopping along the partial index. Only in a damaged row is a
#: kind NULL, which comes first and would end the hopping; SQLite takes IS NOT NULL for granted.
CLAIMABLE_KINDS = (
    "WITH RECURSIVE k (kind) AS ("
    " SELECT (SELECT kind FROM runs WHERE ready_at IS NOT NULL AND kind >= ''"
    "         ORDER BY kind LIMIT 1)"
    " UNION ALL"
    " SELECT (SELECT kind FROM runs WHERE ready_at IS NOT NULL AND kind > k.kind"
    "         ORDER BY kind LIMIT 1) FROM k WHERE k.kind IS NOT NULL"
    ") SELECT kind FROM k WHERE kind IS NOT NULL"
)
#: One probe per kind: ordered by the index, so a backlog is never sorted.
DUE = f"SELECT {RECORD} FROM runs WHERE kind = ? AND ready_at <= ? ORDER BY ready_at LIMIT ?"


def _mended(columns: str) -> str:
    """Sets columns to the types that they must have, and empties the body if one was not.

    STRICT refuses to write a row again that has a column of another type, or makes another value of
    it without a word. Without its body the row stays unreadable until it is made anew.
    """
    typed = [column.split() for column in columns.split(", ")]
    fit = " AND ".join(f"typeof({name}) IN ({_ALLOWED[kind]})" for name, kind in typed)
    casts = ", ".join(
        f"{name} = CAST({name} AS {kind[:-1]})"
        if kind.endswith("?")
        else f"{name} = coalesce(CAST({name} AS {kind}), '')"
        if kind == "TEXT"
        else f"{name} = coalesce(CAST({name} AS {kind}), 0)"
        for name, kind in typed
    )
    return f"body = CASE WHEN typeof(body) = 'blob' AND {fit} THEN body ELSE x'' END, {casts}"


_ALLOWED = {
    "TEXT": "'text'",
    "TEXT?": "'text', 'null'",
    "INTEGER": "'integer'",
    "INTEGER?": "'integer', 'null'",
    "BLOB?": "'blob', 'null'",
}
#: A claim sets aside what it cannot grant: a queued run, or one whose lease has expired.
SET_ASIDE = (
    "UPDATE runs SET ready_at = NULL, attention = ?, "
    + _mended(
        "run_id TEXT, kind TEXT, status TEXT, version INTEGER, fencing_token INTEGER,"
        " created_at INTEGER, updated_at INTEGER, checkpoint BLOB?, head TEXT, parent_run_id TEXT?"
    )
    + " WHERE run_id = ? AND attention IS NULL"
)
#: From outside a claim, only what nobody holds.
SET_ASIDE_QUEUED = SET_ASIDE + " AND status = 'queued'"
ATTENTION = (
    "SELECT run_id, attention FROM runs WHERE attention IS NOT NULL UNION ALL"
    " SELECT run_id, attention FROM delivery_outbox WHERE attention IS NOT NULL ORDER BY 1, 2"
)

# The token epoch.

TOKEN_EPOCH = "SELECT epoch FROM token_epoch"
RAISE_EPOCH = "UPDATE token_epoch SET epoch = ?1 WHERE epoch = ?1 - 1"
#: Positions go on from the highest one there is.
INSERT_FAR_AHEAD = (
    "INSERT INTO events (position, stream, version, topic, state)"
    " SELECT coalesce(max(position), 0) + ?, ?, ?, ?, ? FROM events"
)

# Deliveries.

_DELIVERY = (
    "invocation_id, run_id, delivery_ref, status, version, next_attempt_at, updated_at, head, body"
)
#: The rest of the row stays as its events made it.
SET_ASIDE_DELIVERY = (
    "UPDATE delivery_outbox SET attention = ?, "
    + _mended(
        "invocation_id TEXT, run_id TEXT, delivery_ref TEXT, status TEXT, version INTEGER,"
        " next_attempt_at INTEGER?, updated_at INTEGER, head TEXT"
    )
    + " WHERE invocation_id = ?"
)
#: The version decides between two who would write, and the hash between two histories.
ADVANCE_DELIVERY = (
    "UPDATE delivery_outbox SET status = ?, version = ?, next_attempt_at = ?, updated_at = ?,"
    " head = ?, body = ?, attention = NULL WHERE invocation_id = ? AND version = ?"
    " AND head = coalesce(?, head)"
)
GET_DELIVERY = f"SELECT {_DELIVERY} FROM delivery_outbox WHERE invocation_id = ?"
#: Ordered by the index; refs come as JSON arrays, NULL for all.
DUE_DELIVERIES = (
    "SELECT invocation_id, delivery_ref FROM delivery_outbox"
    " WHERE status = ?1 AND next_attempt_at <= ?2 AND attention IS NULL"
    " AND (?3 IS NULL OR delivery_ref IN (SELECT value FROM json_each(?3)))"
    " AND delivery_ref NOT IN (SELECT value FROM json_each(?4))"
    " ORDER BY next_attempt_at, invocation_id LIMIT ?5"
)
#: NULL stands for all and for the beginning.
LIST_DELIVERIES = (
    f"SELECT {_DELIVERY}, attention FROM delivery_outbox WHERE (?1 IS NULL OR status = ?1)"
    " AND invocation_id > coalesce(?2, '') ORDER BY invocation_id LIMIT ?3"
)
#: Along an index that holds nothing else.
DELIVERIES_FOR_ATTENTION = (
    f"SELECT {_DELIVERY}, attention FROM delivery_outbox WHERE status = 'unknown'"
    " AND next_attempt_at IS NULL AND attention IS NULL"
    " AND (?1 IS NULL OR status = ?1) AND invocation_id > coalesce(?2, '')"
    " ORDER BY invocation_id LIMIT ?3"
)

# Reading.

GET_RUN = f"SELECT {RECORD} FROM runs WHERE run_id = ?"
#: Before every instant that can be stored.
FIRST = "-9223372036854775808"
#: Filters that are not asked for are NULL; the order of creation is the order of the pages. Where
#: a page begins is no OR: one would make the index be read from its start for each page.
LIST_RUNS = (
    f"SELECT {RECORD} FROM runs WHERE (?1 IS NULL OR status = ?1) AND (?2 IS NULL OR kind = ?2)"
    f" AND (created_at, run_id) > (CASE WHEN ?3 IS NULL THEN {FIRST}"
    " ELSE (SELECT created_at FROM runs WHERE run_id = ?3) END, coalesce(?3, ''))"
    " ORDER BY created_at, run_id LIMIT ?4"
)
READ_STREAM = (
    "SELECT stream, version, topic, state FROM events WHERE stream = ? AND version > ?"
    " ORDER BY version LIMIT ?"
)
