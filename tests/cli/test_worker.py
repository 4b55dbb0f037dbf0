"""The worker command: handlers from a module, signals, and what becomes of the run."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunLedger, RunStoreError
from runjournal.adapters.loading import load_function

Spawn = Callable[..., "subprocess.Popen[str]"]
WaitUntil = Callable[[Callable[[], Any]], None]

HANDLERS = """
import asyncio
import time

def double(ctx):
    ctx.save_checkpoint({"seen": ctx.input})
    return {"doubled": ctx.input * 2}

def explode(ctx):
    raise ValueError("no such\\nluck")

def cooperate(ctx):
    ctx.save_checkpoint("started")
    ctx.stop.wait()
    ctx.ensure_held()

def ignore(ctx):
    ctx.save_checkpoint("started")
    while True:
        time.sleep(1)

async def ignore_in_a_pool(ctx):
    ctx.save_checkpoint("started")
    await asyncio.to_thread(time.sleep, 100)

class Jobs:
    double = staticmethod(double)
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A module of handlers in the working directory; its name is new, for modules are cached."""
    name = f"handlers_{abs(hash(request.node.nodeid))}"
    (tmp_path / f"{name}.py").write_text(HANDLERS)
    return name


def test_once_completes_a_run(cli: Any, module: str) -> None:
    assert cli("worker", "--handler", f"{module}:double", "--once") == "no run is due\n"
    assert cli.json("worker", "--handler", f"{module}:double", "--once") is None
    cli("start", "a", "--input", "21")
    record = cli.json("worker", "--handler", f"{module}:double", "--once", "--owner", "me")
    assert record == cli.json("show", "a")
    assert record["status"] == "completed"
    events = cli.lines("log", "a")
    assert events[1]["owner"] == "me"
    assert events[-1]["result"] == {"doubled": 42}


def test_kinds_and_ttl(cli: Any, module: str) -> None:
    for run_id, kind in (("a", "x"), ("b", "y"), ("c", "z")):
        cli("start", run_id, "--kind", kind, "--input", "1")
    options = ("--handler", f"{module}:Jobs.double", "--once", "--kind", "y", "--kind", "z")
    taken = {cli.json("worker", *options, "--ttl", "7")["runId"] for _ in range(2)}
    assert taken == {"b", "c"}
    assert cli.json("worker", *options) is None
    assert cli.lines("log", "b")[1]["ttl"] == 7


RAISED = (
    r"runjournal: run a: its handler raised ValueError: no such\\nluck "
    r"\(handlers_\d+\.py:\d+ in explode\)\n"
)


def test_a_handler_that_raises_is_a_failed_run_not_a_failed_command(cli: Any, module: str) -> None:
    cli("start", "a")
    printed = cli("worker", "--handler", f"{module}:explode", "--once", warned=RAISED)
    assert printed == "a: failed (version 3)\n"
    outcome = cli.json("show", "a")["outcome"]
    assert outcome == {"code": "handler_error", "message": "ValueError: no such\nluck"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_hands_the_run_back(
    cli: Any, spawn: Spawn, wait_until: WaitUntil, module: str, number: int, journal: Journal
) -> None:
    cli("start", "a")
    process = spawn("--json", "worker", "--handler", f"{module}:cooperate")
    wait_until(lambda: journal.get("a").checkpoint_ref)  # type: ignore[union-attr]
    process.send_signal(number)
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    (line,) = output.splitlines()
    assert json.loads(line)["status"] == "queued"
    record = cli.json("show", "a")
    assert (record["status"], record["failures"], record["lease"]) == ("queued", 0, None)
    assert cli.lines("log", "a")[-1]["topic"] == "run.lease_released"


def test_an_idle_worker_takes_what_comes_and_ends_at_once(
    cli: Any, spawn: Spawn, wait_until: WaitUntil, module: str, journal: Journal
) -> None:
    process = spawn("worker", "--handler", f"{module}:double", "--poll", "0.1")
    for run_id in ("a", "b"):
        cli("start", run_id, "--input", "1")
        wait_until(lambda: journal.get(run_id).is_terminal)  # type: ignore[union-attr]  # noqa: B023
    process.terminate()
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert output == "a: completed (version 4)\nb: completed (version 4)\n"


@pytest.mark.parametrize("handler", ["ignore", "ignore_in_a_pool"])
@pytest.mark.parametrize("once", [[], ["--once"]], ids=["loop", "once"])
def test_a_handler_that_ignores_the_stop_is_left_behind(
    cli: Any,
    spawn: Spawn,
    wait_until: WaitUntil,
    module: str,
    journal: Journal,
    handler: str,
    once: list[str],
) -> None:
    """Its lease stays: nobody starts a second copy beside it. The exit code says so."""
    cli("start", "a")
    process = spawn("worker", "--handler", f"{module}:{handler}", "--grace", "0.1", *once)
    wait_until(lambda: journal.get("a").checkpoint_ref)  # type: ignore[union-attr]
    process.terminate()
    output, errors = process.communicate()
    assert process.returncode == 8
    assert output == "a: running (version 3)\n"
    (line,) = errors.splitlines()
    assert line.startswith("runjournal: run a: run 'a' is left to its lease, which expires at ")
    assert cli.json("show", "a")["lease"]["owner"] == cli.lines("log", "a")[1]["owner"]


def test_a_second_signal_kills(
    cli: Any, spawn: Spawn, wait_until: WaitUntil, module: str, journal: Journal
) -> None:
    cli("start", "a")
    process = spawn("worker", "--handler", f"{module}:ignore", "--grace", "600", "--ttl", "60")
    wait_until(lambda: journal.get("a").checkpoint_ref)  # type: ignore[union-attr]

    def gone() -> bool:
        process.terminate()
        return process.poll() is not None

    wait_until(gone)
    assert process.returncode == -signal.SIGTERM
    assert cli.json("show", "a")["status"] == "running"


def test_a_worker_outlives_a_busy_store(
    cli: Any, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reports each failure and tries again; what cannot pass by itself ends it."""
    failures = [
        RunStoreError("RUN_STORE_UNAVAILABLE", "busy", "try later"),
        RunStoreError("RUN_INTEGRITY_ERROR", "damaged_database", "it is broken"),
    ]

    def claim(*_: Any, **__: Any) -> None:
        raise failures.pop(0)

    monkeypatch.setattr(RunLedger, "claim", claim)
    lines = cli("worker", "--handler", f"{module}:double", code=6).splitlines()
    assert ["busy" in lines[0], "damaged_database" in lines[1], len(lines)] == [True, True, 2]
    assert all(line.startswith("runjournal: ") for line in lines)
    failures.append(RunStoreError("RUN_STORE_UNAVAILABLE", "busy", "try later"))
    assert "busy" in cli("worker", "--handler", f"{module}:double", "--once", code=7)


