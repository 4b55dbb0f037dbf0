"""exec and checkpoint: any command as a run, with real processes throughout."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from runjournal import DeploymentLimits, Journal, RunRecord, RunStoreError, open_journal
from runjournal.adapters.executing.running import Terms, run_command

Spawn = Callable[..., "subprocess.Popen[str]"]
WaitUntil = Callable[[Callable[[], Any]], None]

EXEC = [sys.executable, "-m", "runjournal.adapters.cli.main", "exec"]

#: A command that says where it is, starts another process, and ends for SIGKILL only.
STUBBORN = """
trap "" TERM
sh -c 'trap "" TERM; echo $$ > grandchild; while :; do sleep 0.05; done' &
echo $PPID > keeper; echo $$ > child
while :; do sleep 0.05; done
"""
#: A command that waits for the file `go`.
PATIENT = 'echo "$RUNJOURNAL_FENCING_TOKEN" >> ran; while [ ! -e go ]; do sleep 0.02; done'


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie that its parent has not noticed yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


class Stubborn:
    """An `exec` of STUBBORN, and whether anything of it is still there."""

    def __init__(self, spawn: Spawn, wait_until: WaitUntil, *options: str) -> None:
        self.process = spawn("exec", "a", *options, "--", "sh", "-c", STUBBORN)
        names = ("keeper", "grandchild", "child")
        wait_until(lambda: all(Path(n).exists() and Path(n).read_text().strip() for n in names))
        self.keeper, *self.family = (int(Path(name).read_text()) for name in names)

    def is_gone(self) -> bool:
        return not any(map(alive, self.family))


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, wait_until: WaitUntil) -> Iterator[None]:
    """Whatever happened: no folder and no process of a command is left behind."""
    yield
    wait_until(lambda: not list(tmp_path.glob("runjournal-exec-*")))
    for name in ("child", "grandchild", "keeper"):
        path = tmp_path / name
        wait_until(lambda: not path.exists() or not alive(int(path.read_text())))  # noqa: B023


def record_of(journal: Journal) -> RunRecord:
    record = journal.get("a")
    assert record is not None
    return record


def finish(process: subprocess.Popen[str], code: int) -> tuple[str, str]:
    output, errors = process.communicate()
    assert process.returncode == code, (process.returncode, output, errors)
    return output, errors


def test_a_command_is_run_once_and_its_end_is_kept(cli: Any, spawn: Spawn) -> None:
    script = "echo out; echo err >&2; echo once >> ran"
    assert finish(spawn("exec", "a", "--", "sh", "-c", script), 0) == ("out\n", "err\n")
    result = {"exitCode": 0, "outputTail": "out\n", "truncated": False}
    assert cli.lines("log", "a")[-1]["result"] == result
    output, errors = finish(spawn("exec", "a", "--", "sh", "-c", script), 0)
    assert (output, errors) == ("", "runjournal: run 'a' has already completed: nothing to do\n")
    assert Path("ran").read_text() == "once\n"


def test_of_three_at_once_one_runs(cli: Any, spawn: Spawn, wait_until: WaitUntil) -> None:
    started = [spawn("exec", "a", "--owner", f"host-{n}", "--", "sh", "-c", PATIENT) for n in "123"]
    wait_until(lambda: sum(p.poll() is not None for p in started) == 2)
    losers = [p for p in started if p.returncode is not None]
    holder = cli.json("show", "a")["lease"]["owner"]
    for loser in losers:
        output, errors = finish(loser, 73)
        assert output == ""
        assert f"runjournal: run 'a' is held by '{holder}' for at least" in errors
        assert errors.count("\n") == 1
    Path("go").touch()
    for winner in set(started) - set(losers):
        finish(winner, 0)
    assert Path("ran").read_text() == "1\n"
    assert cli.json("show", "a")["status"] == "completed"


def test_killed_exec_takes_its_command_along(
    spawn: Spawn, wait_until: WaitUntil, journal: Journal
) -> None:
    stubborn = Stubborn(spawn, wait_until, "--ttl", "600", "--grace", "0.2")
    stubborn.process.kill()
    wait_until(stubborn.is_gone)
    assert record_of(journal).status == "running"  # nobody could give it back


def test_after_a_killed_exec_another_takes_over(
    cli: Any, spawn: Spawn, wait_until: WaitUntil
) -> None:
    stubborn = Stubborn(spawn, wait_until, "--ttl", "1", "--grace", "0.2")
    stubborn.process.kill()
    script = 'echo "$RUNJOURNAL_FENCING_TOKEN $RUNJOURNAL_ATTEMPT"'
    assert finish(spawn("exec", "a", "--wait", "--", "sh", "-c", script), 0) == ("2 2\n", "")
    assert stubborn.is_gone()
    assert cli.json("show", "a")["status"] == "completed"


def test_killed_keeper_takes_the_command_along(
    cli: Any, spawn: Spawn, wait_until: WaitUntil
) -> None:
    stubborn = Stubborn(spawn, wait_until)
    os.kill(stubborn.keeper, signal.SIGKILL)
    _, errors = finish(stubborn.process, 128 + signal.SIGKILL)
    wait_until(stubborn.is_gone)
    assert errors == "runjournal: run 'a': signal_KILL; it is failed\n"
    assert cli.json("show", "a")["outcome"]["code"] == "signal_KILL"


def test_without_exec_and_keeper_the_system_ends_the_command(
    spawn: Spawn, wait_until: WaitUntil
) -> None:
    stubborn = Stubborn(spawn, wait_until)
    stubborn.process.send_signal(signal.SIGSTOP)  # so that it cannot notice
    os.kill(stubborn.keeper, signal.SIGKILL)
    stubborn.process.kill()
    grandchild, child = stubborn.family
    wait_until(lambda: not alive(child))
    # That is of Linux, for the command itself; what it started in turn it does not end.
    os.kill(grandchild, signal.SIGKILL)
    for folder in Path.cwd().glob("runjournal-exec-*"):
        shutil.rmtree(folder)


def test_stopped_exec_does_not_let_its_command_outlive_the_lease(
    spawn: Spawn, wait_until: WaitUntil, journal: Journal
) -> None:
    stubborn = Stubborn(spawn, wait_until, "--ttl", "1", "--grace", "0.2")
    stubborn.process.send_signal(signal.SIGSTOP)
    # Its keeper acts in its place.
    wait_until(stubborn.is_gone)
    other = journal.ledger(owner="other")
    wait_until(lambda: record_of(journal).lease.expires_at <= journal.store.now())  # type: ignore[union-attr]
    lease = other.acquire("a")
    stubborn.process.send_signal(signal.SIGCONT)
    _, errors = finish(stubborn.process, 75)
    assert "RUN_LEASE_LOST/taken_over" in errors
    lease.complete()
    assert record_of(journal).fencing_token == 2


def test_cancelled_run_ends_its_command(
    cli: Any, spawn: Spawn, wait_until: WaitUntil, journal: Journal
) -> None:
    stubborn = Stubborn(spawn, wait_until, "--ttl", "1", "--grace", "0.3")
    cli("cancel", "a")
    cancelled = time.monotonic()
    _, errors = finish(stubborn.process, 75)
    assert stubborn.is_gone()
    # A beat, the grace period, and a moment.
    assert time.monotonic() - cancelled < 1 / 3 + 0.3 + 2
    assert errors.startswith("runjournal: RUN_LEASE_LOST/cancelled: ")
    assert record_of(journal).status == "cancelled"


def test_store_that_stays_away_ends_the_command(
    spawn: Spawn, wait_until: WaitUntil, journal: Journal
) -> None:
    stubborn = Stubborn(spawn, wait_until, "--ttl", "1", "--grace", "0.1")
    with closing(sqlite3.connect("runjournal.db", isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        _, errors = finish(stubborn.process, 75)
        assert stubborn.is_gone()
        lines = errors.splitlines()
        assert lines
        assert all(line.startswith("runjournal: ") for line in lines), lines
        blocker.execute("ROLLBACK")
    assert [e.topic for e in journal.events("a")] == ["run.queued", "run.lease_granted"]


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=lambda value: str(value),
)
def test_a_signal_is_a_detach(
    cli: Any, spawn: Spawn, wait_until: WaitUntil, number: int, code: int
) -> None:
    # It stops in good order, with exit code 0; that is a stop all the same.
    script = 'trap "echo stopped; exit 0" TERM; echo > ready; while :; do sleep 0.02; done'
    process = spawn("exec", "a", "--", "sh", "-c", script)
    wait_until(Path("ready").exists)
    process.send_signal(number)
    output, errors = finish(process, code)
    assert output == "stopped\n"
    assert "runjournal" not in errors  # the shell may tell of its own processes
    record = cli.json("show", "a")
    assert (record["status"], record["failures"]) == ("queued", 0)
    assert cli.lines("log", "a")[-1]["reason"] == "interrupted"


def test_a_command_that_does_not_stop_is_killed_after_the_grace_period(
    cli: Any, spawn: Spawn, wait_until: WaitUntil
) -> None:
    stubborn = Stubborn(spawn, wait_until, "--grace", "0.3")
    stubborn.process.terminate()
    finish(stubborn.process, 143)
    assert stubborn.is_gone()
    assert cli.json("show", "a")["status"] == "queued"


def test_failing_commands_are_tried_again_from_their_checkpoint(cli: Any, spawn: Spawn) -> None:
    script = """
        n=0; if [ -e "$RUNJOURNAL_CHECKPOINT" ]; then n=$(cat "$RUNJOURNAL_CHECKPOINT"); fi
        echo "from $n"
        cd / && echo $((n + 5)) | runjournal checkpoint --state - --key step --snapshot-version 3
        echo "no luck" >&2; exit 3"""
    command = ("--max-attempts", "2", "--", "sh", "-c", script)
    output, errors = finish(spawn("exec", "a", *command), 3)
    assert output == "from 0\n"
    assert "runjournal: run 'a': exit_3; it is queued, and is due again at" in errors
    record = cli.json("show", "a")
    assert (record["failures"], record["lastError"]) == (1, "exit_3: no luck")
    assert record["checkpointRef"]["key"] == "step"
    assert record["checkpointRef"]["snapshotVersion"] == 3
    output, errors = finish(spawn("exec", "a", "--wait", *command), 3)
    assert output == "from 5\n"
    assert errors == "no luck\nrunjournal: run 'a': exit_3; it is failed\n"
    record = cli.json("show", "a")
    assert record["outcome"] == {"code": "exit_3", "message": "no luck"}
    topics = [event["topic"].removeprefix("run.") for event in cli.lines("log", "a")]
    attempt = ["lease_granted", "checkpoint_saved"]
    assert topics == ["queued", *attempt, "lease_released", *attempt, "failed"]


def test_a_run_that_is_not_due_yet_is_left(cli: Any, spawn: Spawn) -> None:
    cli("start", "a", "--available-at", "2999-01-01T00:00:00Z")
    _, errors = finish(spawn("exec", "a", "--", "true"), 73)
    assert "runjournal: run 'a' is not due for another" in errors
    assert cli.json("show", "a")["status"] == "queued"


def test_checkpoints_at_once_all_land(cli: Any, spawn: Spawn) -> None:
    script = "for i in 1 2 3 4; do runjournal checkpoint --state $i & done; wait"
    assert finish(spawn("exec", "a", "--", "sh", "-c", script), 0) == ("", "")
    events = cli.lines("log", "a")
    saved = [e["state"] for e in events if e["topic"] == "run.checkpoint_saved"]
    assert sorted(saved) == [1, 2, 3, 4]
    assert events[-1]["topic"] == "run.completed"


def test_checkpoint_says_when_the_lease_is_lost(
    cli: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = journal.ledger().acquire("a")
    monkeypatch.setenv("RUNJOURNAL_RUN_ID", "a")
    monkeypatch.setenv("RUNJOURNAL_FENCING_TOKEN", str(lease.fencing_token))
    assert cli("checkpoint", "--state", "[1]") == ""
    assert cli.json("checkpoint", "--state", "[2]")["version"] == 4
    Path("state.json").write_text('{"n": 3}')
    assert cli("checkpoint", "--state", "@state.json") == ""
    assert "not JSON" in cli("checkpoint", "--state", "{", code=2)
    assert "cannot be read" in cli("checkpoint", "--state", "@nowhere", code=2)
    assert "checkpoint_bytes" in cli(
        "checkpoint", "--state", "-", stdin=json.dumps("x" * (1 << 20)), code=2
    )
    lease.release()
    journal.ledger().acquire("a")
    assert "RUN_LEASE_LOST/taken_over" in cli("checkpoint", "--state", "4", code=5)
    journal.ledger().cancel("a")
    monkeypatch.setenv("RUNJOURNAL_FENCING_TOKEN", "2")
    assert "RUN_LEASE_LOST/cancelled" in cli("checkpoint", "--state", "4", code=5)
    assert cli.json("show", "a")["version"] == 8
    monkeypatch.setenv("RUNJOURNAL_RUN_ID", "b")
    assert "RUN_NOT_FOUND" in cli("checkpoint", "--state", "4", code=3)
    for token in ("", "x", "-1", "²"):
        monkeypatch.setenv("RUNJOURNAL_FENCING_TOKEN", token)
        assert "works in what `runjournal exec` runs only" in cli(
            "checkpoint", "--state", "4", code=2
        )


def test_what_a_command_knows_of_its_run(spawn: Spawn, cli: Any, journal: Journal) -> None:
    journal.ledger().start("a", kind="report", input={"day": "2025-03-01"})
    code = """
