"""The tables of the pages say what the code does."""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from math import copysign
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import runjournal
from pydantic import BaseModel
from runjournal import (
    CAUSES,
    DeploymentLimits,
    EventRegistry,
    Journal,
    RunStoreError,
    Worker,
    WorkerContext,
)
from runjournal.adapters.codec import OrjsonCodec
from runjournal.adapters.contract.tools import SteppedClock
from runjournal.adapters.sqlite.database import PATIENCE
from runjournal.adapters.sqlite.statements import MIGRATIONS
from runjournal.adapters.sqlite.store import SQLiteStore
from runjournal.domain import RUN_EVENTS
from runjournal.domain.checks import IDENTIFIER_BYTES, readable
from runjournal.projections.findings import KINDS

ROOT = Path(runjournal.__file__).parent


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def rows(text: str, header: str) -> list[list[str]]:
    """The cells of the table whose first line is `header`."""
    lines = text.partition(f"{header}\n")[2].splitlines()[1:]
    table: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    assert table, header
    return table


# docs/errors.md


def test_every_cause_is_listed_with_its_hint() -> None:
    listed = rows(page("docs/errors.md"), "| Code | Reason | Retryable | Meaning | Hint |")
    assert [(code, reason, again, hint) for code, reason, again, _, hint in listed] == [
        (f"`{code}`", f"`{reason}`", "yes" if cause.retryable else "no", cause.hint)
        for (code, reason), cause in CAUSES.items()
    ]
    meanings = [meaning for _, _, _, meaning, _ in listed]
    assert all(meaning.endswith(".") for meaning in meanings)
    assert len(set(meanings)) == len(meanings)


def test_every_attribute_of_an_error_is_listed() -> None:
    error = RunStoreError("RUN_NOT_FOUND", "run", "no such run")
    listed = [
        name.strip("`") for name, _ in rows(page("docs/errors.md"), "| Attribute | What it is |")
    ]
    assert sorted(listed) == sorted(vars(error).keys() - {"__notes__"})


# docs/payloads.md


class Color(Enum):
    RED = "red"


class Level(StrEnum):
    HIGH = "high"


@dataclass
class Size:
    x: int


class Model(BaseModel):
    x: int


class Name(str):
    __slots__ = ()


Point = namedtuple("Point", "x y")


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


EXAMPLES = {
    "Color": Color,
    "Decimal": Decimal,
    "Level": Level,
    "Model": Model,
    "Name": Name,
    "OrderedDict": OrderedDict,
    "Point": Point,
    "Size": Size,
    "UTC": UTC,
    "UUID": UUID,
    "date": date,
    "datetime": datetime,
    "nested": nested,
}

PAYLOADS = rows(page("docs/payloads.md"), "| Value | Example | Outcome |")


def parts(value: Any) -> Iterator[tuple[type, str]]:
    """Every part of a JSON value, with its exact type and the sign of a zero."""
    yield type(value), repr(value) if not isinstance(value, dict | list) else ""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from parts(inner)
        else:
            yield type(inner), repr(inner)


@pytest.mark.parametrize(("value", "example", "outcome"), PAYLOADS, ids=[r[0] for r in PAYLOADS])
def test_payload_row(value: str, example: str, outcome: str) -> None:
    codec = OrjsonCodec(EventRegistry(RUN_EVENTS))
    given = eval(example.strip("`"), dict(EXAMPLES))
    forms = [given] if "nested" in value else [given, {"in": [given]}]
    for form in forms:
        if outcome.startswith("accepted"):
            back = codec.decode(codec.encode(form, "state").data)
            assert back == form
            if not isinstance(form, dict | list):
                assert (type(back), repr(back)) == (type(form), repr(form))
            elif "nested" not in value:
                assert list(parts(back)) == list(parts(form))
        else:
            assert outcome.startswith("refused")
            with pytest.raises(RunStoreError) as caught:
                codec.encode(form, "state")
            assert (caught.value.code, caught.value.reason) == ("RUN_VALIDATION_ERROR", "payload")
            assert caught.value.message.startswith("state" if form is given else "state.in[0]")


def test_advice_for_refused_values_is_accepted() -> None:
    """What the table says to store instead can be stored."""
    codec = OrjsonCodec(EventRegistry(RUN_EVENTS))
    advice = 0
    for _, example, outcome in PAYLOADS:
        given = re.search(r"store `(.+)`", outcome)
        if given is not None:
            value = eval(example.strip("`"), dict(EXAMPLES))
            codec.encode(eval(given[1], {"asdict": asdict, "value": value}), "state")
            advice += 1
    assert advice >= 8


