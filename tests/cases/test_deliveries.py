"""Cases of deliveries: outages, rows that always fail, resumed runs, and rows made anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from functools import reduce
from typing import Any

import pytest
from runjournal import DeliveryFailed, DeliveryPolicy, DeliveryService, Journal
from runjournal.adapters.contract.tools import SteppedClock, refused
from runjournal.adapters.delivery_service import Pass
from runjournal.domain.delivery import DeliveryRecord, evolve_delivery
from runjournal.domain.events import run_stream

from ..receivers import Receiver, end_run, happened, rewrite, row

PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
OutboxRows = Callable[[Journal, str], list[tuple[str, str]]]


def test_case_25_a_resumed_run_delivers_once(
    journal: Journal, outbox_rows: OutboxRows, clock: SteppedClock
) -> None:
    """Suspended and resumed, taken over twice: one row under one id, and one message."""
    ledger = journal.ledger(owner="a", lease_ttl=10, clock=clock)
    other = journal.ledger(owner="b", lease_ttl=10, clock=clock)
    receiver = Receiver()
    service = DeliveryService(journal, {"*": receiver}, clock=clock)
    ledger.start("run", delivery_ref="inbox")
    lease = ledger.acquire("run", heartbeat=False)
    effect = lease.invocation_id("notify")
    lease.save_checkpoint({"step": 1})
    lease.suspend(["budget"])
    assert service.deliver_due() == Pass()
    ledger.record_decision("run", "budget", "yes")
    ledger.request_resume("run")
    lease = ledger.acquire("run", heartbeat=False)
    # The step that is done again has the id that it had, and goes on from what was saved.
    assert (lease.checkpoint, lease.invocation_id("notify")) == ({"step": 1}, effect)
    clock.advance(10)
    ended = other.acquire("run", heartbeat=False)
    assert ended.invocation_id("notify") == effect
    assert outbox_rows(journal, "run") == []
    ended.complete("done")
    with refused("RUN_ALREADY_TERMINAL", "completed"):
        other.acquire("run")
    ((invocation_id, status),) = outbox_rows(journal, "run")
    assert status == "pending"
    assert service.deliver_due() == Pass(delivered=1)
    assert service.deliver_due() == Pass()
    assert outbox_rows(journal, "run") == [(invocation_id, "delivered")]
    assert receiver.times == {invocation_id: 1}


def folded(journal: Journal, invocation_id: str) -> DeliveryRecord | None:
    """The row as the delivery's events make it."""
    first: DeliveryRecord | None = None
    events = journal.delivery_events(invocation_id)
    return reduce(lambda record, e: evolve_delivery(record, e, e.hash), events, first)


def test_case_33_rows_made_anew_send_nothing(journal: Journal, clock: SteppedClock) -> None:
    """A hundred deliveries in every state: folding their events gives the rows as stored, twice."""
    ids = [end_run(journal, f"run-{n}", f"ref-{n % 5}", clock=clock) for n in range(100)]
    waiting = [n for n in range(100) if n % 5 == 2]
    failing = Receiver(DeliveryFailed("no"))
    gateways: dict[str, Any] = {"ref-1": failing, "ref-2": Receiver(TimeoutError())}
    gateways |= {"ref-3": Receiver(), "ref-4": Receiver()}
    service = DeliveryService(journal, gateways, clock=clock, leave_others=True)
    assert service.deliver_due() == Pass(delivered=40, unknown=40)
    clock.advance(1)
    service.retry(ids[waiting[0]], actor="anna")
    assert journal.delivery_ledger(owner="dead", clock=clock).attempt(ids[0])
    sent = [list(g.got) for g in gateways.values()]
    rows = {i: row(journal, i) for i in ids}
    for _ in range(2):
        assert {i: folded(journal, i) for i in ids} == rows
        journal.rebuild("delivery_outbox")
        assert {i: row(journal, i) for i in ids} == rows
    assert [list(g.got) for g in gateways.values()] == sent
    assert len({r.invocation_id for r in journal.deliveries()} & set(ids)) == 100


