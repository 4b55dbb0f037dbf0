"""The stranger has the public names and docs/writing-a-backend.md, and nothing else."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import runjournal
from runjournal.adapters import contract

HERE = Path(__file__).parent
PAGE = Path(runjournal.__file__).parent / "docs" / "writing-a-backend.md"
STORE = (HERE / "blob_store.py").read_text(encoding="utf-8")
#: The modules of ours that may be imported, and their names.
PUBLIC = {
    "runjournal": runjournal.__all__,
    "runjournal.adapters": ["contract"],
    "runjournal.adapters.contract": contract.__all__,
}


@pytest.mark.parametrize("file", sorted(HERE.glob("*.py")), ids=lambda file: file.name)
def test_public_names_only_are_imported(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules = {alias.name.partition(".")[0] for alias in node.names}
            assert modules <= {*sys.stdlib_module_names, "pytest", "runjournal"}
        elif isinstance(node, ast.ImportFrom) and node.level:
            assert (node.level, (HERE / f"{node.module}.py").exists()) == (1, True)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = {alias.name for alias in node.names}
            if module.partition(".")[0] in sys.stdlib_module_names:
                continue
            assert names <= set(PUBLIC[module]), module


def test_store_is_as_small_as_the_page_says() -> None:
    assert len([line for line in STORE.splitlines()[1:] if line.strip()]) <= 60
    assert "Sixty lines" in PAGE.read_text(encoding="utf-8")


def test_page_shows_this_very_store() -> None:
    assert f"```python\n{STORE}```\n" in PAGE.read_text(encoding="utf-8")


def test_page_names_every_class_of_the_contract() -> None:
    page = PAGE.read_text(encoding="utf-8")
    classes = [name for name in contract.__all__ if name.endswith("Contract")]
    assert [name for name in classes if f"`{name}`" not in page] == []