def test_several_runs_at_once(
    spawn: Spawn, wait_until: WaitUntil, cli: Any, module: str, journal: Journal
) -> None:
    for run_id in ("a", "b", "c"):
        cli("start", run_id)
    process = spawn("worker", "--handler", f"{module}:cooperate", "--concurrency", "2")
    wait_until(lambda: sum(r.checkpoint_ref is not None for r in journal.runs()) == 2)
    process.terminate()
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert sorted(output.splitlines()) == ["a: queued (version 4)", "b: queued (version 4)"]


def test_a_handler_that_raises_is_tried_again(cli: Any, module: str) -> None:
    cli("start", "a")
    options = ("--max-attempts", "2", "--backoff", "0.001", "--once")
    lines = []
    while not cli.json("show", "a")["outcome"]:
        lines.append(
            cli("worker", "--handler", f"{module}:explode", *options, warned=f"({RAISED})?")
        )
    assert [line for line in lines if line != "no run is due\n"] == [
        "a: queued (version 3)\n",
        "a: failed (version 5)\n",
    ]
    message = "gave up after 2 failed attempts: ValueError: no such\nluck"
    assert cli.json("show", "a")["outcome"] == {"code": "handler_error", "message": message}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-attempts", "0"], "max_attempts"),
        (["--backoff", "1"], "--max-attempts"),
        (["--max-attempts", "2", "--backoff", "0"], "backoff"),
        (["--concurrency", "0"], "concurrency"),
        (["--poll", "-1"], "poll"),
        (["--grace", "-1"], "grace"),
    ],
)
def test_bad_options_are_one_line(cli: Any, module: str, options: list[str], message: str) -> None:
    (line,) = cli("worker", "--handler", f"{module}:double", *options, code=2).splitlines()
    assert message in line


def test_nested_names_are_found() -> None:
    name = "json.decoder:JSONDecoder.decode"
    assert load_function(name, "--handler") is json.decoder.JSONDecoder.decode
