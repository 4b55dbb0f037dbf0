"""docs/telemetry.md lists what the code has, and all of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import runjournal
from runjournal import CAUSES, JournalStats, open_journal
from runjournal.adapters.doctor import checks
from runjournal.adapters.logs import FIELDS
from runjournal.adapters.prometheus import families
from runjournal.adapters.telemetry.names import METRICS, SPANS

from .test_tables import page, rows

ROOT = Path(runjournal.__file__).parent
PAGE = page("docs/telemetry.md")
LOGGING = [f"log.{level}" for level in ("debug", "info", "warning", "error", "exception")]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_metric_is_listed() -> None:
    listed = rows(PAGE, "| Metric | Kind | Unit | Attributes | What it measures |")
    found = [(quoted(m)[0], form, quoted(u)[0], quoted(a), text) for m, form, u, a, text in listed]
    assert found == [(m.name, m.form, m.unit, list(m.attributes), m.meaning) for m in METRICS]
    # And nowhere one that does not exist.
    loggers = {quoted(name)[0] for name, _ in rows(PAGE, "| Logger | What it tells |")}
    known = {m.name for m in METRICS} | set(SPANS) | attributes() | loggers
    assert set(re.findall(r"`(runjournal\.[\w.]+)`", PAGE)) <= known


def attributes() -> set[str]:
    return {a for m in METRICS for a in m.attributes} | {a for s in SPANS.values() for a in s}


def test_every_span_is_listed() -> None:
    listed = rows(PAGE, "| Span | Around | Attributes |")
    found = {quoted(name)[0]: set(quoted(attributes)) for name, _, attributes in listed}
    assert found == {name: set(attributes) for name, attributes in SPANS.items()}


def test_every_reason_of_a_loss_is_listed() -> None:
    (told,) = (cell for name, cell in rows(PAGE, "| Attribute | Values |") if "reason" in name)
    reasons = {reason for code, reason in CAUSES if code == "RUN_LEASE_LOST"}
    assert set(quoted(told)) - {"RUN_LEASE_LOST"} == reasons


def test_every_field_of_a_log_line_is_listed() -> None:
    listed = rows(PAGE, "| Field | What it says |")
    assert {quoted(name)[0]: meaning for name, meaning in listed} == FIELDS


def test_every_logger_is_listed() -> None:
    named = {
        name
        for file in (ROOT / "adapters").rglob("*.py")
        for name in re.findall(
            r'getLogger\("(runjournal\.\w+)"\)', file.read_text(encoding="utf-8")
        )
    }
    assert named == {quoted(name)[0] for name, _ in rows(PAGE, "| Logger | What it tells |")}


def test_every_log_line_has_fields() -> None:
    """What is logged is said with `extra`, whichever call it is."""
    seen = 0
    for file in (ROOT / "adapters").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in LOGGING:
                seen += 1
                assert "extra" in [k.arg for k in node.keywords], f"{file.name}:{node.lineno}"
    assert seen > 15


def test_every_number_of_the_stats_is_listed() -> None:
    listed = rows(PAGE, "| Field | What it counts | For Prometheus |")
    assert [quoted(name)[0] for name, _, _ in listed] == [
        name for name in JournalStats.model_fields if name != "at"
    ]
    with open_journal("memory:") as journal:
        there = [family.name for family in families(journal.stats())]
    assert sorted(n for _, _, names in listed for n in quoted(names)) == sorted(there)


def test_every_check_of_the_doctor_is_listed(tmp_path: Path) -> None:
    listed = {n for name, _, _ in rows(PAGE, "| Check | Warns | Fails |") for n in quoted(name)}
    named = {
        name
        for file in [*(ROOT / "adapters").glob("*/inspection.py"), ROOT / "adapters" / "indexes.py"]
        for name in re.findall(r'Check\(\s*"(\w+)"', file.read_text(encoding="utf-8"))
    }
    own: set[Any] = {check.__name__ for check in checks.CHECKS} - {"settings"}
    switches = {"fsync", "full_page_writes"}
    assert listed == named | own | switches | {"schema"}
