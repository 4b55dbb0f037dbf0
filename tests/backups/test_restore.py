"""What a restored journal is, what it refuses, and what is not restored."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from runjournal import Journal, RunLeaseHandle, RunStoreError, open_journal, restore_backup
from runjournal.domain.audit import AUDIT_STREAM
from runjournal.domain.tokens import EPOCH_SIZE, POSITIONS_PASSED_OVER

FIRST = EPOCH_SIZE + 1


class Place:
    """A journal's file, its backup, and where the backup is restored to."""

    def __init__(self, folder: Path) -> None:
        self.path, self.backup, self.restored = (
            folder / name for name in ("runs.db", "backup.db", "restored.db")
        )

    def open(self) -> Journal:
        return open_journal(f"sqlite:///{self.path}")

    def restore(self) -> Journal:
        restore_backup(self.backup, self.restored, actor="operator", reason="the disk died")
        return open_journal(f"sqlite:///{self.restored}")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def journal(place: Place) -> Iterator[Journal]:
    """A journal in which "w1" holds the run "held" under token 1, and "queued" is queued."""
    with place.open() as journal:
        journal.ledger(owner="w1").acquire("held", heartbeat=False).save_checkpoint("early")
        journal.ledger().start("queued")
        yield journal


def put_back(journal: Journal, file: Path) -> None:
    """Put a file in the place of an open journal's, as an operator would who stops nobody."""
    database: Any = journal.store
    database = database.database
    database.hush()  # its connections: they would go on with the old file, which has no name now
    for beside in ("-wal", "-shm"):
        database.path.with_name(database.path.name + beside).unlink(missing_ok=True)
    os.replace(file, database.path)
    database.go_on()


def loss(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(RunStoreError) as caught:
        act()
    return caught.value.code, caught.value.reason


def test_restore_is_on_record(journal: Journal, place: Place) -> None:
    told = journal.backup(place.backup)
    done = restore_backup(place.backup, place.restored, actor="operator", reason="the disk died")
    assert done == (told.events, told.position, 0, 1)
    assert stat.S_IMODE(place.restored.stat().st_mode) == 0o600
    with open_journal(f"sqlite:///{place.restored}") as restored:
        (event,) = restored._events(AUDIT_STREAM, 0)
        assert event.model_dump(include={"actor", "reason", "place", "last_position"}) == {
            "actor": "operator",
            "reason": "the disk died",
            "place": "copy",
            "last_position": told.position,
        }
        assert (event.old_epoch, event.new_epoch) == (0, 1)  # type: ignore[attr-defined]
        assert restored.verify().findings == []
        assert restored.get("held") == journal.get("held")
    # The backup is as it was, and can be restored once more.
    assert done == restore_backup(
        place.backup, place.path.with_name("again.db"), actor="operator", reason="again"
    )


def test_token_that_was_granted_after_the_backup_is_worth_nothing(
    journal: Journal, place: Place
) -> None:
    """The restored journal knows nothing of token 2, and never hands it out."""
    journal.backup(place.backup)
    lost = journal.ledger(owner="w1").acquire("held", heartbeat=False)
    assert lost.fencing_token == 2
    with place.restore() as restored:
        assert loss(lambda: restored.ledger().adopt("held", 2)) == ("RUN_LEASE_LOST", "taken_over")
        ledger = restored.ledger(owner="w1")
        tokens = [
            ledger.acquire("held", heartbeat=False).fencing_token,
            ledger.acquire("queued", heartbeat=False).fencing_token,
            ledger.acquire("new", heartbeat=False).fencing_token,
        ]
        assert tokens == [FIRST] * 3
        assert loss(lambda: restored.ledger().adopt("held", 2)) == ("RUN_LEASE_LOST", "taken_over")


def take_over(journal: Journal) -> RunLeaseHandle:
    lease = journal.ledger(owner="w1").acquire("held", heartbeat=False)
    lease.save_checkpoint("after the backup")
    return lease


@pytest.mark.parametrize("meanwhile", ["nothing", "as many events"])
def test_holder_from_before_meets_the_restored_journal(
    journal: Journal, place: Place, meanwhile: str
) -> None:
    """It is behind what the holder wrote; or at the same version, and another history."""
    journal.backup(place.backup)
    lease = take_over(journal)
    with place.restore() as restored:
        if meanwhile == "as many events":
            take_over(restored)
    put_back(journal, place.restored)
    expected = "rewound" if meanwhile == "nothing" else "taken_over"
    assert loss(lambda: lease.save_checkpoint("late")) == ("RUN_LEASE_LOST", expected)
    assert lease.lost is not None
    assert lease.lost.reason == expected
    assert journal.verify().findings == []


def test_holder_whose_run_came_back_as_he_left_it_goes_on(journal: Journal, place: Place) -> None:
    lease = journal.ledger(owner="w1").acquire("held", heartbeat=False)
    journal.backup(place.backup)
    place.restore().close()
    put_back(journal, place.restored)
    assert lease.complete().fencing_token == 2
    assert journal.verify().findings == []


def test_older_copy_that_was_put_back_by_hand(journal: Journal, place: Place) -> None:
    """No epoch is raised, so a token comes twice. Two holders of it never both write."""
    journal.backup(place.backup)
    lease = take_over(journal)
    shutil.copy(place.backup, place.restored)
    put_back(journal, place.restored)
    with place.open() as other:
        again = other.ledger(owner="w2").acquire("queued", heartbeat=False)
        second = other.ledger(owner="w1").acquire("held", heartbeat=False)
        assert second.fencing_token == lease.fencing_token
        second.save_checkpoint("by the second")  # as many events as the first one wrote
        assert loss(lambda: lease.save_checkpoint("by the first")) == (
            "RUN_CONFLICT",
            "unexpected_version",
        )
        # From the check on it cannot happen again.
        assert journal.restore_check("operator", "an old copy").epoch == 1
        second.save_checkpoint("still")
        again.release()
        assert other.ledger().acquire("queued", heartbeat=False).fencing_token == FIRST
        assert other.verify().findings == []


def test_who_followed_further_than_the_backup_misses_nothing(
    journal: Journal, place: Place
) -> None:
    journal.backup(place.backup)
    take_over(journal)
    seen = journal.position()
    with place.restore() as restored:
        restored.ledger().start("new")
        after = list(restored.subscribe(after=seen, follow=False))
        assert [event.topic for _, event in after] == ["audit.journal_restored", "run.queued"]
        assert after[0][0] > POSITIONS_PASSED_OVER


def cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 4096)


