"""Whatever stands in the rows of a journal, reading it gives a value or says what is wrong."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.cli.exits import EXITS
from runjournal.adapters.cli.main import app
from typer.testing import CliRunner

from ..transfer.conftest import fill_all
from .generating import altered, as_json, bounded, damaged, texts
from .readings import read_everything

#: The columns that hold what a run was and is: each is damaged in turn.
COLUMNS = {
    "events": ("stream", "version", "topic", "state"),
    "runs": [
        "run_id", "kind", "status", "version", "fencing_token", "ready_at", "attention",
        "created_at", "updated_at", "checkpoint", "head", "body",
    ],
    "delivery_outbox": [
        "invocation_id", "run_id", "delivery_ref", "status", "version",
        "next_attempt_at", "updated_at", "head", "body", "attention",
    ],
}  # fmt: skip
#: What a claim, a renewal or a mark moves, and no event tells.
OF_NO_EVENT = {"ready_at", "attention"}
INTEGERS = [0, -1, 1, 2, 2**32, 2**63 - 1, -(2**63), 253402300800000000, -62135596800000001]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "journal.db"
    with open_journal(f"sqlite:///{path}") as journal:
        fill_all(journal)
    return path


@pytest.fixture
def copy(template: Path, tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


class NotText(bytes):
    """Bytes for a column of texts, whose database asks nobody whether they are UTF-8."""


class Damage:
    """One cell of the database with another value in it."""

    def __init__(self, data: st.DataObject, path: Path) -> None:
        self.table = data.draw(st.sampled_from(sorted(COLUMNS)))
        self.column = data.draw(st.sampled_from(sorted(COLUMNS[self.table])))
        with closing(sqlite3.connect(path, isolation_level=None)) as file:
            file.execute("PRAGMA ignore_check_constraints = ON")
            key = {"events": "position", "runs": "run_id"}.get(self.table, "invocation_id")
            rows = file.execute(
                f"SELECT {key}, {self.column} FROM {self.table} ORDER BY {key}"
            ).fetchall()
            row, before = data.draw(st.sampled_from(rows))
            after = data.draw(_another(before))
            try:
                value = "CAST(? AS TEXT)" if isinstance(after, NotText) else "?"
                file.execute(
                    f"UPDATE {self.table} SET {self.column} = {value} WHERE {key} = ?", (after, row)
                )
            except sqlite3.IntegrityError:
                pass  # the table itself does not take it
            (kept,) = file.execute(
                f"SELECT count(*) FROM {self.table} WHERE {self.column} IS ?", (before,)
            ).fetchone()
            was = sum(1 for _, value in rows if value == before)
            #: Whether the value is another one, as SQLite compares them.
            self.done = kept != was
        self.shows = self.done and self.column not in OF_NO_EVENT


def _another(before: Any) -> st.SearchStrategy[Any]:
    if isinstance(before, bytes):
        document = st.just(before).map(orjson.loads).flatmap(altered).map(as_json)
        return document | damaged(before) | st.binary(max_size=50)
    if isinstance(before, int):
        return st.sampled_from(INTEGERS) | st.integers(-(2**63), 2**63 - 1) | st.none()
    text = texts.map(lambda t: t.encode("utf-8", "replace").decode())
    if isinstance(before, str):
        text |= st.binary(min_size=1, max_size=9).map(NotText)
        return text | st.sampled_from(["queued", "running", "completed", "unknown", "run/done-0"])
    return text | st.sampled_from(INTEGERS) | st.binary(max_size=50)


@pytest.fixture
def run_ids(template: Path) -> list[str]:
    with open_journal(f"sqlite:///{template}") as journal:
        return [run.run_id for run in journal.runs()]


def found_by(check: Any) -> set[str]:
    """The kinds of what it finds; it may also find that the database itself cannot be read."""
    try:
        return {finding.kind for finding in check().findings}
    except RunStoreError as error:
        assert error.code == "RUN_INTEGRITY_ERROR", error
        return {error.reason}


@bounded(20)
@given(data=st.data())
def test_reading_a_damaged_cell(
    template: Path, copy: Path, run_ids: list[str], data: st.DataObject
) -> None:
    shutil.copyfile(template, copy)
    damage = Damage(data, copy)
    with open_journal(f"sqlite:///{copy}") as journal:
        found = found_by(journal.verify)
        assert bool(found) >= damage.shows, (damage.table, damage.column)
        refused = read_everything(journal, run_ids)
        assert damage.done or not refused
        for table in ("run_records", "delivery_outbox"):
            found_by(lambda name=table: journal.rebuild(name))
        if damage.table != "events" and damage.shows and not found_by(journal.verify):
            assert not any("unreadable" in r for r in read_everything(journal, run_ids))


@bounded(15)
@given(data=st.data())
def test_going_on_from_a_damaged_cell(
    template: Path, copy: Path, run_ids: list[str], data: st.DataObject
) -> None:
    """Commands are refused with a code, or keep the journal at least as sound as it was."""
    shutil.copyfile(template, copy)
    Damage(data, copy)
    with open_journal(f"sqlite:///{copy}") as journal:
        before = found_by(journal.verify)
        for act in _commands(journal, run_ids):
            try:
                act()
            except RunStoreError:
                pass
        after = found_by(journal.verify)
        assert after <= before or before, after


def _commands(journal: Journal, run_ids: list[str]) -> Iterator[Any]:
    ledger = journal.ledger(owner="other", lease_ttl=1)
    deliveries = journal.delivery_ledger(owner="other")
    for run_id in run_ids:
        yield lambda name=run_id: ledger.start(name, input=1)
        yield lambda name=run_id: ledger.acquire(name, heartbeat=False).save_checkpoint(1)
        yield lambda name=run_id: ledger.request_resume(name)
        yield lambda name=run_id: ledger.record_decision(name, "boss", "yes")
        yield lambda name=run_id: ledger.cancel(name)
    yield lambda: [lease.complete() for lease in ledger.claim(limit=50)]
    yield lambda: [deliveries.attempt(d.invocation_id) for d in journal.deliveries()]
    yield lambda: [deliveries.expire(d.invocation_id, lambda _: None) for d in journal.deliveries()]


READING_COMMANDS = [
    ["list"],
    ["show", "done-0"],
    ["log", "done-0"],
    ["timeline", "done-0"],
    ["replay", "done-0", "--diff"],
    ["report", "done-0", "-o", "-"],
    ["deliveries", "list"],
    ["verify", "--jobs", "1"],
    ["anchor"],
    ["export", "--all", "-o", "-"],
    ["projections", "status"],
    ["projections", "verify", "--jobs", "1"],
    ["projections", "rebuild", "run_records", "--jobs", "1"],
]


@bounded(3)
@given(data=st.data())
def test_commands_on_a_damaged_cell(template: Path, copy: Path, data: st.DataObject) -> None:
    shutil.copyfile(template, copy)
    Damage(data, copy)
    for command in READING_COMMANDS:
        for option in ([], ["--json"]):
            done = CliRunner().invoke(app, ["--db", f"sqlite:///{copy}", *option, *command])
            assert isinstance(done.exception, SystemExit | None), (command, done.exception)
            assert done.exit_code in EXITS, command
            assert done.exit_code != 1, command
            assert len(done.stderr.splitlines()) <= 1, (command, done.stderr)


@bounded(30, times=1)
@given(data=st.data())
def test_opening_a_damaged_file(template: Path, copy: Path, data: st.DataObject) -> None:
    """The pages themselves: SQLite's own refusal comes as ours, whenever it is met."""
    good = template.read_bytes()
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, 200) | st.integers(0, len(good) - 1))
        changed[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
    copy.write_bytes(changed)
    for beside in ("-wal", "-shm"):
        copy.with_name(copy.name + beside).unlink(missing_ok=True)
    try:
        with open_journal(f"sqlite:///{copy}") as journal:
            read_everything(journal, ["done-0", "lost-0"])
            journal.verify()
    except RunStoreError:
        pass
