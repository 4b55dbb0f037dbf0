"""The fixtures for programs that embed runjournal do what they say."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from runjournal import Journal, RunLeaseHandle, RunStoreError, Worker

pytest_plugins = ["pytester"]

Kill = Callable[[RunLeaseHandle | str], RunLeaseHandle]
Lose = Callable[..., AbstractContextManager[None]]


def test_loading_the_plugin_loads_nothing_else(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_loaded(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("runjournal")
            assert not {"pydantic", "eventsourcing", "psycopg", "orjson"} & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "no:anyio").assert_outcomes(passed=1)


def test_time_stands_still(run_journal: Journal, run_clock: Any) -> None:
    ledger = run_journal.ledger()
    ledger.start("later", available_at=run_clock() + timedelta(hours=1))
    ran: list[str] = []

    def handle(run: Any) -> None:
        ran.append(run.run_id)

    worker = Worker(run_journal, handle)
    assert worker.run_once() is None
    run_clock.advance(3600)
    assert worker.run_once() is not None
    assert ran == ["later"]
    record = run_journal.get("later")
    assert record is not None
    assert record.ended_at == run_clock()


def test_a_killed_lease(run_journal: Journal, kill_lease: Kill) -> None:
    lease = run_journal.ledger("first").acquire("a")
    longer = run_journal.ledger("second", lease_ttl=120).acquire("b")
    lease.save_checkpoint({"n": 1})
    taken = kill_lease(lease)
    assert (taken.record.lease, taken.checkpoint) != (None, None)
    assert taken.record.fencing_token == lease.record.fencing_token + 1
    with pytest.raises(RunStoreError) as caught:
        lease.save_checkpoint({"n": 2})
    assert (caught.value.code, caught.value.reason) == ("RUN_LEASE_LOST", "taken_over")
    longer.save_checkpoint({"n": 1})
    assert kill_lease("b").checkpoint == {"n": 1}


def test_what_nobody_holds_cannot_be_killed(run_journal: Journal, kill_lease: Kill) -> None:
    run_journal.ledger().start("queued")
    for run_id in ("queued", "nowhere"):
        with pytest.raises(RunStoreError, match="nobody holds"):
            kill_lease(run_id)


def test_a_lost_reply_is_not_noticed(run_journal: Journal, lost_reply: Lose) -> None:
    lease = run_journal.ledger().acquire("r", heartbeat=False)
    with lost_reply():
        lease.save_checkpoint({"n": 1})
    with lost_reply(times=2):
        lease.save_checkpoint({"n": 2})
        lease.save_checkpoint({"n": 3})
    topics = [event.topic for event in run_journal.events("r")]
    assert topics.count("run.checkpoint_saved") == 3


def test_one_that_stays_unknown_is_resolved_later(run_journal: Journal, lost_reply: Lose) -> None:
    ledger = run_journal.ledger()
    with lost_reply(stays_down=True), pytest.raises(RunStoreError) as caught:
        ledger.start("r", command_id="start-r")
    assert caught.value.code == "RUN_OUTCOME_UNKNOWN"
    assert ledger.resolve("start-r", "r").applied
