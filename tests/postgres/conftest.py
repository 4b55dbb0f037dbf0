"""PgBouncer for the tests that need it, and what more of the tests on Postgres share."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from .fixtures import impatient, proxy, restartable, watcher  # noqa: F401 - so pytest finds them

#: Debian puts it where only root looks.
PGBOUNCER = shutil.which("pgbouncer", path=os.pathsep.join([os.environ["PATH"], "/usr/sbin"]))
#: Seconds that it may take to start.
PATIENCE = 30

# Where it cannot be had, the rest still runs. In CI it must be there.
collect_ignore = [] if PGBOUNCER or os.environ.get("CI") == "true" else ["test_pgbouncer.py"]

Bouncer = Callable[[str], str]


@pytest.fixture(scope="session")
def start_pgbouncer(postgres_server: str) -> Iterator[Callable[[int], Bouncer]]:
    """Starts a PgBouncer in transaction mode with a pool of so many connections to each database.

    What it gives turns the address of a database into the one behind PgBouncer.
    """
    assert PGBOUNCER, "CI needs the package pgbouncer"
    with ExitStack() as started:

        def start(pool: int) -> Bouncer:
            folder = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="pgb-")))
            folder.chmod(0o777)
            _configure(folder, postgres_server, pool)
            log = started.enter_context((folder / "log").open("wb"))
            process = started.enter_context(
                subprocess.Popen(
                    [str(PGBOUNCER), str(folder / "pgbouncer.ini")],
                    stdout=log,
                    stderr=log,
                    user=_user(),
                )
            )
            started.callback(process.kill)

            def behind(url: str) -> str:
                database = urlsplit(url).path.lstrip("/")
                return f"postgresql://runjournal@/{database}?host={quote(str(folder))}&port=6432"

            _wait(behind(postgres_server), process, folder / "log")
            return behind

        yield start


def _user() -> str | None:
    """It will not run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("pgserver", "postgres", "nobody") if name in names)


def _configure(folder: Path, server: str, pool: int) -> None:
    parts = conninfo_to_dict(server)
    wanted = {key: parts[key] for key in ("host", "port", "user", "password") if key in parts}
    target = " ".join(f"{key}={value}" for key, value in wanted.items())
    (folder / "pgbouncer.ini").write_text(
        f"""
[databases]
* = {target}
[pgbouncer]
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 200
listen_port = 6432
listen_addr =
unix_socket_dir = {folder}
auth_type = any
"""
    )


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            ended = process.poll() is not None
            assert not ended and time.monotonic() < deadline, log.read_text()  # noqa: PT018
            time.sleep(0.02)


@pytest.fixture(scope="session")
def pgbouncer(start_pgbouncer: Callable[[int], Bouncer]) -> Bouncer:
    return start_pgbouncer(3)
