"""The archive: on disk before anything goes, gone on with, and read back elsewhere."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, open_journal
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.pruning import pruner
from runjournal.adapters.pruning.archive import Archive

from .conftest import deliver, end, later


def imported(path: Path) -> tuple[Any, dict[str, Any]]:
    """What came of importing a file into an empty journal, and the runs that are there then."""
    with open_journal("memory:") as elsewhere:
        done = elsewhere.import_from(path)
        assert elsewhere.verify().findings == []
        return done, {r.run_id: elsewhere.export_run(r.run_id) for r in elsewhere.runs()}


def test_every_batch_is_in_it(journal: Journal, tmp_path: Path) -> None:
    names = [f"run-{n}" for n in range(5)]
    end(journal, *names, delivery_ref="inbox")
    deliver(journal)
    histories = {name: journal.export_run(name) for name in names}
    path = tmp_path / "archive.jsonl"
    done = journal.prune_all(later(), limit=2, archive=path)
    assert (done.runs, done.torn) == (5, ())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    came, there = imported(path)
    assert (came.new, came.conflicts, there) == (5, [], histories)
    # The audit event names the digest of the document that has them.
    digests = [e.archive for _, e in journal.subscribe(topics=["audit.runs_pruned"], follow=False)]  # type: ignore[attr-defined]
    assert len(set(digests)) == 3
    assert all(str(digest) in path.read_text() for digest in digests)


def test_archives_one_after_another_are_an_archive(journal: Journal, tmp_path: Path) -> None:
    end(journal, "b")
    journal.prune(later(), archive=tmp_path / "1")
    end(journal, "a")
    journal.prune(later(), archive=tmp_path / "2")
    both = tmp_path / "both"
    both.write_bytes((tmp_path / "1").read_bytes() + (tmp_path / "2").read_bytes() * 2)
    done, there = imported(both)
    assert (done.new, done.unchanged, sorted(there)) == (2, 1, ["a", "b"])


def test_unfinished_document_is_taken_away_and_named(journal: Journal, tmp_path: Path) -> None:
    end(journal, "a", "b")
    path = tmp_path / "archive"
    journal.prune(later(), archive=path)
    whole = path.read_bytes()
    end(journal, "c")
    cut = b"".join(journal.export(["c"]))
    for length in (1, 40, len(cut) // 2, len(cut) - 1):
        path.write_bytes(whole + cut[:length])
        done, there = imported(path)
        assert sorted(there) == ["a", "b"]
        assert done.torn == (("run/c",) if length > 400 else ())
        with Archive(path) as archive:
            assert archive.torn == (("run/c",) if length > 400 else ())
        assert path.read_bytes() == whole
    path.write_bytes(whole + cut[:-1])
    done = journal.prune(later(), archive=path)
    assert (done.runs, done.torn) == (1, ("run/c",))
    assert sorted(imported(path)[1]) == ["a", "b", "c"]


def test_file_that_is_no_archive_is_left_alone(journal: Journal, tmp_path: Path) -> None:
    end(journal, "run")
    for content in (b"notes\n", b"notes", b'{"schema":"other"}\n', b"\0" * 2000):
        path = tmp_path / "file"
        path.write_bytes(content)
        with refused("RUN_VALIDATION_ERROR", "export_file"):
            journal.prune(later(), archive=path)
        assert path.read_bytes() == content
    good = tmp_path / "good"
    good.write_bytes(b"".join(journal.export(["run"]))[:-5] + b"\nx\n")
    before = good.read_bytes()
    with refused("RUN_VALIDATION_ERROR", "export_file"):
        journal.prune(later(), archive=good)
    assert good.read_bytes() == before
    with refused("RUN_VALIDATION_ERROR", "argument"):
        journal.prune(later(), archive=tmp_path / "none" / "file")
    assert journal.get("run") is not None


def test_one_prune_at_a_time_writes_to_it(journal: Journal, tmp_path: Path) -> None:
    end(journal, "a")
    path = tmp_path / "archive"
    path.touch()
    with Archive(path), refused("RUN_CONFLICT", "already_running"):
        journal.prune(later(), archive=path)
    assert journal.prune(later(), archive=path).runs == 1


def test_nothing_goes_before_it_is_on_disk(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(journal, "run")

    def full(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):  # the folder is flushed as well
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        journal.prune(later(), archive=tmp_path / "archive")
    monkeypatch.undo()
    assert journal.get("run") is not None
    assert journal.prune(later(), archive=tmp_path / "archive").runs == 1


def test_dry_run_touches_no_archive(journal: Journal, tmp_path: Path) -> None:
    end(journal, "run")
    done = journal.prune(later(), dry_run=True, archive=tmp_path / "archive")
    assert (done.run_ids, list(tmp_path.glob("archive"))) == (["run"], [])


def test_batches_end_early_where_runs_are_large(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(journal, *"abcdef")
    monkeypatch.setattr(pruner, "EVENTS_AT_ONCE", 8)
    done = journal.prune(later(), archive=tmp_path / "archive")
    assert (done.runs, done.done) == (2, False)
    monkeypatch.setattr(pruner, "EVENTS_AT_ONCE", 1000)
    monkeypatch.setattr(pruner, "BYTES_AT_ONCE", 1)
    done = journal.prune(later(), archive=tmp_path / "archive")
    assert (done.runs, done.done) == (1, False)
    assert journal.prune_all(later(), archive=tmp_path / "archive").runs == 3


def test_import_into_the_same_journal_leaves_them_pruned(journal: Journal, tmp_path: Path) -> None:
    end(journal, "run")
    path = tmp_path / "archive"
    started = tmp_path / "started"
    with open_journal("memory:") as other:
        other.ledger().start("run", input="another")
        other.export_to(started)
    journal.prune(later(), archive=path)
    done = journal.import_from(path)
    assert (done.new, done.pruned, done.conflicts) == (0, 1, [])
    done = journal.import_from(started)
    assert (done.new, done.pruned) == (0, 0)
    assert [c.stream for c in done.conflicts] == ["run/run"]
    assert journal.runs() == []
