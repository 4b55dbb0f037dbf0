"""A journal on a stranger's store does what one on SQLite does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runjournal import Journal, Projector, RunStoreError, open_journal
from runjournal.adapters.contract.tools import refused

from ..projecting.projectors import Seen
from ..transfer.conftest import content, fill_all
from .blob_store import BlobStore


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


def test_what_it_cannot_do_is_refused(stranger: Journal) -> None:
    projector: Projector = Seen()
    for act in (
        lambda: stranger.rebuild("run_records"),
        lambda: stranger.projection(projector),
        lambda: stranger.rebuild(projector),
        stranger.projection_states,
    ):
        with refused("RUN_VALIDATION_ERROR", "argument"):
            act()


def test_a_store_that_is_none_is_refused() -> None:
    with pytest.raises(RunStoreError, match="must be a str"):
        open_journal(object())  # type: ignore[arg-type]
