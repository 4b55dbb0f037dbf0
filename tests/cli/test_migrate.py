"""`runjournal migrate`: what it applies, what it only says, and the SQL it prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import open_journal
from runjournal.adapters.postgres.schema import MIGRATIONS
from runjournal.adapters.sqlite.statements import MIGRATIONS as SQLITE_MIGRATIONS

ALL = list(range(1, len(MIGRATIONS) + 1))


def tables(url: str, schema: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT count(*) FROM pg_tables WHERE schemaname = %s", (schema,)
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_dry_run_only_says(cli: Any, postgres_url: str) -> None:
    at = ("--db", postgres_url, "--schema", "mine")
    said = cli(*at, "migrate", "--dry-run")
    assert re.fullmatch(r"schema mine: lacks migrations? 1(, \d+)* \(version 0\)\n", said)
    document = cli.json(*at, "migrate", "--dry-run")
    assert document == {"where": "schema mine", "version": 0, "missing": ALL}
    assert tables(postgres_url, "mine") == 0


def test_migrate_applies_once(cli: Any, postgres_url: str) -> None:
    at = ("--db", postgres_url, "--schema", "mine")
    version = len(MIGRATIONS)
    applied = cli.json(*at, "migrate")
    assert applied == {"where": "schema mine", "version": version, "applied": ALL}
    assert cli(*at, "migrate") == f"schema mine: nothing to do (version {version})\n"
    assert cli(*at, "migrate", "--dry-run") == f"schema mine: up to date (version {version})\n"
    assert cli(*at, "start", "a") == "a: queued (version 1)\n"


def test_dump_does_what_migrate_would(cli: Any, postgres_url: str) -> None:
    at = ("--db", postgres_url, "--schema", "mine")
    sql = cli(*at, "migrate", "--dump-sql")
    assert cli.json(*at, "migrate", "--dump-sql")["sql"] == sql
    assert tables(postgres_url, "mine") == 0
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(sql.encode())
    assert cli.json(*at, "migrate")["applied"] == []
    with open_journal(postgres_url, schema="mine", create=False) as journal:
        journal.ledger().start("a")
    nothing = cli(*at, "migrate", "--dump-sql")
    assert re.fullmatch(r"-- .* nothing to do.*\n", nothing)
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute(nothing.encode())


def test_newer_database(cli: Any, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as conn:
        conn.execute("INSERT INTO runjournal_schema VALUES (99)")
    for more in ([], ["--dry-run"], ["--dump-sql"]):
        line = cli("--db", postgres_url, "migrate", *more, code=6)
        assert "RUN_INTEGRITY_ERROR/newer_database" in line


@pytest.mark.parametrize("name", ["", "pg_mine", "$user", "x" * 64, "a\nb"])
def test_a_name_that_cannot_be_a_schema(cli: Any, postgres_url: str, name: str) -> None:
    line = cli("--db", postgres_url, "--schema", name, "migrate", code=2)
    assert "RUN_VALIDATION_ERROR/identifier" in line


def test_sqlite_reports_its_version(cli: Any, tmp_path: Path) -> None:
    version = len(SQLITE_MIGRATIONS)
    numbers = list(range(1, version + 1))
    missing = cli.json("migrate", "--dry-run")
    assert missing == {"where": "runjournal.db", "version": 0, "missing": numbers}
    assert not list(tmp_path.iterdir())
    assert cli.json("migrate")["applied"] == numbers
    assert cli("migrate") == f"runjournal.db: nothing to do (version {version})\n"
    assert cli("migrate", "--dry-run") == f"runjournal.db: up to date (version {version})\n"


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
@pytest.mark.parametrize("db", ["memory:", "sqlite:/x", "sqlite://", "nonsense"])
def test_nothing_to_migrate_there(cli: Any, db: str, more: list[str]) -> None:
    assert "runjournal: RUN_" in cli("--db", db, "migrate", *more, code=2)


def test_a_file_of_somebody_else(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("my notes " * 100)
    for more in ([], ["--dry-run"]):
        line = cli("--db", "sqlite:///notes.txt", "migrate", *more, code=6)
        assert "RUN_INTEGRITY_ERROR/not_a_journal" in line


def test_a_newer_file(cli: Any, tmp_path: Path, new_file: Callable[[int], None]) -> None:
    new_file(99)
    for more in ([], ["--dry-run"]):
        assert "RUN_INTEGRITY_ERROR/newer_database" in cli("migrate", *more, code=6)


@pytest.fixture
def new_file(cli: Any) -> Callable[[int], None]:
    """Makes the default file a journal of this schema version."""

    def make(version: int) -> None:
        import sqlite3
        from contextlib import closing

        cli("migrate")
        with closing(sqlite3.connect("runjournal.db")) as conn:
            conn.execute(f"PRAGMA user_version = {version}")

    return make
