"""JsonLinesGateway: whole lines, whatever goes wrong; and CallableGateway."""

from __future__ import annotations

import errno
import fcntl
import functools
import io
import json
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from runjournal import (
    CallableGateway,
    DeliveryAmbiguous,
    DeliveryFailed,
    DeliveryRefused,
    JsonLinesGateway,
    RunStoreError,
)
from runjournal.adapters.gateways import json_lines


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_line_is_the_delivery(tmp_path: Path, delivery: Any) -> None:
    path = tmp_path / "results.jsonl"
    gateway = JsonLinesGateway(path)
    for number in range(2):
        gateway.deliver(delivery(run_id=f"run-{number}\n"))
    first, second = lines(path)
    assert (first, second["runId"]) == (delivery(run_id="run-0\n").as_json(), "run-1\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_file_stays_the_same_when_the_process_moves(
    tmp_path: Path, delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    gateway = JsonLinesGateway("results.jsonl")
    monkeypatch.chdir(tmp_path / "elsewhere")
    gateway.deliver(delivery())
    assert len(lines(tmp_path / "results.jsonl")) == 1


def test_lines_of_several_processes_and_threads_never_mix(
    tmp_path: Path, start_script: Any, delivery: Any
) -> None:
    path, count, size = tmp_path / "results.jsonl", 25, 20_000
    script = Path(__file__).parent / "appending_process.py"
    processes = [start_script(script, path, name, count, size) for name in "abc"]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    gateway = JsonLinesGateway(path)

    def deliver(name: str) -> None:
        for number in range(count):
            gateway.deliver(delivery(invocation_id=f"{name}-{number}", result=name * size))

    threads = [threading.Thread(target=deliver, args=[name]) for name in "de"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [process.wait() for process in processes] == [0, 0, 0]
    found = lines(path)
    assert {x["invocationId"]: x["result"] for x in found} == {
        f"{name}-{number}": name * size for name in "abcde" for number in range(count)
    }
    assert len(found) == 5 * count


@contextmanager
def file_size_at_most(size: int) -> Iterator[None]:
    """A write past it comes out short, as on a full disk; the one after that fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_half_a_line_is_taken_back(tmp_path: Path, delivery: Any) -> None:
    path = tmp_path / "results.jsonl"
    gateway = JsonLinesGateway(path)
    gateway.deliver(delivery())
    size = path.stat().st_size
    with file_size_at_most(size + 10), pytest.raises(DeliveryFailed, match=r"took 10 bytes of \d"):
        gateway.deliver(delivery())
    assert path.stat().st_size == size
    with file_size_at_most(size), pytest.raises(DeliveryFailed, match="cannot be written"):
        gateway.deliver(delivery())
    gateway.deliver(delivery(run_id="next"))
    assert [x["runId"] for x in lines(path)] == ["import-42", "next"]


def test_half_a_line_that_stays_hides_no_other(tmp_path: Path, delivery: Any) -> None:
    """As of a process that was killed in the middle of its write."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"schema":"runjour')
    JsonLinesGateway(path).deliver(delivery())
    half, whole = path.read_bytes().splitlines()
    assert half == b'{"schema":"runjour'
    assert json.loads(whole) == delivery().as_json()


def test_a_line_that_may_not_be_on_the_disk_is_ambiguous(
    tmp_path: Path, delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []

    def fsync(file: int) -> None:
        synced.append(stat.S_IFMT(os.fstat(file).st_mode))

    monkeypatch.setattr(json_lines.os, "fsync", fsync)
    gateway = JsonLinesGateway(tmp_path / "results.jsonl")
    gateway.deliver(delivery())
    assert synced == [stat.S_IFREG, stat.S_IFDIR], "a new file's name has to last too"
    gateway.deliver(delivery())
    assert synced[2:] == [stat.S_IFREG]

    def failing(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(json_lines.os, "fsync", failing)
    with pytest.raises(DeliveryAmbiguous, match="may not be on the disk"):
        gateway.deliver(delivery())


def test_files_that_cannot_be_appended_to_are_failures(
    tmp_path: Path, delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, why in (
        (tmp_path, "cannot be opened"),
        (tmp_path / "no" / "folder", "cannot be opened"),
        (fifo, "no regular file"),
    ):
        with pytest.raises(DeliveryFailed, match=why):
            JsonLinesGateway(path).deliver(delivery())
    held = tmp_path / "held"
    monkeypatch.setattr(json_lines, "PATIENCE", 0.05)
    with held.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DeliveryFailed, match="was locked"):
            JsonLinesGateway(held).deliver(delivery())
    assert held.read_bytes() == b""


@pytest.mark.parametrize("path", ["", None, 5, b"x", "a\0b", "a\ud800"])
def test_what_names_no_file_is_refused(path: Any) -> None:
    with pytest.raises(RunStoreError, match="path"):
        JsonLinesGateway(path)


PRINTING = """
import sys, datetime
from runjournal import DeliveryFailed, DeliveryRequest, JsonLinesGateway
sys.stdout.write("".join(sys.argv[2:]))
request = DeliveryRequest("id", "r", "a", "k", "completed", "ok", None, "Zoë" * 100_000,
                          datetime.datetime.now(datetime.UTC))
for _ in range(int(sys.argv[1])):
    try:
        JsonLinesGateway("-").deliver(request)
    except DeliveryFailed as error:
        sys.stderr.write(f"{error}\\n")
"""


def test_stdout_gets_whole_lines_in_utf8_behind_what_was_printed() -> None:
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", PRINTING, "2", "before "],
        capture_output=True,
        check=True,
        env=buffered | {"PYTHONIOENCODING": "ascii"},
    )
    assert done.stdout.startswith(b"before {")
    first, second = done.stdout.removeprefix(b"before ").splitlines()
    assert json.loads(first) == json.loads(second)
    assert json.loads(first)["result"] == "Zoë" * 100_000


def test_a_stdout_that_is_gone_is_a_failure(delivery: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-c", PRINTING, "1"], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert b"stdout cannot be written: [Errno 32] Broken pipe" in done.stderr
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(DeliveryFailed, match="stdout"):
        JsonLinesGateway("-").deliver(delivery())


def test_half_a_line_on_stdout_hides_no_other(
    tmp_path: Path, delivery: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines._Stdout, "torn", False)
    gateway = JsonLinesGateway("-")
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        with file_size_at_most(10), pytest.raises(DeliveryFailed, match="File too large"):
            gateway.deliver(delivery())
        gateway.deliver(delivery())
        gateway.deliver(delivery())
    half, *whole = (tmp_path / "out").read_bytes().splitlines()
    assert len(half) == 10
    assert [json.loads(line) for line in whole] == [delivery().as_json()] * 2


def test_a_stdout_that_is_no_file_will_do(delivery: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    JsonLinesGateway("-").deliver(delivery())
    assert json.loads(out.getvalue()) == delivery().as_json()


def test_a_function_gets_the_delivery_and_its_errors_come_through(delivery: Any) -> None:
    seen: list[Any] = []
    CallableGateway(seen.append).deliver(delivery())
    assert seen == [delivery()]

    def refuse(_: Any) -> None:
        raise DeliveryRefused("not here")

    with pytest.raises(DeliveryRefused, match="not here"):
        CallableGateway(refuse).deliver(delivery())


async def deliver_later(_: Any) -> None: ...


class Later:
    async def __call__(self, _: Any) -> None: ...


@pytest.mark.parametrize(
    "function", [None, "f", deliver_later, functools.partial(deliver_later), Later()]
)
def test_what_would_deliver_nothing_is_refused(function: Any) -> None:
    with pytest.raises(RunStoreError, match="function must"):
        CallableGateway(function)
