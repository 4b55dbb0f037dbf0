"""Cases of journals that were put back: what comes round, and ids that are used once more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from runjournal import Journal, RunStoreError, open_journal, restore_backup


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Journal]:
    with open_journal(f"sqlite:///{tmp_path / 'runs.db'}") as journal:
        ledger = journal.ledger(owner="w")
        ledger.start("ended", delivery_ref="inbox", input={"half": 0.5, "text": "分析"})
        ledger.acquire("ended", heartbeat=False).complete([1, None])
        ledger.acquire("waits", heartbeat=False).suspend(["approval"])
        ledger.acquire("held", heartbeat=False).save_checkpoint({"n": 2**53 + 1})
        yield journal


def restored(source: Journal, folder: Path) -> Journal:
    source.backup(folder / "backup.db")
    restore_backup(
        folder / "backup.db", folder / "restored.db", actor="operator", reason="a rehearsal"
    )
    return open_journal(f"sqlite:///{folder / 'restored.db'}")


def test_case_70_round_trip_by_backup(source: Journal, tmp_path: Path) -> None:
    """Byte for byte: events, hashes, records, the outbox. Only the restore itself is new."""
    ids = ["ended", "held", "waits"]
    exported = b"".join(source.export(ids))
    with restored(source, tmp_path) as journal:
        assert b"".join(journal.export(ids)) == exported
        assert journal.deliveries() == source.deliveries()
        assert journal.runs() == source.runs()
        # And what was backed up is there when it is brought into the source: nothing is new.
        journal.export_to(tmp_path / "all.jsonl", ids)
    done = source.import_from(tmp_path / "all.jsonl")
    assert (done.new, done.extended, done.events) == (0, 0, 0)


def test_case_68_id_that_came_after_the_backup_is_used_once_more(
    source: Journal, tmp_path: Path
) -> None:
    """It has no old state, and its token is above the old one."""
    with restored(source, tmp_path) as journal:
        lost = source.ledger(owner="w").acquire("late", heartbeat=False)
        lost.save_checkpoint("lost")
        again = journal.ledger(owner="w").acquire("late", heartbeat=False)
        assert again.checkpoint is None
        assert again.fencing_token > lost.fencing_token
        with pytest.raises(RunStoreError) as caught:
            journal.ledger().adopt("late", lost.fencing_token)
        assert (caught.value.code, caught.value.reason) == ("RUN_LEASE_LOST", "taken_over")
