"""Tombstones travel with a whole journal, so that no id is used twice in the copy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runjournal import Journal, open_journal
from runjournal.adapters.contract.tools import refused

from .conftest import deliver, end, later


@pytest.fixture
def source() -> Iterator[Journal]:
    """Two runs that were pruned in two batches, and one that is there."""
    with open_journal("memory:") as opened:
        end(opened, "a", "b", delivery_ref="inbox")
        deliver(opened)
        assert opened.prune_all(later(), limit=1).runs == 2
        end(opened, "c")
        yield opened


def is_like(target: Journal, source: Journal) -> bool:
    return list(target.export()) == list(source.export()) and target.verify().findings == []


def test_copy(journal: Journal, source: Journal) -> None:
    done = source.copy_to(journal)
    assert (done.new, done.buried, done.conflicts) == (2, 4, [])
    assert is_like(journal, source)
    with refused("RUN_CONFLICT", "pruned"):
        journal.ledger().start("a")
    again = source.copy_to(journal)
    assert (again.new, again.unchanged, again.buried) == (0, 2, 0)


def test_export_and_import(journal: Journal, source: Journal, tmp_path: Path) -> None:
    path = tmp_path / "all"
    assert source.export_to(path).tombstones == 4
    done = journal.import_from(path)
    assert (done.new, done.buried) == (2, 4)
    assert is_like(journal, source)
    # A part of a journal has none.
    assert b"tombstone" not in b"".join(source.export(["c"]))


@pytest.mark.parametrize("number", range(4))
def test_damaged_tombstone_is_refused(
    journal: Journal, source: Journal, tmp_path: Path, number: int
) -> None:
    lines = list(source.export())
    index = next(i for i, line in enumerate(lines) if b'"tombstone"' in line) + number
    swapped = [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]
    for changed in (
        [*lines[:index], *lines[index + 1 :]],
        [*lines[: index + 1], *lines[index:]],
        [*lines[:index], lines[index].replace(b'"version":', b'"version":1'), *lines[index + 1 :]],
        [*lines[:index], lines[index].replace(b'"head":"', b'"head":"0'), *lines[index + 1 :]],
        swapped,
    ):
        path = tmp_path / "damaged"
        path.write_bytes(b"".join(changed))
        with refused("RUN_VALIDATION_ERROR", "export_file"):
            journal.import_from(path)
    assert journal.position() == 0


def test_copy_that_was_begun_before_the_prune(journal: Journal) -> None:
    """What is there stays there; a copy removes nothing."""
    with open_journal("memory:") as source:
        end(source, "a", "b")
        source.copy_to(journal)
        source.prune(later(), limit=1)
        end(source, "c")
        done = source.copy_to(journal)
        assert (done.new, done.unchanged, done.buried, done.conflicts) == (2, 1, 1, [])
        assert [r.run_id for r in journal.runs()] == ["a", "b", "c"]
        assert journal.verify().findings == []
        assert journal.ledger().start("a").pruned_at is None
        # And it can be pruned there as well.
        assert journal.prune_all(later()).runs == 3
        assert journal.verify().findings == []


def test_runs_that_were_pruned_in_the_target_stay_so(journal: Journal) -> None:
    with open_journal("memory:") as source:
        end(source, "a", "b")
        source.copy_to(journal)
        journal.prune(later(), limit=1)
        done = source.copy_to(journal)
        assert (done.new, done.unchanged, done.pruned, done.conflicts) == (0, 1, 1, [])
        assert [r.run_id for r in journal.runs()] == ["b"]


def test_id_that_means_something_else_in_the_target(journal: Journal, source: Journal) -> None:
    journal.ledger().start("a", input="another")
    done = source.copy_to(journal)
    assert [c.stream for c in done.conflicts] == ["run/a"]
    assert journal.get("a") is not None


def test_target_with_an_audit_log_of_its_own(journal: Journal, source: Journal) -> None:
    """Tombstones that no event there tells of would look forged: they stay behind."""
    end(journal, "x")
    journal.prune(later())
    done = source.copy_to(journal)
    assert [c.stream for c in done.conflicts] == ["journal/audit"]
    assert done.buried == 0
    assert journal.verify().findings == []
