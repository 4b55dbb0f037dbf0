"""Who is told: nobody by default, the process's own SDK if there is one, or who is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.trace import NoOpTracerProvider
from runjournal import RunStoreError, Telemetry, open_journal
from runjournal.adapters.telemetry.measured import MeasuredStore
from runjournal.adapters.telemetry.observer import SILENT

from .conftest import Heard


def run(code: str) -> str:
    """What a fresh interpreter prints: a process has one global SDK, for good."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout


def test_without_an_sdk_nothing_is_loaded_and_nothing_stands_in_between() -> None:
    out = run(
        "import sys\n"
        "from runjournal import open_journal\n"
        "journal = open_journal('memory:')\n"
        "print(type(journal.store).__name__, 'opentelemetry' in sys.modules)\n"
        "import opentelemetry.trace\n"
        "for telemetry in (None, True, False):\n"
        "    print(type(open_journal('memory:', telemetry=telemetry).store).__name__)\n"
    )
    assert out.split() == ["MemoryStore", "False", *["MemoryStore"] * 3]


def test_the_sdk_of_the_process_is_found_by_itself() -> None:
    out = run(
        "from opentelemetry import trace\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from runjournal import open_journal\n"
        "trace.set_tracer_provider(TracerProvider())\n"
        "print(type(open_journal('memory:').store).__name__)\n"
        "print(type(open_journal('memory:', telemetry=False).store).__name__)\n"
    )
    assert out.split() == ["MeasuredStore", "MemoryStore"]


def test_one_for_metrics_alone_is_enough() -> None:
    out = run(
        "from opentelemetry import metrics\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "from runjournal import open_journal\n"
        "metrics.set_meter_provider(MeterProvider())\n"
        "print(type(open_journal('memory:').store).__name__)\n"
    )
    assert out.split() == ["MeasuredStore"]


def test_without_opentelemetry_everything_else_works() -> None:
    out = run(
        "import sys\n"
        "sys.modules['opentelemetry.trace'] = None\n"
        "import runjournal\n"
        "with runjournal.open_journal('memory:') as journal:\n"
        "    journal.ledger().acquire('run').complete()\n"
        "try:\n"
        "    runjournal.open_journal('memory:', telemetry=True)\n"
        "except runjournal.RunStoreError as e:\n"
        "    print(e.code, e.reason, 'runjournal[telemetry]' in e.message)\n"
    )
    assert out.split() == ["RUN_VALIDATION_ERROR", "argument", "True"]


def test_the_command_line_loads_none_of_it(tmp_path: Path) -> None:
    out = run(
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from runjournal.adapters.cli.main import app\n"
        f"url = 'sqlite:///{tmp_path}/runs.db'\n"
        "for command in (['start', 'run'], ['stats']):\n"
        "    assert CliRunner().invoke(app, ['--db', url, *command]).exit_code == 0\n"
        "print('opentelemetry' in sys.modules)\n"
    )
    assert out == "False\n"


def test_providers_that_do_nothing_cost_nothing(heard: Heard) -> None:
    silent = Telemetry(NoOpTracerProvider(), NoOpMeterProvider())
    with open_journal("memory:", telemetry=silent) as journal:
        assert journal.observer is SILENT
        assert not isinstance(journal.store, MeasuredStore)
    with open_journal("memory:", telemetry=heard.telemetry) as journal:
        assert journal.observer is heard.telemetry
        assert isinstance(journal.store, MeasuredStore)


def test_anything_else_is_refused() -> None:
    with pytest.raises(RunStoreError) as caught:
        open_journal("memory:", telemetry="yes")  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "argument")
