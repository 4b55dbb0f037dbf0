"""Encrypted journals are exported, imported and copied with the bytes that they hold."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from runjournal import Journal, RunStoreError, open_journal

from ..transfer.conftest import content, fill_all, is_sound
from .conftest import cause, ring


def journals_between(
    kinds: str, new_postgres: Callable[[], str], tmp_path: Path
) -> tuple[str, str]:
    def url(kind: str, name: str) -> str:
        return new_postgres() if kind == "postgres" else f"sqlite:///{tmp_path / name}.db"

    source, target = kinds.split(" to ")
    return url(source, "source"), url(target, "target")


@pytest.mark.parametrize("kinds", ["sqlite to postgres", "postgres to sqlite"])
def test_a_copy_is_equal_byte_for_byte(
    kinds: str, new_postgres: Callable[[], str], tmp_path: Path
) -> None:
    source, target = journals_between(kinds, new_postgres, tmp_path)
    with open_journal(source, cipher=ring("old")) as read:
        fill_all(read)
    with (
        open_journal(source, cipher=ring("new", "old")) as read,
        open_journal(target, cipher=ring("new", "old")) as written,
    ):
        read.ledger().acquire("queued-0", heartbeat=False).save_checkpoint("under the new key")
        done = read.copy_to(written, send_deliveries=True)
        assert done.conflicts == []
        assert content(read) == content(written)
        assert b'"base64":' in content(read)
        assert b'"data":' not in content(read)
        assert is_sound(written)
        assert read.copy_to(written, send_deliveries=True).events == 0
        before, after = (list(j.events("queued-0")) for j in (read, written))
        assert before == after
        assert after[-1].state == "under the new key"  # type: ignore[attr-defined]


def test_an_import_goes_on_with_a_run(tmp_path: Path) -> None:
    with (
        open_journal("memory:", cipher=ring("old")) as one,
        open_journal("memory:", cipher=ring("new", "old")) as other,
    ):
        fill_all(one)
        one.export_to(tmp_path / "first")
        assert other.import_from(tmp_path / "first").conflicts == []
        one.ledger().cancel("queued-0")
        one.export_to(tmp_path / "second")
        assert other.import_from(tmp_path / "second").extended == 1
        assert content(one) == content(other)
        assert other.verify().findings == []


def test_without_the_key_nothing_is_exported_and_nothing_imported(
    tmp_path: Path, sqlite_url: str
) -> None:
    with open_journal(sqlite_url, cipher=ring("old")) as journal:
        fill_all(journal)
        journal.export_to(tmp_path / "export")

    def refused(journal: Journal, call: Callable[[], object]) -> str:
        with pytest.raises(RunStoreError) as caught:
            call()
        assert cause(caught.value) == "RUN_VALIDATION_ERROR/missing_key"
        assert "'old'" in caught.value.message
        return caught.value.message

    with open_journal(sqlite_url) as blind, open_journal("memory:") as other:
        refused(blind, lambda: list(blind.export()))
        refused(blind, lambda: blind.export_run("done-0"))
        refused(blind, lambda: blind.copy_to(other))
        assert "line 2: " in refused(other, lambda: other.import_from(tmp_path / "export"))
        assert other.position() == 0