import json, os, stat, sys
given = {k.removeprefix("RUNJOURNAL_"): v for k, v in os.environ.items() if "RUNJOURNAL" in k}
path = given["INPUT"]
given["modes"] = [oct(stat.S_IMODE(os.stat(p).st_mode)) for p in (path, os.path.dirname(path))]
given["input"] = json.load(open(path))
given["saved"] = os.path.exists(given.pop("CHECKPOINT"))
given["stdin"] = sys.stdin.read()
given["session"] = os.getsid(0) == os.getpid()
json.dump(given, sys.stdout)
"""
    output, _ = finish(spawn("exec", "a", "--", sys.executable, "-c", code), 0)
    given = json.loads(output)
    assert not Path(given.pop("INPUT")).exists()
    assert given == {
        "RUN_ID": "a",
        "FENCING_TOKEN": "1",
        "ATTEMPT": "1",
        "KIND": "report",
        "DB": f"sqlite:///{Path.cwd()}/runjournal.db",
        "SCHEMA": "public",
        "POOLER": "0",
        "modes": ["0o600", "0o700"],
        "input": {"day": "2025-03-01"},
        "saved": False,
        "stdin": "",
        "session": True,
    }


def test_options_of_a_new_run(spawn: Spawn, cli: Any) -> None:
    Path("input.json").write_text("[1]")
    options = ("--kind", "report", "--input", "@input.json", "--delivery-ref", "inbox")
    script = 'cat "$RUNJOURNAL_INPUT"'
    for _ in range(2):  # the same again is no conflict
        finish(spawn("exec", "a", *options, "--ttl", "7", "--", "sh", "-c", script), 0)
    record = cli.json("show", "a")
    assert (record["kind"], record["deliveryRef"]) == ("report", "inbox")
    events = cli.lines("log", "a")
    assert (events[0]["input"], events[1]["ttl"]) == ([1], 7)
    assert events[-1]["result"]["outputTail"] == "[1]\n"
    _, errors = finish(spawn("exec", "a", "--kind", "other", "--", "true"), 4)
    assert errors.startswith("runjournal: RUN_CONFLICT/different_arguments: ")


def test_anything_may_be_printed(cli: Any, journal: Journal) -> None:
    """Megabytes of all bytes there are pass through unchanged, and cannot refuse the end."""
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 8192 + b'\\xe4\\x00\\x1b[1m')"
    done = subprocess.run(
        [*EXEC, "a", "--", sys.executable, "-c", code], capture_output=True, check=False
    )
    whole = bytes(range(256)) * 8192 + b"\xe4\x00\x1b[1m"
    assert (done.returncode, done.stdout, done.stderr) == (0, whole, b"")
    result = cli.lines("log", "a")[-1]["result"]
    assert result["outputTail"] == whole[-4096:].decode("utf-8", "replace")
    assert result["truncated"] is True
    code = f"{code.replace('stdout', 'stderr')}; sys.exit(9)"
    done = subprocess.run(
        [*EXEC, "b", "--", sys.executable, "-c", code], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr[: len(whole)]) == (9, whole)
    message = cli.json("show", "b")["outcome"]["message"]
    assert message.endswith("\ufffd\\x00\\x1b[1m")
    assert len(message) == 1901


def test_a_tail_begins_with_a_whole_character(cli: Any, spawn: Spawn) -> None:
    finish(spawn("exec", "a", "--", sys.executable, "-c", "print('x' + '\u00e4' * 5000)"), 0)
    assert cli.lines("log", "a")[-1]["result"]["outputTail"] == "\u00e4" * 2047 + "\n"


def test_credentials_in_an_error_are_not_kept(cli: Any, spawn: Spawn) -> None:
    script = "echo postgresql://me:secret@host/db >&2; exit 1"
    finish(spawn("exec", "a", "--", "sh", "-c", script), 1)
    message = cli.json("show", "a")["outcome"]["message"]
    assert message == "postgresql://***@host/db"


def test_output_that_nobody_reads_does_not_stop_the_work(cli: Any, wait_until: WaitUntil) -> None:
    script = "echo first; while [ ! -e go ]; do sleep 0.02; done; seq 100000; echo last"
    process = subprocess.Popen([*EXEC, "a", "--", "sh", "-c", script], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        process.stdout.close()
        Path("go").touch()
    assert process.returncode == 0
    assert cli.lines("log", "a")[-1]["result"]["outputTail"].endswith("100000\nlast\n")


def test_closed_standard_files_are_replaced(new_postgres: Callable[[], str]) -> None:
    """What is opened next, such as a connection, would get their numbers, and the output."""
    url = new_postgres()
    script = "echo out; echo err >&2; runjournal checkpoint --state 1"
    command = f"{' '.join(EXEC[:-1])} --db '{url}' exec a -- sh -c '{script}' <&- >&- 2>&-"
    subprocess.run(command, shell=True, check=True)
    with open_journal(url) as journal:
        *_, end = journal.events("a")
        assert end.result["outputTail"] == "out\n"  # type: ignore[attr-defined]


def test_what_a_command_leaves_behind_ends_with_it(cli: Any, spawn: Spawn) -> None:
    """It holds the output open, too; nobody waits for that."""
    began = time.monotonic()
    output, _ = finish(spawn("exec", "a", "--", "sh", "-c", "sleep 60 & echo $!"), 0)
    assert not alive(int(output))
    assert time.monotonic() - began < 20
    # One that has left the group is on its own; its output ends with the command all the same.
    script = "import os, time\nif os.fork() == 0:\n os.setsid(); print(os.getpid(), flush=True)"
    output, _ = finish(
        spawn("exec", "b", "--", sys.executable, "-c", f"{script}; time.sleep(60)\ntime.sleep(.5)"),
        0,
    )
    os.kill(int(output), signal.SIGKILL)


@pytest.mark.parametrize(("name", "code"), [("no-such-command", 127), ("./plain", 126)])
def test_a_command_that_cannot_be_started_leaves_the_run_to_others(
    cli: Any, spawn: Spawn, name: str, code: int
) -> None:
    Path("plain").write_text("no program")
    _, errors = finish(spawn("exec", "a", "--max-attempts", "1", "--", name), code)
    assert f"runjournal: '{name}': " in errors
    record = cli.json("show", "a")
    assert (record["status"], record["failures"]) == ("queued", 1)
    assert record["lastError"].startswith("the command could not be started: ")
    finish(spawn("exec", "a", "--", "true"), 0)


def test_runs_that_cannot_be_had(cli: Any, spawn: Spawn, journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.acquire("suspended").suspend(["approval"])
    ledger.acquire("failed").fail("broken")
    ledger.acquire("cancelled").cancel()
    causes = {
        "suspended": "RUN_SUSPENDED/suspended",
        "failed": "RUN_ALREADY_TERMINAL/failed",
        "cancelled": "RUN_ALREADY_TERMINAL/cancelled",
    }
    for run_id, cause in causes.items():
        _, errors = finish(spawn("exec", run_id, "--wait", "--", "touch", "ran"), 4)
        assert errors.startswith(f"runjournal: {cause}: ")
        assert errors.count("\n") == 1
    assert not Path("ran").exists()


def test_waiting_for_a_run(spawn: Spawn, journal: Journal, wait_until: WaitUntil) -> None:
    lease = journal.ledger(owner="other").acquire("a")
    _, errors = finish(spawn("exec", "a", "--wait=0.2", "--", "true"), 73)
    assert "run 'a' is held by 'other' for at least" in errors
    waiting = [spawn("exec", "a", "--wait", "--", "sh", "-c", "echo >> ran") for _ in range(2)]
    impatient = spawn("exec", "a", "--wait=60", "--", "true")
    wait_until(lambda: _waits(impatient))
    impatient.terminate()
    assert finish(impatient, 143)[1] == "runjournal: interrupted while waiting\n"
    lease.release()
    # One takes it over; the other sees it completed.
    for process in waiting:
        finish(process, 0)
    assert Path("ran").read_text() == "\n"


def _waits(process: subprocess.Popen[str]) -> bool:
    """Whether the process has its own handler for SIGTERM."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("a",),
        ("--", "true"),
        ("a", "--input", "{", "--", "true"),
        ("a", "--input", "@nowhere", "--", "true"),
        ("a", "--ttl", "0", "--", "true"),
        ("a", "--grace", "nan", "--", "true"),
        ("a", "--max-attempts", "0", "--", "true"),
        ("a", "--wait=-1", "--", "true"),
        ("a", "--owner", " x", "--", "true"),
        (" a", "--", "true"),
    ],
    ids=" ".join,
)
def test_bad_input(cli: Any, arguments: tuple[str, ...]) -> None:
    cli("migrate")
    errors = cli("exec", *arguments, code=2)
    assert errors.startswith("runjournal: RUN_VALIDATION_ERROR/")
    assert errors.count("\n") == 1
    assert cli.json("list") == []


