"""A journal on a stranger's store does what one on SQLite does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, KeyRing, Projector, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused

from ..projecting.projectors import Seen
from ..strangers.blob_store import BlobStore
from ..transfer.conftest import content, fill_all
from .map_store import MapStore


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(BlobStore(tmp_path / "blobs.db")) as journal:
        yield journal


def test_everything_is_readable_and_sound(stranger: Journal) -> None:
    fill_all(stranger)
    assert stranger.verify().findings == []
    for run in stranger.runs():
        assert stranger.timeline(run.run_id) is not None
        assert stranger.get(run.run_id, version=1) is not None
        assert run.run_id in stranger.report([run.run_id])
    events = [event.topic for _, event in stranger.subscribe(follow=False)]
    assert len(events) == stranger.position() == stranger.verify().events


def test_it_moves_to_sqlite_and_back(stranger: Journal, tmp_path: Path) -> None:
    fill_all(stranger)
    before = content(stranger)
    with open_journal(f"sqlite:///{tmp_path / 'journal.db'}") as sqlite:
        stranger.copy_to(sqlite)
        assert content(sqlite) == before
        with open_journal(BlobStore(tmp_path / "second.db")) as second:
            sqlite.copy_to(second)
            assert content(second) == before
            assert second.verify().findings == []


def test_it_is_pruned_and_its_tombstones_travel(stranger: Journal, tmp_path: Path) -> None:
    fill_all(stranger)
    ended = {r.run_id for r in stranger.runs() if r.is_terminal}
    before, archive = stranger.position(), tmp_path / "archive.jsonl"
    pruned = stranger.prune_all(datetime.now(UTC), archive=archive)
    gone = ended - {r.run_id for r in stranger.runs()}
    assert len(gone) == pruned.runs > 0
    assert stranger.verify().findings == []
    assert stranger.position() == before + 1
    left = [event.originator_id for _, event in stranger.subscribe(follow=False)]
    assert not {f"run/{run_id}" for run_id in gone} & set(left)
    assert len(left) == stranger.verify().events
    with open_journal("memory:") as memory:
        stranger.copy_to(memory)
        assert memory.verify().findings == []
        for run_id in gone:
            with refused("RUN_NOT_FOUND", "pruned"):
                memory.get(run_id)
        with open_journal(BlobStore(tmp_path / "second.db")) as second:
            memory.copy_to(second)
            assert content(second) == content(memory) == content(stranger)
    with open_journal(BlobStore(tmp_path / "third.db")) as third:
        third.import_from(archive)
        assert {r.run_id for r in third.runs()} == gone
        assert third.verify().findings == []


def test_it_goes_on_in_a_new_epoch_after_a_restore(tmp_path: Path) -> None:
    path = tmp_path / "blobs.db"
    with open_journal(BlobStore(path)) as journal:
        journal.ledger().acquire("run").release()
    with open_journal(BlobStore(path)) as journal:
        before = journal.position()
        assert journal.restore_check("ada", "the disk of last week").epoch == 1
        assert journal.position() > before + 2**32
        assert journal.ledger().acquire("run").fencing_token == 2**32 + 1
        assert journal.verify().findings == []


def test_what_it_cannot_do_is_refused(stranger: Journal, tmp_path: Path) -> None:
    projector: Projector = Seen()
    ring = KeyRing({"key": b"k" * 32})
    for act in (
        lambda: stranger.rebuild("run_records"),
        lambda: stranger.projection(projector),
        lambda: stranger.rebuild(projector),
        stranger.stats,
        lambda: stranger.backup(tmp_path / "backup.db"),
        lambda: open_journal(BlobStore(tmp_path / "secret.db"), cipher=ring),
    ):
        with refused("RUN_VALIDATION_ERROR", "argument"):
            act()
    assert stranger.projection_states() == []


def test_a_table_is_rebuilt_where_names_can_be_held() -> None:
    store = MapStore()
    with open_journal(store) as journal:
        fill_all(journal)
        before = content(journal)
        for key in [k for k in store.values if k.startswith(("run\x1f", "delivery\x1f"))]:
            del store.values[key]
        assert journal.verify().findings != []
        for table in ("run_records", "delivery_outbox"):
            assert journal.rebuild(table).findings == ()
        assert journal.verify().findings == []
        assert content(journal) == before
        assert journal.ledger().claim() is not None


def test_a_block_that_raises_within_the_store_leaves_nothing(stranger: Journal) -> None:
    """What is granted calls back into the store, in the very transaction; nothing of it stays."""
    stranger.ledger().start("run")
    store = stranger._store
    before = content(stranger)

    def grant(record: Any, _now: Any) -> Any:
        assert store.get("run").record == record
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.claim(None, 1, grant)
    assert content(stranger) == before
    assert stranger.ledger().claim() is not None


def test_a_store_that_is_none_is_refused() -> None:
    with pytest.raises(RunStoreError, match="must be a str"):
        open_journal(object())  # type: ignore[arg-type]
