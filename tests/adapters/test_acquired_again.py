"""A run that is acquired again under the same owner: the older handle knows."""

from __future__ import annotations

import threading

from runjournal import Journal, RunStoreError
from runjournal.adapters.contract.tools import refused


def test_the_older_handle_of_a_ledger_is_lost_at_once(journal: Journal) -> None:
    ledger = journal.ledger(owner="me")
    told: list[RunStoreError] = []
    older = ledger.acquire("r", heartbeat=False)
    older.on_lost(told.append)
    older.save_checkpoint(1)
    newer = ledger.acquire("r", heartbeat=False)
    assert not older.held
    assert older.lost is not None
    assert (older.lost.code, older.lost.reason) == ("RUN_LEASE_LOST", "taken_over")
    assert told == [older.lost]
    assert newer.held
    assert ledger.handles == [newer]
    with refused("RUN_LEASE_LOST", "taken_over"):
        older.save_checkpoint(2)
    newer.save_checkpoint(3)
    # What ends the older one says nothing of the newer.
    older.stop_heartbeat()
    ledger.release_all()
    assert newer.record.status == "queued"
    assert ledger.handles == []


def test_one_of_another_run_is_not(journal: Journal) -> None:
    ledger = journal.ledger(owner="me")
    one, other = ledger.acquire("one", heartbeat=False), ledger.acquire("other", heartbeat=False)
    assert one.held
    assert other.held
    one.release()
    again = ledger.acquire("one", heartbeat=False)
    # It gave the lease back, and did not lose it.
    assert one.lost is None
    assert set(ledger.handles) == {other, again}


def test_one_of_many_threads_has_it_in_the_end(journal: Journal) -> None:
    ledger = journal.ledger(owner="me")
    handles = []
    threads = [
        threading.Thread(target=lambda: handles.append(ledger.acquire("r", heartbeat=False)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    last = max(handles, key=lambda handle: handle.fencing_token)
    assert len({handle.fencing_token for handle in handles}) == len(threads)
    assert [handle for handle in handles if handle.held] == [last] == ledger.handles
