"""docs/postgres.md: its SQL runs, its roles can do what it says, and its figures are measured."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import psycopg
import pytest
import runjournal
from psycopg.conninfo import conninfo_to_dict
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.postgres import database

PAGE = (Path(runjournal.__file__).parent / "docs" / "postgres.md").read_text(encoding="utf-8")
#: How far a measured size may be from the one that is told: page splits depend on the order.
TOLERANCE = 0.2

Roles = dict[str, str]


def sql_of(heading: str) -> list[str]:
    """The SQL blocks of a section."""
    section = re.split(r"\n## ", PAGE.partition(f"\n## {heading}\n")[2])[0]
    blocks = re.findall(r"^```sql\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert blocks, heading
    return blocks


def table(header: str) -> dict[str, str]:
    lines = PAGE.partition(f"{header}\n")[2].splitlines()[1:]
    rows = [line.strip("| ").split(" | ") for line in lines[: lines.index("")]]
    return {row[0].strip("`"): row[1] for row in rows}


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        yield conn


@pytest.fixture
def as_told(admin: psycopg.Connection[Any], postgres_url: str) -> Iterator[Roles]:
    """The page's roles and schema, with names of this test's own; the address of each role."""
    names = {
        f"journal_{role}": f"journal_{role}_{os.getpid()}" for role in ("owner", "app", "reader")
    }

    def run(block: str) -> None:
        for name, ours in names.items():
            block = re.sub(rf"\b{name}\b", ours, block)
        admin.execute(block.encode())

    before, after = sql_of("Roles")
    run(before)
    for ours in names.values():
        admin.execute(f"ALTER ROLE {ours} PASSWORD '{ours}'".encode())
    # Outside a test nobody but an administrator can create in a new database's public schema.
    urls = {
        name.removeprefix("journal_"): url_as(postgres_url, ours) for name, ours in names.items()
    }
    open_journal(urls["owner"], schema="journal").close()
    run(after)
    for block in sql_of("PgBouncer"):
        run(block)
    yield urls
    for ours in names.values():
        admin.execute(f"DROP OWNED BY {ours}; DROP ROLE {ours}".encode())


def url_as(url: str, role: str) -> str:
    parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    parts |= {"user": role, "password": role}
    return f"postgresql://{urlsplit(url).path}?{urlencode({**parts, 'dbname': parts['dbname']})}"


def one_run(journal: Journal, run_id: str) -> None:
    ledger = journal.ledger(owner="worker-1")
    ledger.start(run_id, kind="import", delivery_ref="mailbox")
    with ledger.acquire(run_id) as lease:
        lease.save_checkpoint(1)
        lease.suspend(["boss"])
    ledger.record_decision(run_id, "boss", "yes")
    ledger.request_resume(run_id)
    with ledger.restore(run_id) as lease:
        lease.renew()
        lease.complete()


@pytest.mark.parametrize("options", [{}, {"create": False}, {"pooler": True}], ids=str)
def test_roles_can_do_what_is_told(as_told: Roles, options: dict[str, Any]) -> None:
    with open_journal(as_told["app"], schema="journal", **options) as journal:
        one_run(journal, "run")
    with open_journal(as_told["reader"], schema="journal", **options) as journal:
        record = journal.get("run")
        assert record is not None
        assert record.status == "completed"
        assert len(list(journal.events("run"))) == record.version
        with pytest.raises(RunStoreError) as caught:
            journal.ledger().start("another")
    assert f"`{caught.value.code}` / `{caught.value.reason}`" in PAGE
    for role in ("app", "reader"):
        for command in ("CREATE TABLE journal.mine (x int)", "DELETE FROM journal.events"):
            with (
                psycopg.connect(as_told[role]) as conn,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                conn.execute(command.encode())


def test_settings_on_the_role_are_those_of_a_session(as_told: Roles, postgres_url: str) -> None:
    names = [
        "lock_timeout",
        "statement_timeout",
        "idle_in_transaction_session_timeout",
        "default_transaction_isolation",
    ]

    def settings(conn: psycopg.Connection[Any]) -> dict[str, str]:
        rows = [conn.execute(f"SHOW {name}".encode()).fetchone() for name in names]
        return {name: row[0] for name, row in zip(names, rows, strict=True) if row}

    with psycopg.connect(as_told["app"]) as conn:
        on_the_role = settings(conn)
    ours = database.Database(postgres_url)
    session = ours.take()
    in_a_session = settings(session.connection)
    told = table("| Setting | Value | Why |")
    shown = session.connection.execute("SHOW timezone").fetchone()
    session.close()
    ours.close()
    assert on_the_role == in_a_session
    assert {name: value.replace("s", " s") for name, value in in_a_session.items()} | {
        "default_transaction_isolation": "read committed"
    } == {name: told[name] for name in names}
    assert shown == (told["timezone"],)
    assert told["connect_timeout"] == f"{database.CONNECT_TIMEOUT} s"


def test_queries_run_and_find_what_they_are_for(
    as_told: Roles, admin: psycopg.Connection[Any]
) -> None:
    for block in sql_of("Vacuum"):
        admin.execute(block.encode())
    with open_journal(as_told["app"], schema="journal") as journal:
        one_run(journal, "done")
        ledger = journal.ledger()
        ledger.acquire("abandoned", heartbeat=False)
        for run_id in ("due", "unreadable"):
            ledger.start(run_id, kind="import")
        journal.store.set_aside("unreadable", "why")
        # As if the term had passed; the lease is left alone, as one whose holder died.
        admin.execute("UPDATE journal.runs SET ready_at = now() WHERE run_id = 'abandoned'")
        with psycopg.connect(as_told["app"]) as writer:
            writer.execute(
                "INSERT INTO journal.events (stream, version, topic, state)"
                " VALUES ('x', 1, 't', 'x')"
            )
            admin.execute("ANALYZE journal.runs")
            admin.execute("SELECT pg_stat_force_next_flush()")
            answers = []
            with psycopg.connect(as_told["reader"]) as reader:
                role = reader.info.user
                admin.execute(f"GRANT pg_monitor TO {role}".encode())
                for block in sql_of("Monitoring"):
                    cursor = reader.execute(block.encode())
                    assert cursor.description is not None
                    names = [column.name for column in cursor.description]
                    answers.append([dict(zip(names, row, strict=True)) for row in cursor])
            abandoned, backlog, aside, holders, deliveries, sizes, hot, connections, old = answers
            assert [row["run_id"] for row in abandoned] == ["abandoned"]
            assert [(row["kind"], row["due"]) for row in backlog] == [("import", 1)]
            assert [(row["run_id"], row["attention"]) for row in aside] == [("unreadable", "why")]
            assert [row["pid"] for row in holders] == [writer.info.backend_pid]
            assert holders[0]["open_for"] is not None
            assert [(row["status"], row["count"]) for row in deliveries] == [("pending", 1)]
            assert {row["relname"] for row in sizes} >= {"events", "runs", "delivery_outbox"}
            assert all(row["hot_percent"] is not None for row in hot)
            assert any(row["application_name"].startswith("runjournal-") for row in connections)
            assert any(row["who"].startswith("session ") for row in old)


def test_sizes_are_as_told(
    admin: psycopg.Connection[Any], postgres_url: str, uuids: Callable[[], UUID]
) -> None:
    runs, checkpoints = 400, 10
    state = {"rows": "x" * (1024 - len(json.dumps({"rows": ""}, separators=(",", ":"))))}
    logged = dict.fromkeys(("start", "claim", "checkpoint", "renewal", "completion"), 0)

    def position() -> int:
        row = admin.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()
        assert row is not None
        return int(row[0])

    def measured(step: str, do: Callable[[], Any]) -> Any:
        before = position()
        done = do()
        logged[step] += position() - before
        return done

    with open_journal(postgres_url) as journal:
        ledger = journal.ledger(owner="worker-1")
        for number in range(runs):
            if number % 40 == 0:
                admin.execute("VACUUM")  # as autovacuum does on a journal in use
            run_id = f"import-{uuids().hex}"
            measured(
                "start",
                lambda run_id=run_id: ledger.start(
                    run_id, kind="import", input={"rows": 1000}, delivery_ref="mailbox"
                ),
            )
            lease = measured("claim", lambda: ledger.claim(kinds=["import"], heartbeat=False))
            for _ in range(checkpoints):
                measured("checkpoint", lambda lease=lease: lease.save_checkpoint(state))
            measured("renewal", lease.renew)
            measured("completion", lambda lease=lease: lease.complete({"imported": 1000}))
    admin.execute("VACUUM")

    def size(of: str) -> float:
        row = admin.execute(of.encode()).fetchone()
        assert row is not None
        return float(row[0])

    events = size("SELECT pg_total_relation_size('events')")
    saved = size(
        "SELECT sum(pg_column_size(e.*)) FILTER (WHERE topic = 'run.checkpoint_saved')"
        " / sum(pg_column_size(e.*))::float FROM events e"
    )
    # In the order of the page's table.
    found = [
        (
            saved * size("SELECT pg_table_size('events')") / (runs * checkpoints)
            + size("SELECT pg_indexes_size('events')") / size("SELECT count(*) FROM events")
        ),
        events / runs,
        size("SELECT pg_total_relation_size('runs')") / runs,
        size("SELECT pg_total_relation_size('delivery_outbox')") / runs,
        logged["checkpoint"] / runs / checkpoints,
        logged["renewal"] / runs,
        sum(logged[s] for s in ("start", "claim", "completion")) / runs,
    ]
    assert size("SELECT count(*) FROM events") == 14 * runs
    told = table("| What | Bytes |")
    off = {
        what: (figure, round(value))
        for (what, figure), value in zip(told.items(), found, strict=True)
        if abs(value / int(figure.replace(",", "")) - 1) > TOLERANCE
    }
    assert not off


@pytest.fixture
def uuids() -> Callable[[], UUID]:
    """The same random ids in every run of the test."""
    import random

    drawn = random.Random(7)
    return lambda: UUID(int=drawn.getrandbits(128), version=4)
