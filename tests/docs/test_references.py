"""What the pages point to exists: pages, headings, files, tests, and the names of the glossary."""

from __future__ import annotations

import ast
import importlib
import re
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import runjournal
from runjournal.adapters.sqlite.statements import MIGRATIONS

ROOT = Path(runjournal.__file__).parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def headings(page: Path) -> set[str]:
    """The anchors that a page's headings get."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.name} links to {target}"
        assert there.is_relative_to(ROOT), f"{page.name} links out of the project: {target}"
        assert not anchor or anchor in headings(there), f"{page.name} links to {target}"


def test_every_page_can_be_reached() -> None:
    reached, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page not in reached:
            reached.add(page)
            targets = re.findall(r"\]\(([^)\s#]+\.md)", prose(page))
            todo += [(page.parent / t).resolve() for t in targets if not t.startswith("https:")]
    assert set(PAGES) <= reached, sorted(set(PAGES) - reached)


@each_page
def test_files_that_are_named_exist(page: Path) -> None:
    top = r"(?:domain|projections|adapters|tests|docs|benchmarks|\.ci)"
    for name in re.findall(rf"`({top}/[\w./-]*\w/?)(?:::[\w:]+)?`", prose(page)):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


@each_page
def test_pages_are_plain_and_self_contained(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("# "), page
    assert text.endswith("\n")
    assert not re.search(r"[ \t]+$", text, re.MULTILINE), f"{page.name} has trailing spaces"
    for word in ("seamless", "blazing", "powerful", "simply", "revolution"):
        assert word not in text.lower(), f"{page.name} says {word!r}"
    assert not re.search("/(work|home)/", text.lower()), f"{page.name} has a machine's path"


@cache
def names_of_tests(file: str) -> frozenset[str]:
    """The tests of a file: `name`, or `Class::name` beside it."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = set[str]()
    for node in tree.body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        for item in inner:
            is_function = isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and item.name.startswith("test_"):
                found.add(item.name)
                if isinstance(node, ast.ClassDef):
                    found.add(f"{node.name}::{item.name}")
    return frozenset(found)


@each_page
def test_tests_that_are_named_exist(page: Path) -> None:
    for file, name in re.findall(r"`([\w./-]+\.py)::([\w:]+)`", prose(page)):
        assert name in names_of_tests(file), f"{page.name} names {file}::{name}"


def test_every_promise_names_its_test() -> None:
    promises = [line for line in GUARANTEES.splitlines() if re.match(r" *[-*+] |\d+\.", line)]
    assert len(promises) > 40
    for promise in promises:
        assert re.fullmatch(r"- .+: `[\w./]+\.py::[\w:]+`", promise), promise
    named = [promise.split("`")[-2] for promise in promises]
    assert len(set(named)) == len(named)


# docs/glossary.md

GLOSSARY = re.findall(
    r"^\| ([\w ]+) \| (.+) \| (.*?) ?\|$",
    (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)[1:]


def test_glossary_is_in_order() -> None:
    words = [word for word, _, _ in GLOSSARY]
    assert words == sorted(set(words))
    assert len(words) > 40


def resolve(name: str) -> Any:
    """The class, function, field or module that a dotted name of ours stands for."""
    head, *rest = name.split(".")
    if head in ("domain", "adapters"):
        value: Any = importlib.import_module(f"runjournal.{head}")
    else:
        value = getattr(runjournal, head, None) or getattr(
            importlib.import_module("runjournal.domain"), head
        )
    path = [head]
    for part in rest:
        path.append(part)
        if part in getattr(value, "model_fields", {}):
            return value
        if hasattr(value, "__path__") and not hasattr(value, part):
            value = importlib.import_module("runjournal." + ".".join(path))
        elif part not in getattr(value, "__annotations__", {}) and not _set_by_init(value, part):
            value = getattr(value, part)
    return value


def _set_by_init(value: Any, part: str) -> bool:
    return isinstance(value, type) and part in value.__init__.__code__.co_names  # type: ignore[misc]


@pytest.mark.parametrize(("word", "meaning", "where"), GLOSSARY, ids=[g[0] for g in GLOSSARY])
def test_glossary_names_what_there_is(word: str, meaning: str, where: str) -> None:
    assert meaning.endswith(".")
    if not where:
        assert meaning.endswith("Not in this version.")
        return
    conn = sqlite3.connect(":memory:")
    conn.executescript("".join(MIGRATIONS))
    for kind, name in re.findall(r"(column|table|) ?`([\w.]+)`", where):
        if kind == "table":
            conn.execute(f"SELECT * FROM {name}")
        elif kind == "column":
            table, column = name.split(".")
            # In double quotes SQLite would take an unknown column for a text.
            conn.execute(f"SELECT {column} FROM {table}")
        else:
            assert resolve(name) is not None
    conn.close()
