"""CONTRIBUTING.md: the commands that it names are there."""

from __future__ import annotations

import re
from pathlib import Path

import runjournal

ROOT = Path(runjournal.__file__).parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_what_it_has_make_do_is_in_the_makefile() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    named = re.findall(r"`make ([\w-]+)`", PAGE)
    assert len(set(named)) >= 5
    assert set(named) <= set(targets)


def test_the_lists_that_it_sends_people_to_are_there() -> None:
    for file, name in (
        ("domain/errors.py", "CAUSES"),
        ("adapters/sqlite/statements.py", "MIGRATIONS"),
        ("adapters/postgres/schema.py", "MIGRATIONS"),
        ("tests/conftest.py", "RUNJOURNAL_TEST_POSTGRES"),
        ("adapters/opening.py", "EventRegistry("),
    ):
        assert name in PAGE
        assert name in (ROOT / file).read_text(encoding="utf-8"), file
