"""What the tests of the command line share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal
from runjournal.adapters.cli.main import app
from typer.testing import CliRunner

#: Seconds after which a test that waits has failed.
PATIENCE = 30.0


@pytest.fixture(autouse=True)
def _in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("RUNJOURNAL_DB", "RUNJOURNAL_SCHEMA", "RUNJOURNAL_POOLER", "RUNJOURNAL_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    # Where a demo that is killed leaves its files.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # looked up once, and then remembered
    # --handler puts the working directory on the path; keep that to the one test.
    monkeypatch.setattr(sys, "path", [*sys.path])


class Cli:
    """The command line in this process, on the database of the test."""

    def __call__(self, *args: str, code: int = 0, stdin: str | None = None) -> str:
        """Run a command; its stdout, or its stderr where `code` is not 0."""
        result = CliRunner().invoke(app, args, input=stdin)
        assert result.exit_code == code, (result.exit_code, result.output, result.exception)
        assert (result.stdout if code else result.stderr) == ""
        return result.stderr if code else result.stdout

    def json(self, *args: str, stdin: str | None = None) -> Any:
        """Run a command with --json; the one document that it prints."""
        (line,) = self("--json", *args, stdin=stdin).splitlines()
        return json.loads(line)

    def lines(self, *args: str) -> list[Any]:
        """Run a command with --json; the documents that it prints, one per line."""
        return [json.loads(line) for line in self("--json", *args).splitlines()]


@pytest.fixture
def cli() -> Cli:
    return Cli()


@pytest.fixture
def journal() -> Iterator[Journal]:
    """The journal that the commands use by default, opened beside them."""
    with open_journal("sqlite:///runjournal.db") as opened:
        yield opened


Spawn = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start a real `runjournal` process; none outlives the test, or hangs it."""
    # Unbuffered, Python itself drops the rest of a write that a pipe took in part.
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    started: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def start(*args: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "runjournal.adapters.cli.main", *args],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=buffered,
        )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        started.append((process, watchdog))
        return process

    yield start
    for process, watchdog in started:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], Any]], None]:
    def wait(condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.01)

    return wait


@pytest.fixture
def run_cli() -> Callable[..., tuple[int, str]]:
    """Run a command whose exit code says something beside its output; both."""

    def run(*args: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, args)
        assert result.stderr == ""
        return result.exit_code, result.stdout

    return run
