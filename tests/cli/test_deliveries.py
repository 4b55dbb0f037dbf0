"""deliveries list, show, retry and serve."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal

GATEWAYS = """
[gateways.archive]
type = "jsonl"
path = "archive.jsonl"

[gateways.broken]
type = "python"
call = "sinks:broken"
"""
SINKS = """
from runjournal import DeliveryAmbiguous, DeliveryRefused

def broken(request):
    if request.result == "maybe":
        raise DeliveryAmbiguous("no answer")
    raise DeliveryRefused("not wanted\\nat all")
"""


@pytest.fixture(autouse=True)
def gateways(tmp_path: Path) -> None:
    (tmp_path / "gateways.toml").write_text(GATEWAYS)
    (tmp_path / "sinks.py").write_text(SINKS)


def ended(journal: Journal, run_id: str, ref: str = "archive", result: Any = None) -> None:
    ledger = journal.ledger()
    ledger.start(run_id, delivery_ref=ref)
    ledger.acquire(run_id).complete(result)


def archived(tmp_path: Path) -> list[str]:
    file = tmp_path / "archive.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line)["runId"] for line in lines]


def test_list_shows_what_waits(cli: Any, journal: Journal) -> None:
    assert cli.json("deliveries", "list") == []
    for run_id in ("a", "b"):
        ended(journal, run_id)
    (first, second) = cli.json("deliveries", "list")
    assert {first["runId"], second["runId"]} == {"a", "b"}
    assert (first["status"], first["attempts"], first["needsAttention"]) == ("pending", 0, False)
    assert cli.json("deliveries", "list", "--after", first["invocationId"]) == [second]
    assert cli.json("deliveries", "list", "--limit", "1") == [first]
    assert cli.json("deliveries", "list", "--status", "delivered") == []
    text = cli("deliveries", "list")
    assert first["invocationId"] in text
    assert "pending" in text


def test_serve_once_sends_what_is_due(cli: Any, journal: Journal, tmp_path: Path) -> None:
    ended(journal, "a")
    serve = ("deliveries", "serve", "--gateways", "gateways.toml", "--once")
    assert cli(*serve) == "1 delivered, 0 unknown, 0 skipped, 0 set aside\n"
    assert cli.json(*serve) == {"delivered": 0, "unknown": 0, "skipped": 0, "set_aside": 0}
    assert archived(tmp_path) == ["a"]
    assert "delivered" in cli("deliveries", "show", "a")


def test_refused_delivery_waits_for_attention_and_is_retried(cli: Any, journal: Journal) -> None:
    ended(journal, "bad", "broken")
    ended(journal, "good")
    cli("deliveries", "serve", "--gateways", "gateways.toml", "--once")
    (waiting,) = cli.json("deliveries", "list", "--attention")
    assert (waiting["runId"], waiting["definite"]) == ("bad", True)
    retry = ("deliveries", "retry", "--gateways", "gateways.toml", "--actor", "ada")
    line = cli(*retry, "bad")
    assert line == "bad -> broken: unknown (attempts 2): not wanted\\nat all\n"
    assert cli(*retry, "--attention").startswith("0 delivered, 1 unknown")
    shown = cli.json("deliveries", "show", waiting["invocationId"])
    assert shown["attempts"] == 3
    attempts = [e for e in shown["events"] if e["topic"] == "delivery.attempted"]
    assert [e["actor"] for e in attempts] == [None, "ada", "ada"]


def test_what_may_have_arrived_says_so(cli: Any, journal: Journal) -> None:
    ended(journal, "r", "broken", "maybe")
    cli("deliveries", "serve", "--gateways", "gateways.toml", "--once")
    text = cli("deliveries", "show", "r")
    assert "not known" in text
    assert "when somebody asks for it" in text
    serve = ("deliveries", "serve", "--gateways", "gateways.toml", "--once", "--retry-ambiguous")
    cli("deliveries", "retry", "--gateways", "gateways.toml", "r")
    assert cli.json(*serve)["unknown"] == 0  # it waits for somebody, whatever the policy says now


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("show", "nobody"), 3, "RUN_NOT_FOUND/delivery: there is no delivery 'nobody'"),
        (("retry", "--gateways", "gateways.toml"), 2, "name the deliveries to retry"),
        (("retry", "--gateways", "gateways.toml", "--attention", "a"), 2, "name the deliveries"),
        (("retry", "--gateways", "none.toml", "a"), 2, "none.toml"),
        (("serve", "--gateways", "none.toml"), 2, "none.toml"),
        (("serve", "--gateways", "gateways.toml", "--attempt-ttl", "0"), 2, "attempt_ttl"),
        (("list", "--status", "lost"), 2, "lost"),
        ((), 2, "Missing command"),
    ],
)
def test_bad_input_is_refused(cli: Any, args: tuple[str, ...], code: int, says: str) -> None:
    cli("migrate")
    (line,) = cli("deliveries", *args, code=code).splitlines()
    assert says in line


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_on_a_signal(
    spawn: Callable[..., subprocess.Popen[str]],
    journal: Journal,
    wait_until: Callable[[Callable[[], Any]], None],
    tmp_path: Path,
    number: signal.Signals,
) -> None:
    process = spawn("deliveries", "serve", "--gateways", "gateways.toml", "--poll", "0.2")
    ended(journal, "a")
    wait_until(lambda: archived(tmp_path) == ["a"])
    ended(journal, "b")
    wait_until(lambda: archived(tmp_path) == ["a", "b"])
    process.send_signal(number)
    out, errors = process.communicate()
    assert (process.returncode, out, errors) == (0, "", "")


def test_worker_delivers_as_its_run_ends(cli: Any, journal: Journal, tmp_path: Path) -> None:
    (tmp_path / "reporting.py").write_text("def report(ctx):\n    return 1\n")
    for run_id, ref in (("a", "archive"), ("b", "elsewhere")):
        journal.ledger().start(run_id, delivery_ref=ref)
        cli("worker", "--handler", "reporting:report", "--gateways", "gateways.toml", "--once")
    assert archived(tmp_path) == ["a"]
    assert [d.attempts for d in journal.deliveries(status="pending")] == [0]
