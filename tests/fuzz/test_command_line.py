"""Whatever is typed, a command ends with a documented code and at most one line on stderr."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import open_journal
from runjournal.adapters.cli.exits import EXITS, OK, UNPROVED
from runjournal.adapters.cli.main import app
from typer.main import get_command
from typer.testing import CliRunner

from ..transfer.conftest import fill_all
from .generating import HOSTILE, bounded, texts

#: Every command, with what keeps it from working for ever or on somebody else's files.
COMMANDS: dict[str, list[str]] = {
    "start": [],
    "list": [],
    "show": [],
    "log": [],
    "replay": [],
    "timeline": [],
    "report": ["-o", "out.html"],
    "cancel": [],
    "fail": [],
    "resume": [],
    "decide": [],
    "worker": ["--once", "--handler", "json:dumps"],
    "verify": ["--jobs", "1"],
    "anchor": [],
    "export": ["-o", "out.jsonl"],
    "import": [],
    "copy": [],
    "checkpoint": [],
    "migrate": [],
    "part": [],
    "deliveries list": [],
    "deliveries show": [],
    "deliveries retry": [],
    "deliveries serve": ["--once", "--gateways", "gateways.toml"],
    "projections status": [],
    "projections verify": ["--jobs", "1"],
    "projections rebuild": ["--jobs", "1"],
    "exec": ["--wait=0"],
    "stats": [],
    "doctor": [],
    "backup": [],
    "restore": [],
    "restore-check": [],
    "prune": [],
    "keys new": [],
}
#: A demo runs for seconds: it is asked only for what it must refuse.
REFUSED_ONLY = {"demo": ["--workers", "0"]}
#: Words that mean something to some command.
WORDS = [
    "done-0", "queued-0",
    "asking-0", "lost-0", "none", "boss", "yes", "run_records", "export.jsonl",
    "runjournal.db", "gateways.toml", "true", "pending", "unknown", "1", "2", "0.5", "{\"a\": 1}",
    "@export.jsonl", "sqlite:///runjournal.db", "sqlite:///other.db", "memory:",
]  # fmt: skip
#: Options that are not drawn: these would wait, start processes, or keep a file elsewhere.
NOT_DRAWN = {"--jobs", "--wait", "--concurrency", "--poll", "--grace", "--db", "--keep"}
DATABASES = [
    "",
    "sqlite:///runjournal.db",
    "memory:",
    "sqlite:///",
    "sqlite:////none/x.db",
    "\0",
    "x",
]
GATEWAYS = '[gateways."*"]\ntype = "jsonl"\npath = "results.out"\n'


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("template")
    with open_journal(f"sqlite:///{folder / 'runjournal.db'}") as journal:
        fill_all(journal)
        journal.export_to(folder / "export.jsonl")
    (folder / "gateways.toml").write_text(GATEWAYS)
    return folder


@pytest.fixture(autouse=True)
def _here(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(template, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("RUNJOURNAL_DB", "RUNJOURNAL_SCHEMA", "RUNJOURNAL_POOLER"):
        monkeypatch.delenv(name, raising=False)


def _all_commands() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        found |= {name: command} if inner is None else {f"{name} {n}": c for n, c in inner.items()}
    return found


#: The options of each.
OPTIONS = {
    name: sorted({o for p in command.params for o in p.opts if o.startswith("-")} - NOT_DRAWN)
    for name, command in _all_commands().items()
}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(sorted(COMMANDS)))
    word = st.sampled_from(WORDS) | st.sampled_from(HOSTILE) | texts
    option = st.sampled_from(OPTIONS[command] or ["--none"])
    argument = st.one_of(
        word.map(lambda w: [w]),
        option.map(lambda o: [o]),
        st.tuples(option, word).map(list),
        st.tuples(option, word).map(lambda pair: [f"{pair[0]}={pair[1]}"]),
    )
    drawn = [a for part in draw(st.lists(argument, max_size=5)) for a in part]
    before = draw(st.sampled_from([[], ["--json"], ["--schema", "x"], ["--pooler"], ["--none"]]))
    if draw(st.integers(0, 5)) == 0:
        before = [*before, "--db", draw(st.sampled_from(DATABASES))]
    if command == "exec":  # what is executed is what it says
        names = [a for a in drawn if not a.startswith("-")][:1] or ["new"]
        drawn = [*[a for a in drawn if a.startswith("-") and a != "--"], *names, "--", "true"]
    return [*before, *command.split(), *COMMANDS[command], *drawn]


def run(args: list[str]) -> int:
    done = CliRunner().invoke(app, args, input="")
    assert isinstance(done.exception, SystemExit | None), (args, done.exception)
    assert done.exit_code in EXITS, (args, done.exit_code)
    assert done.exit_code != UNPROVED, args
    if done.exit_code != OK:
        assert len(done.stderr.splitlines()) <= 1, (args, done.stderr)
    return done.exit_code


@bounded(60)
@given(args=command_lines())
def test_any_arguments(args: list[str]) -> None:
    run(args)
    export, page = Path("out.jsonl"), Path("out.html")
    if export.exists():
        assert "digest" in orjson.loads(export.read_bytes().splitlines()[-1])
        export.unlink()
    if page.exists():
        assert page.read_text().rstrip().endswith("</html>")
        page.unlink()
    assert not list(Path().glob("*.tmp*")), "half a file was left"
    with open_journal("sqlite:///runjournal.db") as journal:
        assert journal.verify().findings == []


@bounded(20)
@given(args=st.lists(st.sampled_from(HOSTILE) | texts, max_size=4))
def test_any_words(args: list[str]) -> None:
    run(args)


@pytest.mark.parametrize("command", REFUSED_ONLY)
def test_what_is_refused(command: str) -> None:
    assert run([command, *REFUSED_ONLY[command]]) == 2


def test_every_command_is_tried() -> None:
    assert set(OPTIONS) == set(COMMANDS) | set(REFUSED_ONLY)
