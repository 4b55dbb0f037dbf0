"""What STRICT would not take is in a column all the same: every reading says so, in one line.

One bit of a page is enough to make a text of an integer.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from runjournal import Journal, RunStoreError, open_journal
from runjournal.adapters.cli.exits import EXITS
from runjournal.adapters.cli.main import app
from typer.testing import CliRunner

from ..fuzz.readings import read_everything
from ..fuzz.test_stored_bytes import READING_COMMANDS, found_by
from ..projecting.projectors import Seen
from .loose_tables import PROVE, ROWS, LooseTables

#: What `verify` does not look at: no event tells it.
NOT_VERIFIED = {"projections", "projection_seen_1", "token_epoch"}
#: By these a row is found; under one of another type it is nobody's.
KEYS = {("runs", "run_id"), ("delivery_outbox", "invocation_id"), ("projection_seen_1", "key")}
#: What the readings below get from elsewhere, or go past.
NOT_READ = KEYS | {
    ("runs", "parent_run_id"), ("delivery_outbox", "attention"), ("token_epoch", "epoch"),
    ("projection_seen_1", "position"),
}  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> LooseTables:
    return LooseTables(tmp_path_factory.mktemp("loose") / "journal.db")


def refusals(journal: Journal) -> list[str]:
    """What was refused of all there is to read; anything but a RunStoreError fails the test."""
    refused = read_everything(journal, ["done-0", "queued-0"])
    try:
        journal.projection(Seen()).rows()
    except RunStoreError as error:
        refused.append(f"rows: {error.code}/{error.reason}")
    return refused


@pytest.mark.parametrize("table", ROWS)
def test_every_reading_of_every_column(tables: LooseTables, table: str) -> None:
    for cell in [cell for cell in tables.columns if cell[0] == table]:
        for value in tables.copies(*cell):
            with open_journal(tables.url) as journal:
                assert bool(refusals(journal)) >= (cell not in NOT_READ), (cell, value)
                found = found_by(journal.verify)
                assert bool(found) >= (table not in NOT_VERIFIED), (cell, value)
                if found == {"record"}:
                    # Rows come from the events, so they can be made anew.
                    journal.rebuild("run_records")
                    journal.rebuild("delivery_outbox")
                    assert not found_by(journal.verify), (cell, value)
                    assert {"done-0", "queued-0"} <= {run.run_id for run in journal.runs()}
                    assert len(journal.deliveries()) == 4
                else:
                    assert (
                        table not in ("runs", "delivery_outbox")
                        or cell in KEYS
                        or (found == {"head"})
                    ), (cell, value)


#: In the bounded form only this one: the others differ in where they are noticed.
CELLS = [("events", "state")]


def test_every_reading_command(tables: LooseTables) -> None:
    for cell in tables.columns if PROVE else CELLS:
        for value in tables.copies(*cell):
            for command in [*READING_COMMANDS, ["stats"], ["doctor"]]:
                done = CliRunner().invoke(app, ["--db", tables.url, *command])
                assert isinstance(done.exception, SystemExit | None), (cell, value, command)
                assert done.exit_code in EXITS, (cell, value, command)
                assert done.exit_code != 1, (cell, value, command)
                assert len(done.stderr.splitlines()) <= 1, (cell, value, done.stderr)


@pytest.mark.parametrize("column", ["kind", "ready_at", "updated_at", "body", "run_id"])
def test_a_run_of_another_type_holds_up_no_other(tables: LooseTables, column: str) -> None:
    for _ in tables.copies("runs", column, every=True):
        with open_journal(tables.url) as journal:
            claimed = journal.ledger(owner="other").claim(limit=50)
            assert {"back-0", "resumed-0"} <= {lease.run_id for lease in claimed}
            pruned = journal.prune_all(datetime.now(UTC) + timedelta(seconds=30))
            assert pruned.runs
