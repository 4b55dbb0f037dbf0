"""What onlookers read of a run beside its record: input, saved state, result."""

from __future__ import annotations

from datetime import timedelta

import pytest
from runjournal import Journal, RunStoreError


def test_nothing_yet(journal: Journal) -> None:
    journal.ledger().start("r", input={"rows": 2})
    assert journal.input("r") == {"rows": 2}
    assert journal.checkpoint("r") is None
    assert journal.result("r") is None


def test_what_was_saved_last_and_before(journal: Journal) -> None:
    with journal.ledger().acquire("r") as lease:
        lease.save_checkpoint({"n": 1})
        lease.save_checkpoint({"n": 2})
        assert journal.checkpoint("r") == {"n": 2}
        assert journal.checkpoint("r", version=3) == {"n": 1}
        assert journal.checkpoint("r", version=2) is None
        with pytest.raises(RunStoreError) as caught:
            journal.checkpoint("r", version=99)
        assert (caught.value.code, caught.value.reason) == ("RUN_NOT_FOUND", "version")
        lease.complete([1, 2])
    assert journal.checkpoint("r") == {"n": 2}
    assert journal.result("r") == [1, 2]


def test_an_end_without_a_result(journal: Journal) -> None:
    ledger = journal.ledger()
    ledger.start("failed")
    ledger.fail("failed", "bad_source")
    ledger.start("cancelled")
    ledger.cancel("cancelled")
    assert journal.result("failed") is None
    assert journal.result("cancelled") is None


@pytest.mark.parametrize("reading", ["input", "checkpoint", "result"])
def test_of_no_run(journal: Journal, reading: str) -> None:
    with pytest.raises(RunStoreError) as caught:
        getattr(journal, reading)("nobody")
    assert (caught.value.code, caught.value.reason) == ("RUN_NOT_FOUND", "run")


@pytest.mark.parametrize("reading", ["input", "checkpoint", "result"])
def test_of_a_pruned_run(journal: Journal, reading: str) -> None:
    journal.ledger().acquire("gone").complete("done")
    journal.prune(journal.store.now() + timedelta(seconds=1))
    with pytest.raises(RunStoreError) as caught:
        getattr(journal, reading)("gone")
    assert (caught.value.code, caught.value.reason) == ("RUN_NOT_FOUND", "pruned")


def test_a_traceback_has_the_words_to_look_up(journal: Journal) -> None:
    with pytest.raises(RunStoreError) as caught:
        journal.result("nobody")
    assert caught.value.__notes__ == [
        "RUN_NOT_FOUND / run (hint: check the id, or start the run first)"
    ]
