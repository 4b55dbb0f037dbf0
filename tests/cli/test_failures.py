"""However a command fails: one line on stderr, the code of its cause, and no traceback."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import runjournal.adapters.opening
from runjournal import CAUSES, Journal, RunStoreError
from runjournal.adapters.cli.exits import EXIT_OF, EXITS, one_line
from runjournal.adapters.masking import mask

Spawn = Callable[..., "subprocess.Popen[str]"]
LINE = re.compile(r"runjournal: RUN_[A-Z_]+/[a-z_]+: .+ \(hint: .+\)\n")


def test_every_error_code_has_an_exit_code() -> None:
    assert set(EXIT_OF) == {code for code, _ in CAUSES}
    assert set(EXIT_OF.values()) <= set(EXITS)


@pytest.mark.parametrize("cause", CAUSES, ids="/".join)
def test_every_cause_is_one_line(
    cli: Any, cause: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_url: str, **_options: object) -> None:
        raise RunStoreError(*cause, "postgresql://me:secret@host/db said\nno\x1b[0m")

    monkeypatch.setattr(runjournal.adapters.opening, "open_journal", refuse)
    line = cli("start", "r", code=EXIT_OF[cause[0]])
    assert line == (
        f"runjournal: {'/'.join(cause)}: postgresql://***@host/db said\\nno\\x1b[0m "
        f"(hint: {CAUSES[cause].hint})\n"
    )


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["nonsense"],
        ["--nonsense"],
        ["start"],
        ["start", ""],
        ["start", " a"],
        ["start", "a\nb"],
        ["start", "x" * 256],
        ["start", "a", "--kind", ""],
        ["start", "a", "--input", "{"],
        ["start", "a", "--input", ""],
        ["start", "a", "--input", "NaN"],
        ["start", "a", "--input", str(2**63)],
        ["start", "a", "--input", "9" * 5000],
        ["start", "a", "--input", "[" * 100_000],
        ["start", "a", "--input", r'"\ud800"'],
        ["start", "a", "--input", "@missing.json"],
        ["start", "a", "--input", "@."],
        ["start", "a", "--input", "@latin.json"],
        ["start", "a", "--input", "@large.json"],
        ["start", "a", "--label", "x"],
        ["start", "a", "--label", "x="],
        ["start", "a", "--label", "x=1", "--label", "x=2"],
        ["start", "a", "--available-at", "tomorrow"],
        ["start", "a", "--available-at", "2030-01-01T00:00:00"],
        ["list", "--status", "done"],
        ["list", "--limit", "0"],
        ["list", "--limit", "many"],
        ["list", "--limit", "100000"],
        ["show", "a", "--at", "0"],
        ["log", "a", "--after", "-1"],
        ["worker"],
        ["worker", "--handler", "x"],
        ["worker", "--handler", "no_such_module:x"],
        ["worker", "--handler", "json:no_such_name"],
        ["worker", "--handler", "json:__name__"],
        ["worker", "--handler", "broken:x"],
        ["worker", "--handler", "leaving:x"],
        ["worker", "--handler", "json:dumps", "--ttl", "0"],
        ["worker", "--handler", "json:dumps", "--ttl", "nan"],
        ["worker", "--handler", "json:dumps", "--grace", "-1"],
        ["worker", "--handler", "json:dumps", "--poll", "nan"],
        ["--db", "redis://me:secret@host", "list"],
        ["--db", "memory:", "start", "a"],
        ["--db", "sqlite:///", "list"],
        ["demo", "no-such-folder"],
        ["demo", "--files", "0"],
        ["--db", "sqlite:///x.db", "demo", "--keep", "y.db"],
    ],
    ids=lambda args: " ".join(args)[:60].encode("unicode_escape").decode() or "nothing",
)
def test_bad_input(cli: Any, args: list[str], tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    (tmp_path / "large.json").write_text('"' + "x" * (1 << 20) + '"')
    (tmp_path / "broken.py").write_text("raise ValueError('two\\nlines')")
    (tmp_path / "leaving.py").write_text("raise SystemExit(0)")
    line = cli(*args, code=2)
    assert LINE.fullmatch(line), line
    assert "secret" not in line


#: Every command that works with what is there, and nothing that it needs beside it.
NEEDS_A_JOURNAL = [
    "list", "show r", "log r", "replay r", "timeline r", "report r -o page.html", "cancel r",
    "fail r --code c", "resume r", "decide r a yes", "stats", "verify", "anchor",
    "export --all -o -", "backup b.db", "restore-check --actor a --reason b",
    "prune --older-than 1d",
    "deliveries list", "deliveries show d", "projections status", "projections verify run_records",
    "projections rebuild run_records",
]  # fmt: skip


@pytest.mark.parametrize("command", NEEDS_A_JOURNAL)
def test_a_mistyped_journal_is_refused_and_not_created(
    cli: Any, tmp_path: Path, command: str
) -> None:
    before = sorted(tmp_path.iterdir())
    line = cli("--db", "sqlite:///jornal.db", *command.split(), code=2)
    assert "RUN_VALIDATION_ERROR/address: there is no file 'jornal.db'" in line
    assert LINE.fullmatch(line)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", ["start r", "exec r -- true", "migrate"])
def test_what_begins_something_creates_it(cli: Any, tmp_path: Path, command: str) -> None:
    cli("--db", "sqlite:///new.db", *command.split())
    assert (tmp_path / "new.db").exists()
    cli("--db", "sqlite:///new.db", "list")


def test_a_file_that_is_no_journal(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("my notes, longer than a header of a database " * 10)
    assert "RUN_INTEGRITY_ERROR/not_a_journal" in cli("--db", "sqlite:///notes.txt", "list", code=6)


def test_a_defect_keeps_its_traceback(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(_url: str, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(runjournal.adapters.opening, "open_journal", break_down)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        cli("start", "r")


@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_output_that_goes_nowhere(cli: Any, stdout: str) -> None:
    cli("start", "a")
    command = f"{sys.executable} -m runjournal.adapters.cli.main list {stdout}"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    if stdout == ">&-":
        assert (ended.returncode, ended.stderr) == (0, "")
    else:
        assert ended.returncode == 7
        assert LINE.fullmatch(ended.stderr)


def test_ctrl_c(spawn: Spawn, cli: Any) -> None:
    cli("start", "a")
    process = spawn("log", "a", "--follow")
    assert process.stdout is not None
    assert "queued" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (130, "")


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["table", "json"])
def test_a_reader_that_goes_away(spawn: Spawn, journal: Journal, options: list[str]) -> None:
    ledger = journal.ledger()
    for i in range(1000):
        ledger.start(f"a-run-with-a-rather-long-name-{i}")
    process = spawn(*options, "list", "--limit", "1000")
    assert process.stdout is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait() == 141


def test_one_line() -> None:
    assert one_line("a\nb\r\t\x1b\u2028\x00\ud800é") == r"a\nb\r\t\x1b\u2028\x00\ud800é"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://me:pw@host/db", "postgresql://***@host/db"),
        ("'postgresql+x://me:p/w@x@host/db'", "'postgresql+x://***@host/db'"),
        (
            "postgresql://host/db?user=me&password=pw&x=1",
            "postgresql://host/db?user=me&password=***&x=1",
        ),
        ("host=h password='p w' user=u", "host=h password=*** user=u"),
        ("sqlite:////home/me@work/x.db", "sqlite:////home/me@work/x.db"),
        ("postgresql://host/db", "postgresql://host/db"),
    ],
)
def test_mask(text: str, masked: str) -> None:
    assert mask(text) == masked
