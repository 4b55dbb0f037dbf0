"""What the pages show, runs: Python blocks, console blocks, and the output beside them.

The blocks of one page share a namespace and a temporary folder. A Python or `sh` block that begins
with `# file: NAME` is written to that file. Other Python blocks are run, and what one prints must
be what the `text` block right after it shows, or else the comments behind its `print` calls; `…`
stands for anything. Console blocks are run line by line; output that is shown must be what is
printed.
`docs/cli.md` has a test of its own, and other `sh` blocks are not run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import runjournal

ROOT = Path(runjournal.__file__).parent
PAGES = sorted({ROOT / "README.md", *ROOT.glob("docs/**/*.md")} - {ROOT / "docs" / "cli.md"})
#: Seconds after which a console command has failed.
PATIENCE = 60


class Block(NamedTuple):
    language: str
    line: int
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, each with the number of its first line."""
    language, begin, lines = None, 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if language is None and line.startswith("```"):
            language, begin, lines = line[3:].strip(), number + 1, []
        elif line == "```":
            assert language is not None
            yield Block(language, begin, "\n".join(lines) + "\n")
            language = None
        else:
            lines.append(line)
    assert language is None, f"{page}:{begin}: the block does not end"


def matches(shown: str, printed: str) -> bool:
    pattern = ".*".join(map(re.escape, shown.rstrip().split("…")))
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


def shown_by(block: Block, after: Block | None) -> str:
    """What a Python block says that it prints."""
    if after is not None and after.language == "text" and _follows(block, after):
        return after.text
    comments = re.findall(r"^\s*print\(.*\)  # (.+)$", block.text, re.MULTILINE)
    return "".join(f"{comment}\n" for comment in comments)


def _follows(block: Block, after: Block) -> bool:
    return after.line - (block.line + block.text.count("\n")) <= 4


def run_python(page: Path, block: Block, namespace: dict[str, Any]) -> str:
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def run_command(command: str) -> str:
    """What a shell shows for a command, with the word that it has for a killed one."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command,
        shell=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PATH": path},
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return done.stdout if "Killed" in done.stdout else f"{done.stdout}Killed\n"
    assert done.returncode == 0, f"{command} exits with {done.returncode}:\n{done.stdout}"
    return done.stdout


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "```" in p.read_text(encoding="utf-8")], ids=lambda p: p.name
)
def test_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNJOURNAL_DB", raising=False)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    found = list(blocks(page))
    for block, after in zip(found, [*found[1:], None], strict=True):
        where = f"{page.name}:{block.line}"
        if block.language in ("python", "sh") and block.text.startswith("# file: "):
            name = block.text.splitlines()[0].removeprefix("# file: ")
            (tmp_path / name).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            shown, printed = shown_by(block, after), run_python(page, block, namespace)
            assert matches(shown, printed), f"{where} prints\n{printed}"
        elif block.language == "console":
            examples = re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
            assert examples, f"{where} has no command"
            for command, shown in examples:
                printed = run_command(command)
                assert not shown.strip() or matches(shown, printed), f"{where} prints\n{printed}"
        else:
            assert block.language in ("sh", "text", "sql", "toml"), f"{where}: {block.language!r}"


def test_a_wrong_example_is_noticed(tmp_path: Path) -> None:
    """The checks of this file can fail."""
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)  # 3\n```\n", encoding="utf-8")
    (block,) = blocks(page)
    assert not matches(shown_by(block, None), run_python(page, block, {}))
    assert matches("token … of 3\n", "token 2 of 3\n")
    assert not matches("token … of 3\n", "token 2 of 4\n")