def cut_header(file: Path) -> None:
    os.truncate(file, 60)


def spoil_page(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xff" * 4096)


def text(file: Path) -> None:
    file.write_text("no database\n" * 100)


def foreign(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as conn:
        conn.execute("CREATE TABLE t (a)")


def newer(file: Path) -> None:
    with closing(sqlite3.connect(file)) as conn:
        conn.execute("PRAGMA user_version = 99")


def broken_chain(file: Path) -> None:
    with closing(sqlite3.connect(file)) as conn, conn:
        conn.execute("DELETE FROM events WHERE stream = 'run/held' AND version = 2")


def gone(file: Path) -> None:
    file.unlink()


def in_use(file: Path) -> None:
    file.with_name(file.name + "-wal").write_bytes(b"")


UNFIT: list[tuple[Callable[[Path], None], str, str, str]] = [
    (cut, "RUN_INTEGRITY_ERROR", "damaged_database", "cut short"),
    (cut_header, "RUN_INTEGRITY_ERROR", "damaged_database", "cut short"),
    (spoil_page, "RUN_INTEGRITY_ERROR", "damaged_database", "backup.db is damaged"),
    (text, "RUN_INTEGRITY_ERROR", "not_a_journal", "no SQLite database"),
    (foreign, "RUN_INTEGRITY_ERROR", "not_a_journal", "another application"),
    (newer, "RUN_INTEGRITY_ERROR", "newer_database", "schema version 99"),
    (broken_chain, "RUN_INTEGRITY_ERROR", "unsound", "run/held"),
    (gone, "RUN_VALIDATION_ERROR", "backup_file", "no file"),
    (in_use, "RUN_VALIDATION_ERROR", "backup_file", "in use"),
]


@pytest.mark.parametrize(
    ("spoil", "code", "reason", "message"), UNFIT, ids=[case[0].__name__ for case in UNFIT]
)
def test_file_that_is_no_whole_backup_is_refused(
    journal: Journal,
    place: Place,
    spoil: Callable[[Path], None],
    code: str,
    reason: str,
    message: str,
) -> None:
    journal.backup(place.backup)
    spoil(place.backup)
    before = sorted(os.listdir(place.path.parent))
    with pytest.raises(RunStoreError) as caught:
        place.restore()
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert "backup.db" in caught.value.message
    assert message in caught.value.message
    assert sorted(os.listdir(place.path.parent)) == before


@pytest.mark.parametrize("there", ["", "-wal", "-shm", "-journal"])
def test_nothing_is_put_where_a_journal_is(journal: Journal, place: Place, there: str) -> None:
    journal.backup(place.backup)
    kept = place.restored.with_name(place.restored.name + there)
    kept.write_bytes(b"mine")
    assert loss(place.restore) == ("RUN_VALIDATION_ERROR", "argument")
    assert kept.read_bytes() == b"mine"
    assert place.restored.exists() == (there == "")


def test_open_journal_is_neither_source_nor_target(journal: Journal, place: Place) -> None:
    journal.backup(place.backup)
    live = str(place.path)

    def restore(source: str | Path, target: str | Path) -> object:
        return restore_backup(source, target, actor="operator", reason="a test")

    assert loss(lambda: restore(live, place.restored)) == ("RUN_VALIDATION_ERROR", "backup_file")
    assert loss(lambda: restore(place.backup, live)) == ("RUN_VALIDATION_ERROR", "argument")
    assert journal.verify().findings == []


@pytest.mark.parametrize("given", [{"actor": " "}, {"reason": ""}])
def test_who_and_why_are_asked_for(journal: Journal, place: Place, given: dict[str, str]) -> None:
    journal.backup(place.backup)
    names = {"actor": "operator", "reason": "a test", **given}
    assert loss(lambda: restore_backup(place.backup, place.restored, **names)) == (
        "RUN_VALIDATION_ERROR",
        "identifier",
    )
    assert loss(lambda: journal.restore_check(**names)) == ("RUN_VALIDATION_ERROR", "identifier")


def test_unsound_journal_is_not_checked_off(journal: Journal, place: Place) -> None:
    broken_chain(place.path)
    assert loss(lambda: journal.restore_check("operator", "why")) == (
        "RUN_INTEGRITY_ERROR",
        "unsound",
    )
    journal.acknowledge(journal.verify().findings, "operator", "known")
    assert journal.restore_check("operator", "why").epoch == 1
