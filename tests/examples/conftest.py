"""The programs of docs/examples, copied into a folder and started there as anybody would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import runjournal

EXAMPLES = Path(runjournal.__file__).parent / "docs" / "examples"
#: Seconds after which a process that is still there has failed.
PATIENCE = 60.0

Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples; the working directory of this test and its processes."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    monkeypatch.chdir(tmp_path / "examples")
    monkeypatch.delenv("RUNJOURNAL_DB", raising=False)
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    scripts = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "examples"


@pytest.fixture
def launch(folder: Path) -> Iterator[Launch]:
    """Start a command there; both its outputs are one pipe. None outlives the test."""
    started: list[tuple[subprocess.Popen[str], threading.Timer]] = []

    def start(*command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.daemon = True
        watchdog.start()
        started.append((process, watchdog))
        return process

    yield start
    for process, watchdog in started:
        watchdog.cancel()
        process.kill()
        process.communicate()


@pytest.fixture
def shell(launch: Launch) -> Callable[[str], str]:
    """Run a command to its end; what it printed. It must succeed."""

    def run(command: str) -> str:
        process = launch("sh", "-c", f"exec {command}")
        printed, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, printed
        return printed

    return run
