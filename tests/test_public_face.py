"""The public names: listed once, loaded lazily, typed."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest
import runjournal


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after running `code`."""
    script = f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    return {name.partition(".")[0] for name in json.loads(out.splitlines()[-1])}


def test_every_public_name_is_there_and_listed_once() -> None:
    assert sorted(set(runjournal.__all__)) == sorted(runjournal.__all__)
    assert set(runjournal._HOME) == set(runjournal.__all__)
    for name in runjournal.__all__:
        assert getattr(runjournal, name) is not None
    assert set(runjournal.__all__) <= set(dir(runjournal))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        runjournal.nonsense  # noqa: B018


def test_every_public_name_says_what_it_is() -> None:
    for name in runjournal.__all__:
        value = getattr(runjournal, name)
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue
        assert inspect.getdoc(value), name
        if not inspect.isclass(value) or issubclass(value, Exception):
            continue
        for method, function in inspect.getmembers(value, inspect.isfunction):
            if not method.startswith("_") and function.__module__.startswith("runjournal"):
                assert inspect.getdoc(function), f"{name}.{method}"


def test_importing_the_package_loads_nothing() -> None:
    heavy = {"pydantic", "eventsourcing", "psycopg", "orjson", "typer", "rich", "sqlite3"}
    heavy |= {"httpx", "anyio", "opentelemetry"}
    assert modules_after("import runjournal") & heavy == set()


def test_importing_the_domain_loads_pydantic_only() -> None:
    loaded = modules_after("import runjournal.domain")
    assert "pydantic" in loaded
    assert loaded & {"eventsourcing", "psycopg", "orjson", "typer", "rich", "sqlite3"} == set()


def test_opening_a_journal_loads_its_own_backend_only() -> None:
    code = "import runjournal; runjournal.open_journal('memory:').close()"
    others = {"psycopg", "jinja2", "typer", "rich", "httpx", "fcntl", "anyio", "opentelemetry"}
    assert modules_after(code) & others == set()
