"""The key file on the command line, and `keys new`."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from runjournal import KeyRing, open_journal
from runjournal.adapters.cli.main import app
from typer.testing import CliRunner


def write_keys(name: str, text: str, mode: int = 0o600) -> str:
    Path(name).write_text(text, encoding="utf-8")
    Path(name).chmod(mode)
    return name


@pytest.fixture
def keys(cli: Any) -> str:
    """A key file with one new key."""
    return write_keys("journal.keys", cli("keys", "new", "mine"))


def test_new_makes_lines_of_a_key_file(cli: Any) -> None:
    before = datetime.now(UTC).date().isoformat()
    line = cli("keys", "new")
    assert line.partition(":")[0] in (before, datetime.now(UTC).date().isoformat())
    assert cli("keys", "new") != line
    ring = KeyRing.from_file(write_keys("some", line + cli("keys", "new", "b")))
    assert ring.key_ids[1] == "b"
    assert not Path("runjournal.db").exists()
    assert "a key's id must be" in cli("keys", "new", "a b", code=2)


def test_the_key_file_encrypts_and_is_needed(
    cli: Any, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("--key-file", keys, "start", "a", "--input", '"canary"')
    assert b"canary" not in b"".join(p.read_bytes() for p in Path().glob("runjournal.db*"))
    assert "missing_key: the body of the row of 'run/a' was" in cli("show", "a", code=2)
    assert "missing_key" in cli("start", "b", code=2)
    assert "missing_key" in cli("export", "--all", "-o", "x", code=2)
    monkeypatch.setenv("RUNJOURNAL_KEY_FILE", keys)
    assert cli.lines("log", "a")[0]["input"] == "canary"
    copied = cli("copy", "sqlite:///runjournal.db", "sqlite:///other.db")
    assert copied.startswith("1 new, ")
    assert "nothing new" in cli("--db", "sqlite:///other.db", "verify")
    with open_journal("sqlite:///other.db") as other:
        assert other.store.read("run/a")[0].data.startswith(b"\x01\x04mine")


def test_what_no_key_file_is_never_shows_a_key(cli: Any, keys: str) -> None:
    line = Path(keys).read_text(encoding="utf-8").strip()
    key = line.partition(":")[2]
    write_keys("open", line, 0o644)
    write_keys("broken", f"{line}x")
    for given, why in (
        ("nowhere", "No such file"), ("open", "has mode 0644"), ("broken", "line 1 is no ID:KEY"),
        (line, "a key was given"), (key, "a key was given"),
    ):  # fmt: skip
        complaint = cli("--key-file", given, "start", "r", code=2)
        assert why in complaint
        assert key[:8] not in complaint


def test_verify_names_the_runs_of_a_missing_key(cli: Any, keys: str) -> None:
    cli("--key-file", keys, "start", "a")
    other = write_keys("other.keys", cli("keys", "new", "other") + Path(keys).read_text("utf-8"))
    cli("--key-file", other, "start", "b")
    both = cli("--key-file", other, "verify")
    assert both == "2 events read; nothing new, 0 acknowledged\n"
    assert cli("--key-file", other, "verify", "--jobs", "2") == both
    done = CliRunner().invoke(app, ["--json", "--key-file", keys, "verify"])
    assert done.exit_code == 6
    findings = json.loads(done.stdout)["findings"]
    assert [(f["kind"], f["stream"]) for f in findings] == [("no_key", "run/b")]
    assert "the key 'other'" in findings[0]["message"]


def test_a_command_that_is_run_finds_the_key_file(
    cli: Any, keys: str, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    script = "cd / && runjournal checkpoint --state '{\"secret\": 1}' && echo $RUNJOURNAL_KEY_FILE"
    process = spawn("--key-file", keys, "exec", "a", "--", "sh", "-c", script)
    output, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert output.splitlines()[-1] == os.path.abspath(keys)
    assert "missing_key" in cli("show", "a", code=2)
    topics = {e["topic"]: e for e in cli.lines("--key-file", keys, "log", "a")}
    assert topics["run.checkpoint_saved"]["state"] == {"secret": 1}