def test_a_journal_in_memory_is_no_place_for_exec(cli: Any) -> None:
    assert "RUN_STORE_ATOMIC_REQUIRED" in cli("--db", "memory:", "exec", "a", "--", "true", code=2)


def test_a_result_above_the_limit_still_completes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    limits = DeploymentLimits(result_bytes=80)
    with open_journal(f"sqlite:///{tmp_path}/small.db", limits=limits) as journal:
        terms = Terms(1.0, 1, lambda: False, str, journal.store.now)
        lease = journal.ledger().acquire("a")
        done = run_command(lease, ["echo", "x" * 100], os.environ, terms)
        assert done.record is not None
        assert done.record.status == "completed"
        *_, end = journal.events("a")
        assert end.result == {"exitCode": 0, "outputTail": "", "truncated": True}  # type: ignore[attr-defined]
    assert capfd.readouterr().out == "x" * 100 + "\n"


def test_a_store_that_fails_for_a_moment_does_not_lose_the_end(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [RunStoreError("RUN_STORE_UNAVAILABLE", "failed", "away") for _ in range(2)]
    append = journal.store.append

    def fail_first(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return append(*args)

    lease = journal.ledger().acquire("a")
    monkeypatch.setattr(journal.store, "append", fail_first)
    terms = Terms(1.0, 1, lambda: False, str, journal.store.now)
    done = run_command(lease, ["true"], os.environ, terms)
    assert failures == []
    assert done.record == journal.get("a")
    assert record_of(journal).status == "completed"


def test_on_postgres(spawn: Spawn, new_postgres: Callable[[], str]) -> None:
    url = urlsplit(new_postgres())
    secret = url._replace(netloc=f"{url.username}:hunter2@{url.netloc.rpartition('@')[2]}").geturl()
    script = "runjournal checkpoint --state 1; echo $RUNJOURNAL_DB"
    output, _ = finish(spawn("--db", secret, "exec", "a", "--", "sh", "-c", script), 0)
    assert output == f"{secret}\n"
    with open_journal(secret) as journal:
        record = record_of(journal)
        assert (record.status, record.version) == ("completed", 4)
        *_, end = journal.events("a")
        assert end.result["outputTail"] == output.replace("hunter2", "***")  # type: ignore[attr-defined]


def test_a_run_that_has_used_up_its_attempts_is_told_in_one_line(
    cli: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = DeploymentLimits(attempts=1)
    monkeypatch.setattr("runjournal.adapters.opening.DeploymentLimits", lambda: limits)
    lost = journal.ledger(lease_ttl=0.001).acquire("a", heartbeat=False)
    assert lost.attempt == 1
    errors = cli("exec", "a", "--", "true", code=2)
    assert errors.startswith(
        "runjournal: RUN_LIMIT_EXCEEDED/attempts: run 'a': attempts would be 2"
    )
    assert errors.count("\n") == 1
    assert record_of(journal).status == "failed"