def test_minus_zero_keeps_its_sign() -> None:
    codec = OrjsonCodec(EventRegistry(RUN_EVENTS))
    assert copysign(1, codec.decode(codec.encode(-0.0, "state").data)) == -1


def test_limits_are_as_told() -> None:
    limits, text = DeploymentLimits(), page("docs/payloads.md")
    assert {limits.checkpoint_bytes, limits.input_bytes, limits.result_bytes} == {1 << 20}
    assert "1 MiB each" in text
    assert f"`labels` ({limits.labels} by default) and `approvals` ({limits.approvals})" in text
    assert f"1 to {IDENTIFIER_BYTES} bytes" in text
    assert len(readable("x" * 5000)) == 2000
    assert "2,000 characters" in text


# docs/sqlite.md


def test_sqlite_settings_are_as_told(tmp_path: Path) -> None:
    table = rows(page("docs/sqlite.md"), "| Setting | Value | Why |")
    told = {setting.strip("`"): value for setting, value, _ in table}
    with closing(SQLiteStore(tmp_path / "runs.db")) as store, store.database.writing() as conn:

        def pragma(name: str) -> Any:
            return conn.execute(f"PRAGMA {name}").fetchone()[0]

        assert told["journal_mode"] == f"`{str(pragma('journal_mode')).upper()}`"
        assert told["synchronous"] == {2: "`FULL`"}[pragma("synchronous")]
        assert told["journal_size_limit"] == f"{pragma('journal_size_limit') >> 20} MiB"
        assert told["application_id"].startswith(f"`0x{pragma('application_id'):X}`")
        assert pragma("user_version") == len(MIGRATIONS)
        tables = conn.execute("SELECT name, strict FROM pragma_table_list WHERE schema = 'main'")
        assert all(strict for name, strict in tables if not name.startswith("sqlite_"))
    assert f"up to {PATIENCE:.0f} seconds" in page("docs/sqlite.md")


# docs/workers.md


def test_every_kind_of_finding_is_listed() -> None:
    listed = rows(page("docs/verify.md"), "| `kind` | What is wrong |")
    assert sorted(k for kinds, _ in listed for k in re.findall("`(.+?)`", kinds)) == sorted(KINDS)


def test_every_attribute_of_the_context_is_listed(journal: Journal) -> None:
    seen = set[str]()

    def handler(ctx: WorkerContext) -> None:
        seen.update(name for name in dir(ctx) if not name.startswith("_"))

    journal.ledger().start("run")
    Worker(journal, handler).run_once()
    listed = rows(page("docs/workers.md"), "| `ctx.` | What it is |")
    assert seen == {name for cell, _ in listed for name in re.findall(r"`(\w+)", cell)}


# README.md


def test_the_life_in_the_readme_is_a_real_one(journal: Journal, clock: SteppedClock) -> None:
    def acquire(owner: str) -> Any:
        return journal.ledger(owner=owner, clock=clock).acquire("import-42", heartbeat=False)

    operator = journal.ledger(owner="operator", clock=clock)
    operator.start("import-42")
    a = acquire("A")
    a.save_checkpoint({"done": 250})
    clock.advance(61)
    b = acquire("B")
    with pytest.raises(RunStoreError) as caught:
        a.save_checkpoint({"done": 260})
    assert f"{caught.value.code} / {caught.value.reason}" in page("README.md")
    b.save_checkpoint({"done": 500})
    b.suspend(["manager"])
    operator.record_decision("import-42", "manager", "yes")
    operator.request_resume("import-42")
    acquire("C").complete()

    shown = re.findall(
        r"^ +(\d+) +(run\.\w+) +(\d)?(?: +(\d))?(?: |$)", page("README.md"), re.MULTILINE
    )
    happened = []
    for event in journal.events("import-42"):
        record = journal.get("import-42", version=event.originator_version)
        assert record is not None
        happened.append((event.originator_version, event.topic, record))
    assert [(int(v), t) for v, t, _, _ in shown] == [(v, t) for v, t, _ in happened]
    for (_, _, token, attempt), (_, topic, record) in zip(shown, happened, strict=True):
        assert not token or int(token) == record.fencing_token
        assert not attempt or int(attempt) == record.attempt
        assert bool(attempt) == (topic == "run.lease_granted")
