"""verify and anchors account for what was pruned, and name what was forged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal

from ..verifying.conftest import behind_its_back
from .conftest import deliver, end, later


def anchored(journal: Journal, path: Path) -> Path:
    path.write_text("".join(journal.anchor()))
    return path


def kinds(journal: Journal, anchor: Path | None = None) -> list[tuple[str, str]]:
    return [(f.kind, f.stream) for f in journal.verify(anchor).findings]


def test_anchor_accepts_what_was_pruned(journal: Journal, tmp_path: Path) -> None:
    end(journal, "a", "z", delivery_ref="inbox")
    early = anchored(journal, tmp_path / "early")
    deliver(journal)
    late = anchored(journal, tmp_path / "late")
    end(journal, "m")
    assert journal.prune_all(later(), limit=1).runs == 3
    for anchor in (early, late, anchored(journal, tmp_path / "after")):
        assert kinds(journal, anchor) == []
    end(journal, "n")
    assert kinds(journal, late) == []


def forge(name: str, ours: Any) -> list[tuple[str, str]]:
    """Change a journal with two pruned runs behind its back; what must be found."""
    audit = ("tombstones", "journal/audit")
    if name == "a run is removed by hand":
        ours("DELETE FROM events WHERE stream = 'run/c'")
        ours("DELETE FROM runs WHERE run_id = 'c'")
        return [("anchor_missing", "run/c")]
    if name == "a tombstone is forged for it":
        ours("INSERT INTO tombstones SELECT 'run/c', 1, 4, head, body FROM runs WHERE run_id = 'c'")
        ours("DELETE FROM events WHERE stream = 'run/c'")
        ours("DELETE FROM runs WHERE run_id = 'c'")
        return [audit]
    if name == "under an event that there is not":
        ours("INSERT INTO tombstones SELECT stream, 7, version, head, body FROM tombstones")
        return [audit]
    if name == "a tombstone is gone":
        ours("DELETE FROM tombstones WHERE stream = 'run/a'")
        return [("anchor_missing", "run/a"), audit]
    if name == "all are gone":
        ours("DELETE FROM tombstones")
        return [("anchor_missing", "run/a"), ("anchor_missing", "run/b"), audit]
    if name == "a version is another":
        ours("UPDATE tombstones SET version = 3 WHERE stream = 'run/a'")
        return [("anchor_missing", "run/a"), audit]
    if name == "a head is another":
        ours("UPDATE tombstones SET head = 'x' WHERE stream = 'run/a'")
        return [("anchor_missing", "run/a"), audit]
    assert name == "an answer is another"
    ours(
        "UPDATE tombstones SET body = (SELECT body FROM tombstones WHERE stream = 'run/b')"
        " WHERE stream = 'run/a'"
    )
    return [audit]


@pytest.mark.parametrize(
    "name",
    [
        "a run is removed by hand",
        "a tombstone is forged for it",
        "under an event that there is not",
        "a tombstone is gone",
        "all are gone",
        "a version is another",
        "a head is another",
        "an answer is another",
    ],
)
def test_forgery_is_found(database_url: str, tmp_path: Path, name: str) -> None:
    with open_journal(database_url) as journal:
        end(journal, "a", "b", "c")
        anchor = anchored(journal, tmp_path / "anchor")
        assert journal.prune(later(), limit=2).runs == 2
        assert kinds(journal, anchor) == []
        expected = forge(name, behind_its_back(database_url))
        assert sorted(kinds(journal, anchor)) == sorted(expected)


def test_pruned_id_that_is_there_again(database_url: str, tmp_path: Path) -> None:
    with open_journal(database_url) as journal, open_journal("memory:") as other:
        end(journal, "a")
        journal.prune(later())
        ours = behind_its_back(database_url)
        graves = ours("SELECT stream, audit_version, version, head, body FROM tombstones")
        ours("DELETE FROM tombstones")
        other.ledger().start("a", input="another")
        other.export_to(tmp_path / "other")
        journal.import_from(tmp_path / "other")
        ours("INSERT INTO tombstones VALUES (?, ?, ?, ?, ?)", *graves[0])
        assert kinds(journal) == [("reused", "run/a")]


def test_rebuild_leaves_them_alone(database_url: str) -> None:
    with open_journal(database_url) as journal:
        end(journal, "a", "b")
        journal.prune(later(), limit=1)
        ours = behind_its_back(database_url)
        before = ours("SELECT * FROM tombstones")
        for table in ("run_records", "delivery_outbox"):
            assert journal.rebuild(table).repaired == 0
        ours("DROP TABLE runs")
        assert journal.rebuild("run_records").repaired == 1
        assert ours("SELECT * FROM tombstones") == before
        assert [r.run_id for r in journal.runs()] == ["b"]
        assert kinds(journal) == []
        assert journal.prune(later()).runs == 1
