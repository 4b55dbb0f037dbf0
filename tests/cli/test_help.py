"""The help answers at once and, like docs/cli.md, says all there is to know."""

from __future__ import annotations

import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import runjournal
import typer
from runjournal import Journal
from runjournal.adapters.cli.exits import EXITS, PASSED_ON
from runjournal.adapters.cli.main import app

DOCS = (Path(runjournal.__file__).parent / "docs" / "cli.md").read_text(encoding="utf-8")


def test_help_answers_at_once(spawn: Callable[..., subprocess.Popen[str]]) -> None:
    """In 2.5 times what it takes to load the library that draws it: 0.5 s where that is 0.2."""

    def used() -> float:  # of the processor: what else the machine does is none of it
        return sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])

    taken, bare = [], []
    for _ in range(3):
        began = used()
        subprocess.run([sys.executable, "-c", "import typer.rich_utils"], check=True)
        bare.append(used() - began)
        began = used()
        text, errors = spawn("--help").communicate()
        taken.append(used() - began)
        assert errors == ""
        words = " ".join(text.split())
        for code, meaning in EXITS.items():
            assert f"{code} {meaning}" in words
        assert f"any {PASSED_ON}" in words
    assert min(taken) < 2.5 * min(bare), (taken, bare)


def test_the_parser_loads_nothing_heavy() -> None:
    code = (
        "import sys, runjournal.adapters.cli.main; print(sorted({'pydantic', 'rich', 'sqlite3', "
        "'eventsourcing', 'psycopg', 'orjson', 'jinja2'} & set(sys.modules)))"
    )
    loaded = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert loaded == "[]\n"


def test_version(cli: Any) -> None:
    assert cli("--version") == f"runjournal {runjournal.__version__}\n"


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that is for people, with its name, and before it its group's."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        elif not command.hidden:
            yield prefix + name, command


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_every_command_has_help(cli: Any) -> None:
    for name, command in COMMANDS.items():
        text = cli(*name.split(), "--help")
        assert command.help.split(".")[0].split()[0] in text
        assert all(p.help for p in command.params), name


def test_docs_list_the_exit_codes() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| (.+) \|$", DOCS, re.MULTILINE))
    assert rows == {str(code): meaning for code, meaning in EXITS.items()}
    assert f"| any | {PASSED_ON} |" in DOCS


def test_docs_name_every_command_and_option() -> None:
    for name, command in COMMANDS.items():
        _, heading, section = DOCS.partition(f"\n## {name}\n")
        assert heading, f"docs/cli.md has no section {name}"
        for option in (opt for p in command.params for opt in p.opts if opt.startswith("--")):
            shared = option in ("--actor", "--command-id", "--message", "--help")
            assert option in (DOCS if shared else section.split("\n## ")[0]), (name, option)


def test_docs_examples(cli: Any, journal: Journal, tmp_path: Path) -> None:
    """The console examples, in their order; what is shown below a command is what it prints."""
    ledger = journal.ledger()
    ledger.acquire("import-42").suspend()
    ledger.acquire("payout").suspend(["manager-approval"])
    (code,) = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)
    (tmp_path / "jobs.py").write_text(code)
    examples = re.findall(r"^\$ runjournal (.+)\n((?:(?![$`]).+\n)*)", DOCS, re.MULTILINE)
    assert len(examples) > 10
    for command, shown in examples:
        if command != "demo":  # it has tests of its own
            printed = cli(*shlex.split(command))
            assert not shown or printed == shown, command


def test_a_module_of_the_command_line_stays_readable() -> None:
    here = Path(runjournal.__file__).parent / "adapters"
    for file in [*here.glob("cli/*.py"), *here.glob("demo/*.py")]:
        assert len(file.read_text(encoding="utf-8").splitlines()) <= 300, file


@pytest.mark.parametrize("name", ["RUNJOURNAL_DB"])
def test_the_environment_names_the_database(
    cli: Any, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "sqlite:///other.db")
    cli("start", "a")
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "runjournal.db").exists()
    monkeypatch.setenv(name, "postgresql://me:secret@host/db")
    assert "secret" not in cli("--help")
