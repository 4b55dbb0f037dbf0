"""docs/architecture.md: its pictures name what is in the code, and its table every package."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import runjournal

ROOT = Path(runjournal.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.findall(r"((?:domain|projections|adapters)/[\w/]+\.py) +([A-Za-z_][\w.]*)", PAGE)


@cache
def names_of(file: str) -> frozenset[str]:
    """What a module defines at its top, and what its classes do."""
    found = set[str]()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        for name in _defined(node):
            found.add(name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{name}.{inner}" for part in node.body for inner in _defined(part)}
    return frozenset(found)


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda value: value)
def test_what_a_picture_names_is_there(file: str, name: str) -> None:
    assert name in names_of(file), f"{file} has no {name}"


def test_both_pictures_were_found() -> None:
    files = {file for file, _ in NAMED}
    assert len(NAMED) > 30
    assert {"domain/lease.py", "domain/writer.py", "projections/rebuild.py"} <= files
    assert "HolderWriter.write" in names_of("domain/writer.py")
    assert "HolderWriter.wrote" not in names_of("domain/writer.py")


def test_every_package_is_on_the_map() -> None:
    section = PAGE.partition("\n## The packages\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([\w/]+)/` \| .+\.", section, re.MULTILINE)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = settings["tool"]["setuptools"]["packages"]
    wanted = [p.removeprefix("runjournal.").replace(".", "/") for p in packages if "." in p]
    assert sorted(listed) == sorted(wanted)


def test_the_layers_are_those_that_are_checked() -> None:
    section = PAGE.partition("\n## The layers\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)/` \|", section, re.MULTILINE)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (law,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    assert [f"runjournal.{name}" for name in reversed(listed)] == law["layers"]
