"""A checkpoint's fence and its state are one event: there is no window between them.

A store that keeps the lease in one row and the snapshot in another can be caught between the two
writes: the fence holds, a takeover comes, and then the old holder's snapshot lands. Here both are
one append, so a takeover comes before it (nothing of it is written) or after it (it is the state
that the new holder goes on from).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from runjournal import RunStoreError
from runjournal.adapters.contract.between import ActsFirst
from runjournal.adapters.contract.tools import SteppedClock, ledger_on, topics
from runjournal.adapters.memory.store import MemoryStore
from runjournal.adapters.sqlite.store import SQLiteStore
from runjournal.domain.errors import RUN_LEASE_LOST, RUN_STORE_UNAVAILABLE
from runjournal.domain.events import run_stream
from runjournal.domain.ports import RunStore

TTL = 60.0
STALE = "state-of-the-fenced-writer"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunStore]:
    opened = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "runs.db")
    yield opened
    opened.close()


def everything(store: RunStore, tmp_path: Path) -> bytes:
    """All that the store holds of the run, for SQLite every byte of its files."""
    events = b"".join(e.data for e in store.read(run_stream("run")))
    record = repr(store.get("run").record).encode()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("runs.db*"))
    return events + record + files


def test_takeover_before_the_write_leaves_nothing_of_it(
    store: RunStore, clock: SteppedClock, tmp_path: Path
) -> None:
    def take_over() -> None:
        clock.advance(TTL)
        ledger_on(store, clock, "worker-2").acquire("run").save_checkpoint("new")

    # The first holder has judged its lease good and encoded its state; then it is overtaken.
    between = ActsFirst(store, "live", take_over)
    stale = ledger_on(between, clock, "worker-1").acquire("run")
    with pytest.raises(RunStoreError) as caught:
        stale.save_checkpoint(STALE)
    assert (caught.value.code, caught.value.reason) == (RUN_LEASE_LOST, "taken_over")
    assert topics(store) == ["queued", "lease_granted", "lease_granted", "checkpoint_saved"]
    assert STALE.encode() not in everything(store, tmp_path)
    record = store.get("run").record
    assert record is not None
    assert record.checkpoint_ref is not None
    assert record.checkpoint_ref.version == record.version == 4
    clock.advance(TTL)
    assert ledger_on(store, clock, "worker-3").acquire("run").checkpoint == "new"


def test_takeover_after_the_write_goes_on_from_it(
    store: RunStore, clock: SteppedClock, tmp_path: Path
) -> None:
    first = ledger_on(store, clock, "worker-1").acquire("run")
    first.save_checkpoint("last")
    assert b'"last"' in everything(store, tmp_path)
    clock.advance(TTL)
    second = ledger_on(store, clock, "worker-2").acquire("run")
    assert second.checkpoint == "last"
    with pytest.raises(RunStoreError):
        first.save_checkpoint(STALE)
    assert second.checkpoint == "last"


def test_event_that_fails_takes_its_fence_along(tmp_path: Path, clock: SteppedClock) -> None:
    # In SQLite the row (the fence) is written before the event (the state), in one transaction.
    with closing(SQLiteStore(tmp_path / "runs.db")) as store:
        lease = ledger_on(store, clock).acquire("run")
        before = lease.save_checkpoint("kept")
        with closing(sqlite3.connect(tmp_path / "runs.db")) as conn:
            conn.execute(
                "CREATE TRIGGER fails BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        with pytest.raises(RunStoreError) as caught:
            lease.save_checkpoint(STALE)
        assert caught.value.code == RUN_STORE_UNAVAILABLE
        assert store.get("run").record == before
        assert STALE.encode() not in everything(store, tmp_path)
        with closing(sqlite3.connect(tmp_path / "runs.db")) as conn:
            conn.execute("DROP TRIGGER fails")
        # Nothing was written, so the same holder goes on.
        assert lease.save_checkpoint("next").version == before.version + 1
