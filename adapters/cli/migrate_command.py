"""The command that brings a database's tables up to date, or says what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .context import DEFAULT_DB, opened_ledger, options

if TYPE_CHECKING:
    from pathlib import Path

    from ..postgres.database import Database


class State(NamedTuple):
    """Of the tables at `where`: their version, and the migrations they lack."""

    where: str
    version: int
    missing: list[int]


def migrate(
    ctx: typer.Context,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what is missing; change nothing.")
    ] = False,
    dump_sql: Annotated[
        bool,
        typer.Option("--dump-sql", help="Print the SQL of what is missing; change nothing."),
    ] = False,
) -> None:
    """Apply the migrations that the database lacks, and say which.

    The other commands do the same when they open the journal, if they may. Run this with a role
    that may create tables, so that the others need not. --dump-sql, for Postgres, prints the same
    as a script, for whoever is to run it.
    """
    url = options(ctx).db or DEFAULT_DB
    if url.partition(":")[0] in ("postgresql", "postgres"):
        _migrate_postgres(ctx, url, dry_run, dump_sql)
    elif dump_sql:
        raise typer.BadParameter("only for Postgres", param_hint="--dump-sql")
    else:
        _migrate_sqlite(ctx, url, dry_run)


def state_of(ctx: typer.Context) -> State | None:
    """Of the tables that --db names, without changing or creating anything; None for memory."""
    url = options(ctx).db or DEFAULT_DB
    if url.startswith("sqlite:///"):
        return _look_into(_file_of(url))
    if url.partition(":")[0] not in ("postgresql", "postgres"):
        return None
    from ..postgres.database import Database
    from ..postgres.schema import check_name

    check_name(name := options(ctx).schema)
    database = Database(url, name, pooler=options(ctx).pooler, create=False)
    try:
        return _look(database, name)
    finally:
        database.close()


def _file_of(url: str) -> Path:
    from pathlib import Path

    return Path(url.removeprefix("sqlite:///").partition("?")[0])


def _migrate_postgres(ctx: typer.Context, url: str, dry_run: bool, dump_sql: bool) -> None:
    from ..postgres import schema as migrations
    from ..postgres.database import Database

    name = options(ctx).schema
    migrations.check_name(name)
    database = Database(url, name, pooler=options(ctx).pooler, create=False)
    try:
        before = _look(database, name)
        if dump_sql:
            _print_sql(ctx, before, migrations.script(name, before.missing))
        elif dry_run:
            _print(ctx, before, None)
        else:
            applied = database.migrate()
            _print(ctx, _look(database, name), applied)
    finally:
        database.close()


def _look(database: Database, name: str) -> State:
    from ..postgres.schema import MIGRATIONS, missing

    numbers = database.transaction(lambda session: missing(session.connection, name))
    return State(f"schema {name}", len(MIGRATIONS) - len(numbers), numbers)


def _migrate_sqlite(ctx: typer.Context, url: str, dry_run: bool) -> None:
    path = _file_of(url)
    if dry_run and url.startswith("sqlite:///"):
        _print(ctx, _look_into(path), None)
        return
    before = _look_into(path) if path.is_file() else State(str(path), 0, [])
    # Opening a file brings it up to date, and refuses what is none.
    with opened_ledger(ctx, creates=True):
        after = _look_into(path)
    _print(ctx, after, list(range(before.version + 1, after.version + 1)))


def _look_into(path: Path) -> State:
    """The state of a file, which is not created."""
    import sqlite3
    from contextlib import closing

    from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
    from ..sqlite.statements import APPLICATION_ID, MIGRATIONS

    if not path.exists():
        return State(str(path), 0, list(range(1, len(MIGRATIONS) + 1)))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as conn:
            ours = conn.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
            version = conn.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error:
        ours, version = False, 0
    if not ours and path.stat().st_size:
        raise RunStoreError(RUN_INTEGRITY_ERROR, "not_a_journal", f"{path} is no journal")
    if version > len(MIGRATIONS):
        raise RunStoreError(
            RUN_INTEGRITY_ERROR,
            "newer_database",
            f"{path} has schema version {version}; this code knows {len(MIGRATIONS)}",
        )
    return State(str(path), version, list(range(version + 1, len(MIGRATIONS) + 1)))


def _print(ctx: typer.Context, state: State, applied: list[int] | None) -> None:
    """What was applied, or (None) what is missing."""
    from .exits import one_line
    from .output import print_json

    if options(ctx).as_json:
        document: dict[str, Any] = {"where": state.where, "version": state.version}
        document |= {"missing": state.missing} if applied is None else {"applied": applied}
        print_json(document)
        return
    if applied is None:
        what = f"lacks {_named(state.missing)}" if state.missing else "up to date"
    else:
        what = f"applied {_named(applied)}" if applied else "nothing to do"
    typer.echo(one_line(f"{state.where}: {what} (version {state.version})"))


def _print_sql(ctx: typer.Context, state: State, sql: str) -> None:
    from .output import print_json

    if options(ctx).as_json:
        print_json({"where": state.where, "version": state.version, "sql": sql})
    else:
        typer.echo(sql, nl=False)


def _named(numbers: list[int]) -> str:
    return f"migration{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
