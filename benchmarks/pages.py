"""The parts of the pages that benchmarks write, between two comments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
PLOTS = ROOT / "docs" / "plots"


def part(text: str, name: str) -> str:
    """What stands in the part; ValueError unless the page has it once."""
    _, inner, _ = _split(text, name)
    return inner.strip("\n")


def put(page: Path, name: str, body: str) -> None:
    """Replace what stands in the part of the page."""
    before, _, after = _split(page.read_text(encoding="utf-8"), name)
    page.write_text(f"{before}\n\n{body}\n\n{after}", encoding="utf-8")


def _split(text: str, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- measured: {name} -->", f"<!-- end: {name} -->"
    found = re.fullmatch(f"(.*{re.escape(begin)})(.*)({re.escape(end)}.*)", text, re.DOTALL)
    if found is None or text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"the page does not have the part {name!r} once")
    before, inner, after = found.groups()
    return before, inner, after


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return (
        "\n".join(f"| {' | '.join(line)} |" for line in lines)
        .replace("| --- ", "|---")
        .replace("--- |", "---|")
    )
