"""A new key writes, the old one reads: what was done under the old one is still known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runjournal import CallableGateway, DeliveryService, Journal, RunStoreError, open_journal
from runjournal.adapters.ciphering import key_id_of
from runjournal.domain import commands as c
from runjournal.domain.decide import decide
from runjournal.domain.events import run_stream
from runjournal.projections.replay import replay

from .conftest import ring


@pytest.fixture(params=[None, ring("old")], ids=["from plain", "from a key"])
def rotated(journal_url: str, request: pytest.FixtureRequest) -> Any:
    """Gives the journal to a first act, and opened with a new key to a second."""
    before = request.param

    def run(first: Callable[[Journal], Any], then: Callable[[Journal, Any], Any]) -> None:
        journal = open_journal(journal_url, cipher=before)
        done = first(journal)
        if journal_url == "memory:":  # what is in memory cannot be opened again
            journal._codec.cipher = ring("new", "old")
        else:
            journal.close()
            journal = open_journal(journal_url, cipher=ring("new", "old"))
        with journal:
            then(journal, done)
            assert journal.verify().findings == []

    return run


def test_a_repeated_start_converges(rotated: Any) -> None:
    def start(journal: Journal, **given: Any) -> Any:
        arguments = {"input": {"n": 1}, "labels": {"a": "b"}, "command_id": "first"} | given
        return journal.ledger().start("run", **arguments)

    def again(journal: Journal, record: Any) -> None:
        assert start(journal) == record
        assert start(journal, command_id="second") == record
        for other in ({"input": {"n": 2}}, {"labels": {}}):
            with pytest.raises(RunStoreError) as caught:
                start(journal, command_id="third", **other)
            assert caught.value.reason == "different_arguments"
        assert journal.position() == 1

    rotated(start, again)


def test_a_repeated_checkpoint_converges(rotated: Any) -> None:
    def command(journal: Journal, state: Any, token: int = 1) -> c.SaveCheckpoint:
        return c.SaveCheckpoint(
            run_id="run",
            command_id="save",
            fencing_token=token,
            key="latest",
            snapshot_version=1,
            state=journal._codec.encode(state, "state"),
        )

    def save(journal: Journal) -> None:
        ledger = journal.ledger(lease_ttl=600)
        lease = ledger.acquire("run", heartbeat=False)
        lease._writer.write(lambda _id: command(journal, {"offset": 1}))  # type: ignore[attr-defined]
        ledger.forked("nobody")  # so that closing does not release it

    def again(journal: Journal, _done: None) -> None:
        record, now = journal.store.get("run")
        assert decide(record, command(journal, {"offset": 1}), now) == ()
        with pytest.raises(RunStoreError) as caught:
            decide(record, command(journal, {"offset": 2}), now)
        assert caught.value.reason == "command_reused"

    rotated(save, again)


def test_other_repeated_commands_converge(rotated: Any) -> None:
    def suspend(journal: Journal) -> None:
        journal.ledger().acquire("asking").suspend(["boss", "legal"])
        decide_it(journal)
        journal.ledger().start("unwanted")
        cancel(journal)

    def decide_it(journal: Journal) -> Any:
        return journal.ledger().record_decision("asking", "boss", "yes", command_id="yes")

    def cancel(journal: Journal) -> Any:
        return journal.ledger().cancel("unwanted", message="no", command_id="no")

    def again(journal: Journal, _done: None) -> None:
        before = journal.position()
        assert decide_it(journal).approvals["boss"] == "yes"
        assert cancel(journal).status == "cancelled"
        outcome = journal.ledger().resolve("no", "unwanted")
        assert outcome.version == 2
        with pytest.raises(RunStoreError) as caught:
            journal.ledger().record_decision("asking", "boss", "no", command_id="yes")
        assert caught.value.reason == "command_reused"
        assert journal.position() == before

    rotated(suspend, again)


def test_a_run_and_its_delivery_go_on_under_the_new_key(rotated: Any) -> None:
    sent: list[Any] = []

    def begin(journal: Journal) -> None:
        ledger = journal.ledger()
        ledger.start("run", input="in", delivery_ref="inbox")
        lease = ledger.acquire("run")
        lease.save_checkpoint("halfway")
        lease.release()
        ledger.start("ended", delivery_ref="inbox")
        ledger.acquire("ended").complete("early")

    def end(journal: Journal, _done: None) -> None:
        lease = journal.ledger().acquire("run")
        assert (lease.input, lease.checkpoint) == ("in", "halfway")
        lease.complete("result")
        gateway = CallableGateway(lambda request: sent.append((request.run_id, request.result)))
        DeliveryService(journal, {"inbox": gateway}).deliver_due()
        assert sorted(sent) == [("ended", "early"), ("run", "result")]
        new = [key_id_of(e.data[1:]) == "new" for e in journal.store.read(run_stream("run"))]
        assert new == [False] * 4 + [True] * 2
        check_readings(journal)

    rotated(begin, end)


def check_readings(journal: Journal) -> None:
    """Everything that reads goes across both keys."""
    halfway = journal.get("run", version=3)
    assert halfway is not None
    assert (halfway.status, halfway.checkpoint_ref.version) == ("running", 3)  # type: ignore[union-attr]
    assert journal.application.record_at("run", 3).head == halfway.head
    assert [step.after.version for step in replay(journal.events("run"))] == [1, 2, 3, 4, 5, 6]
    assert len(journal.timeline("run").holdings) == 2
    assert "result" in journal.report(["run"])
    assert len(list(journal.subscribe(follow=False))) == journal.position()
    assert journal.rebuild("run_records").repaired == 0