def test_case_33_rows_that_were_set_aside(
    journal: Journal, clock: SteppedClock, journal_url: str
) -> None:
    """Setting a row aside is no event: after it comes back, its events still make it what it is."""
    invocation_id = end_run(journal, result="right", clock=clock)
    receiver = Receiver(DeliveryFailed("no"))
    service = DeliveryService(journal, {"*": receiver}, clock=clock)
    service.deliver_due()
    clock.advance(1)
    rewrite(journal, journal_url, run_stream("run"), 3, b'"right"', b'"wrong"')
    assert service.deliver_due() == Pass(set_aside=1)
    assert folded(journal, invocation_id) == row(journal, invocation_id)
    rewrite(journal, journal_url, run_stream("run"), 3, b'"wrong"', b'"right"')
    service.retry(invocation_id)
    record = row(journal, invocation_id)
    assert record.attempts == 2
    assert folded(journal, invocation_id) == record


@pytest.mark.parametrize("outage", [3, 30 * 60])
def test_case_72_outage(
    journal: Journal, clock: SteppedClock, journal_url: str, outage: float
) -> None:
    """After it all 200 arrive without anybody; what can never be sent alone waits for somebody."""
    rows = 200 if PROVE or journal_url == "memory:" else 20
    ids = [end_run(journal, f"run-{n}", clock=clock) for n in range(rows)]
    poison = end_run(journal, "poison", result="right", clock=clock)
    rewrite(journal, journal_url, run_stream("poison"), 3, b'"right"', b"\xff")
    receiver = Receiver(DeliveryFailed("down"))
    service = DeliveryService(journal, {"*": receiver}, clock=clock)
    back = clock.now + timedelta(seconds=outage)
    delivered = 0
    while delivered < rows:
        if clock.now >= back:
            receiver.answer = None
        delivered += service.deliver_due(limit=300).delivered
        assert service.list_attention() == []
        due = [r.next_attempt_at for r in journal.deliveries(status="unknown", limit=300)]
        # On to the instant at which most of them are due.
        clock.now = sorted(d for d in due if d)[len(due) // 4 * 3] if due else clock.now
    assert clock.now < back + timedelta(seconds=2 * DeliveryPolicy().longest_pause)
    assert set(receiver.times) == set(ids)
    # No storm: a fixed second between the attempts would have made 1800 of each.
    assert max(receiver.times.values()) <= 20
    assert {row(journal, i).status for i in ids} == {"delivered"}
    # The poison is listed, nothing was sent of it, and nothing of it was lost.
    assert [a.run_id for a in journal.attention()] == ["poison"]
    assert happened(journal, poison) == ["requested"]
    # New results are not blocked by it, and once it is mended, somebody's retry sends it.
    end_run(journal, "new", clock=clock)
    assert service.deliver_due() == Pass(delivered=1)
    rewrite(journal, journal_url, run_stream("poison"), 3, b"\xff", b'"right"')
    assert service.retry(poison, actor="anna").status == "delivered"
    attempted = [e for e in journal.delivery_events(poison) if e.topic == "delivery.attempted"]
    assert [e.actor for e in attempted] == ["anna"]
    assert journal.attention() == []


def test_case_74_head_of_line(journal: Journal, clock: SteppedClock) -> None:
    """A hundred that always fail and are always due first: good ones go out in the next pass."""
    for n in range(100):
        end_run(journal, f"bad-{n}", "bad", clock=clock)
    receiver = Receiver()
    gateways = {"bad": Receiver(DeliveryFailed("no")), "good": receiver}
    service = DeliveryService(journal, gateways, clock=clock)
    for _ in range(4):
        service.deliver_due(limit=50)
        clock.advance(0.5)
    for n in range(10):
        end_run(journal, f"good-{n}", "good", clock=clock)
    clock.advance(10**4)  # every bad one has been due for longer
    done = service.deliver_due(limit=50)
    assert (done.delivered, done.unknown) == (10, 40)
    assert len(receiver.got) == 10
