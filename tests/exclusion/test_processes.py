"""A name is held between processes, and let go of when its holder is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused

HOLDER = Path(__file__).with_name("holding_process.py")
#: Seconds within which a killed holder's name is free: no time-out is waited for.
SOON = 3.0

Start = Callable[..., "subprocess.Popen[str]"]
Until = Callable[[Callable[[], object]], None]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def journal(url: str) -> Iterator[Journal]:
    with open_journal(url) as opened:
        yield opened


def is_free(journal: Journal) -> bool:
    try:
        with journal.store.exclusive("job"):
            return True
    except RunStoreError as e:
        if e.reason != "already_running":
            raise
        return False


def test_killed_holder_lets_go_at_once(
    journal: Journal, url: str, start_script: Start, wait_until: Until
) -> None:
    for _ in range(2):
        holder = start_script(HOLDER, url, "job")
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held 0\n"
        assert not is_free(journal)
        with journal.store.exclusive("another"):
            holder.kill()
            begun = time.monotonic()
            wait_until(lambda: is_free(journal))
            assert time.monotonic() - begun < SOON


def test_forked_child_holds_nothing(
    journal: Journal, url: str, start_script: Start, wait_until: Until
) -> None:
    """It is told so, and does not keep the name when its parent is killed."""
    holder = start_script(HOLDER, url, "job", "fork")
    assert holder.stdout is not None
    said = sorted(holder.stdout.readline() for _ in range(2))
    assert said[0] == "child already_running\n"
    child = int(said[1].removeprefix("held "))
    try:
        assert not is_free(journal)
        holder.kill()
        begun = time.monotonic()
        wait_until(lambda: is_free(journal))
        assert time.monotonic() - begun < SOON
        os.kill(child, 0)  # it still lives
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_lost_connection_is_noticed(postgres_url: str) -> None:
    with (
        open_journal(postgres_url) as journal,
        psycopg.connect(postgres_url, autocommit=True) as admin,
        journal.store.exclusive("job") as hold,
    ):
        hold.check()
        admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
        )
        with refused("RUN_STORE_UNAVAILABLE", "failed") as caught:
            hold.check()
        assert "job" in caught.value.message
        assert is_free(journal)


def test_schemas_do_not_exclude_one_another(postgres_url: str) -> None:
    with (
        open_journal(postgres_url) as one,
        open_journal(postgres_url, schema="two") as two,
        one.store.exclusive("job"),
        two.store.exclusive("job"),
    ):
        pass


def test_removed_lock_file_is_noticed(sqlite_url: str, tmp_path: Path) -> None:
    with open_journal(sqlite_url) as journal, journal.store.exclusive("job") as hold:
        hold.check()
        (tmp_path / "journal.db-job.lock").unlink()
        with refused("RUN_CONFLICT", "already_running"):
            hold.check()
        # Who comes now locks a new file, which lasts.
        with journal.store.exclusive("job") as second:
            second.check()


def test_link_to_the_file_meets_the_same_lock(sqlite_url: str, tmp_path: Path) -> None:
    with open_journal(sqlite_url) as journal:
        (tmp_path / "link.db").symlink_to(tmp_path / "journal.db")
        with (
            open_journal(f"sqlite:///{tmp_path / 'link.db'}") as linked,
            linked.store.exclusive("job"),
        ):
            assert not is_free(journal)


def test_lock_file_of_another_user_will_do(sqlite_url: str, tmp_path: Path) -> None:
    lock = tmp_path / "journal.db-job.lock"
    lock.touch(0o444)
    with open_journal(sqlite_url) as journal:
        assert is_free(journal)
        lock.unlink()
        lock.mkdir()
        with refused("RUN_STORE_UNAVAILABLE", "failed"), journal.store.exclusive("job"):
            pass


def test_name_is_free_before_the_server_has_noticed_the_close(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_journal(postgres_url) as journal:
        with journal.store.exclusive("job") as hold:
            lingering: Any = hold._conn  # type: ignore[attr-defined]
            monkeypatch.setattr(lingering, "close", lambda: None)
        with journal.store.exclusive("job"):
            pass
        monkeypatch.undo()
        lingering.close()
