"""What the driver's errors mean for a command."""

from __future__ import annotations

from typing import Any

import psycopg

from ...domain.errors import (
    RUN_CONFLICT,
    RUN_INTEGRITY_ERROR,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RUN_VALIDATION_ERROR,
    RunStoreError,
)
from ..rows import NO_DATE, unreadable
from .wire import Beyond


def meaning_of(e: psycopg.Error, schema: str, *, maybe_done: bool = False) -> RunStoreError:
    """What a driver error means for a command."""
    if maybe_done:
        return RunStoreError(
            RUN_OUTCOME_UNKNOWN, "reply_lost", f"the connection was lost: {brief(e)}"
        )
    state = e.sqlstate or ""
    if state == "08P01":  # protocol_violation: how PgBouncer refuses our settings
        return RunStoreError(
            RUN_VALIDATION_ERROR,
            "address",
            f"the address looks like a pooler's, which needs pooler=True: {brief(e)}",
        )
    if state in ("40001", "40P01"):  # serialization_failure, deadlock_detected
        return RunStoreError(
            RUN_CONFLICT, "contended", f"another transaction was first: {brief(e)}"
        )
    if state in ("55P03", "57014"):  # lock_not_available, query_canceled (statement time-out)
        return RunStoreError(RUN_STORE_UNAVAILABLE, "busy", f"Postgres was busy: {brief(e)}")
    if state == "42501":  # insufficient_privilege
        return RunStoreError(
            RUN_VALIDATION_ERROR, "read_only", f"Postgres refuses to write: {brief(e)}"
        )
    if state in ("42P01", "3F000"):  # undefined_table, invalid_schema_name
        return RunStoreError(
            RUN_INTEGRITY_ERROR,
            "not_a_journal",
            f"there is no journal in schema {schema!r}: {brief(e)}",
        )
    return RunStoreError(RUN_STORE_UNAVAILABLE, "failed", f"Postgres: {brief(e)}")


#: What a server, or PgBouncer, says to a connection that it will refuse tomorrow as well. libpq has
#: no code for it; in another language the refusal is tried again for a while.
FINAL = (
    "unsupported startup parameter",
    "password authentication failed",
    "no pg_hba.conf entry",
    "does not exist",
)


def passes(e: psycopg.Error) -> bool:
    """Whether it may be over in a moment: the connection, a restart, a deadlock, no free slot."""
    if e.sqlstate is None:
        # A host's pool has waited already by the time it says that it is exhausted or closed.
        if type(e).__name__ in ("PoolTimeout", "PoolClosed", "TooManyRequests"):
            return False
        if any(text in str(e) for text in FINAL):
            return False
        return isinstance(e, psycopg.OperationalError | psycopg.InterfaceError)
    return (e.sqlstate[:2] == "08" and e.sqlstate != "08P01") or e.sqlstate in (
        "40001",  # serialization_failure
        "40P01",  # deadlock_detected
        "53300",  # too_many_connections
        "57P01",  # admin_shutdown
        "57P02",  # crash_shutdown
        "57P03",  # cannot_connect_now
        "25006",  # read_only_sql_transaction: a failover that is not over
    )


def told(row: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """The row of `what`; raises RUN_INTEGRITY_ERROR / unreadable_record for a time beyond all."""
    if any(isinstance(value, Beyond) for value in row):
        raise unreadable(what, NO_DATE)
    return row


def brief(e: BaseException) -> str:
    """The first line of a driver's message, which never holds a password."""
    return str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
