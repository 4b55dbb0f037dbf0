"""Every command that starts, reads or operates on runs, for people and for programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from runjournal import Journal, RunLifecycleStatus, RunRecord
from runjournal.adapters.cli.reading_commands import Status


def test_start_prints_the_record(cli: Any, journal: Journal) -> None:
    assert cli("start", "a") == "a: queued (version 1)\n"
    printed = cli.json("start", "b", "--kind", "k")
    stored = journal.get("b")
    assert stored is not None
    assert printed == stored.model_dump(mode="json", by_alias=True)
    assert RunRecord.model_validate(printed) == stored


def test_start_takes_every_argument(cli: Any, journal: Journal) -> None:
    record = cli.json(
        *("start", "child", "--kind", "k", "--input", '{"x": [1, 2.5, null]}'),
        *("--label", "a=1", "--label", "b=x=y", "--delivery-ref", "box", "--authority-ref", "who"),
        *("--parent", "p", "--available-at", "2999-01-01T00:00:00Z"),
        *("--actor", "alice", "--command-id", "c1"),
    )
    assert record["kind"] == "k"
    assert record["labels"] == {"a": "1", "b": "x=y"}
    assert record["deliveryRef"] == "box"
    assert record["authorityRef"] == "who"
    assert record["parentRunId"] == "p"
    assert record["availableAt"] == "2999-01-01T00:00:00Z"
    (event,) = journal.events("child")
    assert event.actor == "alice"
    assert event.command_id == "c1"
    assert event.input == {"x": [1, 2.5, None]}  # type: ignore[attr-defined]


def test_input_from_file_and_stdin(cli: Any, tmp_path: Path, journal: Journal) -> None:
    (tmp_path / "in.json").write_text('{"日": "本"}', encoding="utf-8")
    cli("start", "file", "--input", "@in.json")
    cli("start", "stdin", "--input", "-", stdin="[1]")
    assert cli.lines("log", "file")[0]["input"] == {"日": "本"}
    assert cli.lines("log", "stdin")[0]["input"] == [1]


def test_start_converges_and_conflicts(cli: Any) -> None:
    first = cli.json("start", "a", "--input", "1")
    assert cli.json("start", "a", "--input", "1") == first
    assert "RUN_CONFLICT/different_arguments" in cli("start", "a", "--input", "2", code=4)


def test_list_filters_and_pages(cli: Any) -> None:
    cli("migrate")
    assert cli.json("list") == []
    for run_id, kind in (("a", "x"), ("b", "y"), ("c", "x")):
        cli("start", run_id, "--kind", kind)
    cli("cancel", "c")

    def ids(*args: str) -> list[str]:
        return [r["runId"] for r in cli.json("list", *args)]

    assert ids() == ["a", "b", "c"]
    assert ids("--kind", "x") == ["a", "c"]
    assert ids("--status", "cancelled") == ["c"]
    assert ids("--limit", "2") == ["a", "b"]
    assert ids("--limit", "2", "--after", "b") == ["c"]
    table = cli("list").splitlines()
    assert table[0].split()[:3] == ["RUN", "KIND", "STATUS"]
    assert [row.split()[:3] for row in table[1:]] == [
        ["a", "x", "queued"],
        ["b", "y", "queued"],
        ["c", "x", "cancelled"],
    ]


def test_list_shows_who_waits_for_what(cli: Any, journal: Journal) -> None:
    ledger = journal.ledger()
    for run_id, pending in (("a", ["boss", "bank"]), ("b", [])):
        ledger.acquire(run_id).suspend(pending)
    ledger.start("c")
    assert "WAITS FOR" not in cli("list", "--status", "queued")
    head, *rows = cli("list").splitlines()
    at = slice(head.index("WAITS FOR"), head.index("UPDATED"))
    assert [row[at].strip() for row in rows] == ["boss, bank", "a resume", ""]
    cli("decide", "a", "boss", "yes")
    head, row, _ = cli("list", "--status", "suspended").splitlines()
    assert row[head.index("WAITS FOR") :].startswith("bank  ")
    cli("decide", "a", "bank", "no")
    (row,) = (line for line in cli("show", "a").splitlines() if line.startswith("waits for"))
    assert row.rstrip().endswith("  a resume")


def test_the_parser_knows_every_status() -> None:
    assert list(get_args(Status)) == [str(s) for s in RunLifecycleStatus]


def test_show_with_payloads(cli: Any, journal: Journal) -> None:
    journal.ledger().start("a", input={"rows": "[bold]2"})
    with journal.ledger().acquire("a") as lease:
        lease.save_checkpoint({"question": "Pay?\n" + 100 * "x"})
        before = cli.json("show", "a", "--payloads")
        lease.complete({"paid": 7})
    assert (before["state"]["question"][:4], before["result"]) == ("Pay?", None)
    assert "question" not in cli("show", "a")
    text = cli("show", "a", "--payloads")
    for line in ('{"rows": "[bold]2"}', f"Pay?\\n{100 * 'x'}", '{"paid": 7}'):
        assert line in text
    after = cli.json("show", "a", "--payloads")
    assert (after["runId"], after["result"], after["input"]) == (
        "a",
        {"paid": 7},
        {"rows": "[bold]2"},
    )
    assert cli.json("show", "a", "--payloads", "--at", "2")["state"] is None


def test_show_now_and_then(cli: Any, journal: Journal) -> None:
    cli("start", "a", "--label", "k=v")
    with journal.ledger(owner="holder").acquire("a") as lease:
        lease.save_checkpoint({"n": 1}, key="rows")
        text = cli("show", "a")
        assert "holder, until " in text
        assert "rows, version 3" in text
        assert "k=v" in text
    assert cli.json("show", "a")["status"] == "queued"
    assert cli.json("show", "a", "--at", "2")["status"] == "running"
    assert cli.json("show", "a", "--at", "1")["version"] == 1
    assert "RUN_NOT_FOUND/version" in cli("show", "a", "--at", "99", code=3)
    assert "RUN_NOT_FOUND/run" in cli("show", "b", code=3)


def test_log_newest_last(cli: Any, journal: Journal) -> None:
    cli("start", "a", "--actor", "alice", "--input", json.dumps("x" * 5000))
    with journal.ledger(owner="holder").acquire("a") as lease:
        lease.complete({"rows": 12})
    lines = cli("log", "a").splitlines()
    assert [line.split()[3] for line in lines] == ["queued", "lease_granted", "completed"]
    assert lines[0].endswith("by alice")
    assert "owner=holder" in lines[1]
    assert '{"rows": 12}' in lines[2]
    assert max(len(line) for line in lines) < 300
    events = cli.lines("log", "a")
    assert [e["originator_version"] for e in events] == [1, 2, 3]
    assert [e["topic"] for e in events] == ["run.queued", "run.lease_granted", "run.completed"]
    assert events[0]["input"] == "x" * 5000
    assert events[2]["result"] == {"rows": 12}
    assert [e["originator_version"] for e in cli.lines("log", "a", "--after", "2")] == [3]
    assert "RUN_NOT_FOUND/run" in cli("log", "nobody", code=3)


def test_log_prints_the_deepest_payload(cli: Any) -> None:
    deepest = "[" * 254 + "]" * 254
    cli("start", "deep", "--input", "-", stdin=deepest)
    assert cli.lines("log", "deep")[0]["input"] == json.loads(deepest)
    assert "RUN_VALIDATION_ERROR/payload" in cli(
        "start", "deeper", "--input", "-", code=2, stdin=f"[{deepest}]"
    )


def test_log_follows_until_the_run_has_ended(
    cli: Any, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    cli("start", "a")
    process = spawn("--json", "log", "a", "--follow")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["topic"] == "run.queued"
    assert process.poll() is None
    cli("cancel", "a")
    assert json.loads(process.stdout.readline())["topic"] == "run.cancelled"
    rest, errors = process.communicate()
    assert (process.returncode, rest, errors) == (0, "", "")
    # Of a run that has ended there is nothing to wait for.
    assert [e["topic"] for e in cli.lines("log", "a", "--follow", "--after", "1")] == [
        "run.cancelled"
    ]
    assert cli.lines("log", "a", "--follow", "--after", "2") == []


def test_cancel(cli: Any) -> None:
    cli("start", "a")
    record = cli.json("cancel", "a", "--message", "no more", "--actor", "bob", "--command-id", "x")
    assert record["status"] == "cancelled"
    assert record["outcome"]["message"] == "no more"
    assert cli("cancel", "a") == "a: cancelled (version 2)\n"
    assert "RUN_ALREADY_TERMINAL" in cli("resume", "a", code=4)


def test_fail(cli: Any, journal: Journal) -> None:
    cli("start", "a")
    with journal.ledger().acquire("a"):
        assert "RUN_LEASE_HELD/held" in cli("fail", "a", "--code", "x", code=5)
    record = cli.json("fail", "a", "--code", "gone", "--message", "why")
    assert record["status"] == "failed"
    assert record["outcome"] == {"code": "gone", "message": "why"}
    assert "--code" in cli("fail", "a", code=2)


def test_decide_and_resume(cli: Any, journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.acquire("a").suspend(["boss", "bank"])
    assert "boss, bank" in cli("show", "a")
    assert cli.json("decide", "a", "boss", "yes")["approvals"] == {"boss": "yes", "bank": None}
    assert "RUN_CONFLICT/different_decision" in cli("decide", "a", "boss", "no", code=4)
    assert "RUN_VALIDATION_ERROR/unknown_approval" in cli("decide", "a", "who", "no", code=2)
    assert "boss=yes, bank=undecided" in cli("show", "a")
    assert cli("resume", "a") == "a: queued (version 5)\n"
    assert "RUN_INVALID_TRANSITION" in cli("decide", "a", "bank", "yes", code=4)


@pytest.mark.parametrize("text", ["[red]x[/red]", "日報", "a\x1b[31mb", "x\ny", "z\u2028"])
def test_texts_stay_texts(cli: Any, text: str) -> None:
    """Neither markup nor control characters of a message reach the terminal as such."""
    cli("start", "a")
    cli("cancel", "a", "--message", text)
    shown = text if text.isprintable() else repr(text)[1:-1]
    (row,) = (line for line in cli("show", "a").splitlines() if line.startswith("outcome"))
    assert row.rstrip().endswith(shown)
    assert cli.json("show", "a")["outcome"]["message"] == text
    assert len(cli("log", "a").splitlines()) == 2
