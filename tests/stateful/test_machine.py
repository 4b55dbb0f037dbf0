"""Random lives of a journal, on every backend, against the model: see machine.py."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from .homes import Home, MemoryHome, PostgresHome, SQLiteHome
from .machine import JournalMachine

#: `make prove` sets it: other programs at each run, and many more of them.
PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
#: Programs on each backend, fewer where a step costs more.
PROGRAMS = {"memory": 60, "sqlite": 20, "postgres": 12}
STEPS = 60
if PROVE:
    PROGRAMS, STEPS = {"memory": 4000, "sqlite": 1000, "postgres": 800}, 80


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    if request.param == "memory":
        yield MemoryHome()
    elif request.param == "sqlite":
        yield SQLiteHome(tmp_path)
    else:
        with closing(PostgresHome(request.getfixturevalue("new_postgres"))) as opened:
            yield opened


@pytest.mark.slow
def test_journal_does_as_the_model_says(
    home: Home, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    class Machine(JournalMachine):
        pass

    Machine.home, Machine.folder = home, tmp_path
    backend = request.node.callspec.params["home"]
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine,
        settings=settings(
            max_examples=PROGRAMS[backend],
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=not PROVE,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(f"{backend}: {Machine.steps} steps")
