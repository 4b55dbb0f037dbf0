"""DeliveryService: what becomes of a delivery, however its receiver answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from runjournal import (
    DeliveryAmbiguous,
    DeliveryFailed,
    DeliveryPolicy,
    DeliveryRefused,
    DeliveryService,
    Journal,
)
from runjournal.adapters.contract.tools import SteppedClock, refused
from runjournal.adapters.delivery_service import Pass

from ..receivers import Receiver, end_run, happened, row

Serve = Callable[..., DeliveryService]


@pytest.fixture
def serve(journal: Journal, clock: SteppedClock) -> Serve:
    """Makes services for the journal that live by the test's clock, "inbox" to this receiver."""

    def make(receiver: Any, **options: Any) -> DeliveryService:
        gateways = options.pop("gateways", {"inbox": receiver})
        return DeliveryService(journal, gateways, clock=clock, owner="sender", **options)

    return make


@pytest.fixture
def ended(journal: Journal, clock: SteppedClock) -> str:
    """The invocation id of a run's delivery to "inbox"."""
    return end_run(journal, result={"rows": 3}, clock=clock)


def test_delivered_once(journal: Journal, serve: Serve, ended: str) -> None:
    receiver = Receiver()
    service = serve(receiver)
    assert service.deliver_due() == Pass(delivered=1)
    assert service.deliver_due() == Pass()
    (request,) = receiver.got
    assert (request.invocation_id, request.result) == (ended, {"rows": 3})
    assert happened(journal, ended) == ["requested", "attempted", "succeeded"]
    record = row(journal, ended)
    assert (record.status, record.attempts, record.needs_attention) == ("delivered", 1, False)


def test_failure_comes_back_by_itself_after_its_pause(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    receiver = Receiver(DeliveryFailed("not now"))
    service = serve(receiver, policy=DeliveryPolicy(first_pause=8, factor=3, longest_pause=30))
    for attempts, longest in enumerate((8, 24, 30, 30), start=1):
        assert service.deliver_due() == Pass(unknown=1)
        record = row(journal, ended)
        assert (record.status, record.attempts, record.definite) == ("unknown", attempts, True)
        assert record.error == "not now"
        assert record.next_attempt_at is not None
        pause = record.next_attempt_at - clock.now
        assert timedelta(seconds=longest / 2) <= pause <= timedelta(seconds=longest)
        clock.now = record.next_attempt_at - timedelta(microseconds=1)
        assert service.deliver_due() == Pass()
        clock.now = record.next_attempt_at
    receiver.answer = None
    assert service.deliver_due() == Pass(delivered=1)
    assert set(receiver.times) == {ended}
    assert row(journal, ended).error is None


def test_what_may_have_arrived_waits_for_somebody(
    journal: Journal, clock: SteppedClock, serve: Serve
) -> None:
    receiver = Receiver()
    service = serve(receiver)
    ids = []
    for n, error in enumerate([DeliveryAmbiguous("no answer"), TimeoutError(), BrokenPipeError()]):
        ids.append(end_run(journal, f"run-{n}", clock=clock))
        receiver.answer = error
        assert service.deliver_due() == Pass(unknown=1)
    clock.advance(10**7)
    assert service.deliver_due() == Pass()
    waiting = {r.invocation_id: r.definite for r in service.list_attention()}
    assert waiting == dict.fromkeys(ids, False)
    receiver.answer = None
    assert service.retry_attention(actor="anna") == Pass(delivered=3)
    assert receiver.times == dict.fromkeys(ids, 2)
    assert service.list_attention() == []


def test_what_may_have_arrived_comes_back_where_the_policy_says_so(
    clock: SteppedClock, serve: Serve, ended: str
) -> None:
    receiver = Receiver(DeliveryAmbiguous("no answer"))
    service = serve(receiver, policy=DeliveryPolicy(retry_ambiguous=True))
    assert service.deliver_due() == Pass(unknown=1)
    assert service.list_attention() == []
    clock.advance(1)
    receiver.answer = None
    assert service.deliver_due() == Pass(delivered=1)
    assert receiver.times == {ended: 2}


def test_what_was_refused_waits_for_somebody_at_once(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    policy = DeliveryPolicy(retry_ambiguous=True)
    service = serve(Receiver(DeliveryRefused("gone")), policy=policy)
    assert service.deliver_due() == Pass(unknown=1)
    record = row(journal, ended)
    assert (record.needs_attention, record.definite, record.error) == (True, True, "gone")
    clock.advance(10**7)
    assert service.deliver_due() == Pass()


def test_any_other_exception_is_a_definite_failure(journal: Journal, serve: Serve) -> None:
    for error in (ConnectionRefusedError(), OSError("unplugged"), KeyError("x")):
        name = type(error).__name__
        invocation_id = end_run(journal, name)
        DeliveryService(journal, {"*": Receiver(error)}).deliver_due()
        record = row(journal, invocation_id)
        assert record.definite
        assert record.next_attempt_at is not None
        assert str(record.error).startswith(name)


def test_receiver_that_asks_to_be_left_alone(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    receiver = Receiver(DeliveryFailed("busy", retry_after=500))
    service = serve(receiver, policy=DeliveryPolicy(longest_pause=10))
    service.deliver_due()
    assert row(journal, ended).next_attempt_at == clock.now + timedelta(seconds=500)
    clock.advance(499)
    assert service.deliver_due() == Pass()
    clock.advance(1)
    assert service.deliver_due() == Pass(unknown=1)


def test_retry_after_that_makes_no_sense(
    journal: Journal, clock: SteppedClock, serve: Serve
) -> None:
    """Whatever it is, the attempt's end is on record, and the next one is within the envelope."""
    nonsense: list[Any] = [float("inf"), float("nan"), 1e300, 10**400, -5, "120", None, [], ...]
    for n, said in enumerate(nonsense):
        invocation_id = end_run(journal, f"run-{n}", clock=clock)
        service = serve(Receiver(DeliveryFailed("busy", retry_after=said)))
        assert service.deliver_due() == Pass(unknown=1)
        due = row(journal, invocation_id).next_attempt_at
        assert due is not None
        assert clock.now < due <= clock.now + timedelta(seconds=DeliveryPolicy().keep_trying)


def test_giving_up_is_a_matter_of_time_and_not_of_attempts(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    receiver = Receiver(DeliveryFailed("down"))
    service = serve(receiver, policy=DeliveryPolicy(first_pause=1, longest_pause=2, keep_trying=40))
    begun = clock.now
    while not service.list_attention():
        due = row(journal, ended).next_attempt_at
        assert due is not None
        clock.now = due
        assert service.deliver_due() == Pass(unknown=1)
    # Not earlier, and the last attempt is at the very end.
    assert clock.now == begun + timedelta(seconds=40)
    assert row(journal, ended).attempts > 20
    # Somebody asks: then the time begins anew.
    service.retry(ended)
    record = row(journal, ended)
    assert record.trying_since == clock.now
    assert record.next_attempt_at is not None


def test_policy_that_would_overflow_is_refused() -> None:
    with refused("RUN_VALIDATION_ERROR", "argument"):
        DeliveryPolicy(factor=1001)
    widest = DeliveryPolicy(first_pause=9e9, factor=1000, longest_pause=9e9, keep_trying=9e9)
    record: Any = type("Record", (), {"trying_since": None, "attempts": 10**6})()
    clock = SteppedClock()
    assert widest.next_attempt_at(record, clock.now, definite=True) is not None


def test_gateway_for_all_other_refs(journal: Journal, clock: SteppedClock, serve: Serve) -> None:
    mine, rest = Receiver(), Receiver()
    for ref in ("mine", "other", "*"):
        end_run(journal, f"run-{ref}", ref, clock=clock)
    service = serve(None, gateways={"mine": mine, "*": rest})
    assert service.deliver_due() == Pass(delivered=3)
    assert mine.runs == ["run-mine"]
    assert sorted(rest.runs) == ["run-*", "run-other"]


def test_missing_gateway_says_so_and_is_tried_again(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    assert serve(None, gateways={"billing": Receiver()}).deliver_due() == Pass(unknown=1)
    record = row(journal, ended)
    assert record.error == "no gateway is configured for 'inbox'"
    assert record.definite
    clock.advance(1)
    assert serve(Receiver()).deliver_due() == Pass(delivered=1)


def test_gateway_that_is_an_empty_collection(serve: Serve, ended: str) -> None:
    class Collected(list[Any]):
        def deliver(self, request: Any) -> None:
            self.append(request.invocation_id)

    collected = Collected()
    assert serve(collected).deliver_due() == Pass(delivered=1)
    assert collected == [ended]


def test_others_deliveries_are_left_alone(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    """Also those that wait for somebody, however many come before one's own."""
    others = [end_run(journal, f"other-{n}", "billing", clock=clock) for n in range(5)]
    refusing, billing = Receiver(DeliveryRefused("no")), Receiver(DeliveryRefused("no"))
    everybody = serve(None, gateways={"inbox": refusing, "billing": billing})
    service = serve(refusing, leave_others=True)
    assert service.deliver_due() == Pass(unknown=1)
    assert {row(journal, o).attempts for o in others} == {0}
    assert everybody.deliver_due() == Pass(unknown=5)
    refusing.answer = None
    assert service.retry_attention(limit=1) == Pass(delivered=1)
    assert {row(journal, o).attempts for o in others} == {1}
    record = journal.get("other-0")
    assert record is not None
    untouched = service.deliver_run(record)
    assert untouched is not None
    assert untouched.attempts == 1


def test_delivering_one_run(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    receiver = Receiver(DeliveryFailed("later"))
    service = serve(receiver)
    journal.ledger(clock=clock).start("waiting", delivery_ref="inbox")
    end_run(journal, "other", clock=clock)
    for name in ("waiting", "run"):
        record = journal.get(name)
        assert record is not None
        delivery = service.deliver_run(record)
        assert (delivery is None) == (name == "waiting")
    assert receiver.runs == ["run"]
    # It was tried: what comes next is up to the passes.
    assert record is not None
    again = service.deliver_run(record)
    assert again is not None
    assert (again.attempts, again.invocation_id) == (1, ended)
    assert receiver.runs == ["run"]


def test_retry_names_who_asked(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    receiver = Receiver(DeliveryRefused("no"))
    service = serve(receiver)
    service.deliver_due()
    service.retry(ended, actor="anna")
    other = end_run(journal, "other", clock=clock)
    service.deliver_due()
    service.retry_attention(actor="bert")
    receiver.answer = None
    assert service.retry(ended).status == "delivered"
    service.retry(ended, actor="late")  # it is delivered: nothing happens
    attempts = [e for e in journal.delivery_events(ended) if e.topic == "delivery.attempted"]
    assert [e.actor for e in attempts] == [None, "anna", "bert", None]
    (_, by_bert) = [e for e in journal.delivery_events(other) if e.topic == "delivery.attempted"]
    assert by_bert.actor == "bert"
    assert receiver.times == {ended: 4, other: 2}


def test_actor_is_a_name(journal: Journal, serve: Serve, ended: str) -> None:
    service = serve(Receiver(DeliveryRefused("no")))
    service.deliver_due()
    bad: list[Any] = ["", "a\x00b", "x\ud800", 7]
    asks: list[Callable[[Any], object]] = [
        lambda actor: service.retry(ended, actor=actor),
        lambda actor: service.retry_attention(actor=actor),
        lambda actor: journal.delivery_ledger().attempt(ended, actor),
    ]
    for actor, ask in product(bad, asks):
        with refused("RUN_VALIDATION_ERROR", "identifier"):
            ask(actor)
    assert row(journal, ended).attempts == 1


def test_retry_of_what_nobody_reported_on(
    journal: Journal, clock: SteppedClock, serve: Serve, ended: str
) -> None:
    """While it may be under way it is left alone; then it is unknown first."""
    assert journal.delivery_ledger(owner="dead", clock=clock).attempt(ended)
    receiver = Receiver()
    service = serve(receiver)
    assert service.retry(ended).attempts == 1
    clock.advance(60)
    assert service.retry(ended, actor="anna").status == "delivered"
    assert happened(journal, ended) == [
        "requested", "attempted", "unknown", "attempted", "succeeded"
    ]  # fmt: skip
    assert receiver.times == {ended: 1}


def test_unknown_invocation_id(serve: Serve) -> None:
    with refused("RUN_NOT_FOUND", "delivery"):
        serve(Receiver()).retry("delivery-none")


def test_first_attempts_and_repetitions_share_a_pass(
    journal: Journal, clock: SteppedClock, serve: Serve
) -> None:
    """Even a pass of one delivery: neither side starves."""
    receiver = Receiver(lambda r: _fail() if r.delivery_ref == "inbox" else None)
    service = serve(None, gateways={"*": receiver}, policy=DeliveryPolicy(longest_pause=1))
    end_run(journal, "bad", clock=clock)
    service.deliver_due()
    for n in range(20):
        end_run(journal, f"good-{n}", "billing", clock=clock)
    for _ in range(20):
        clock.advance(1)
        service.deliver_due(limit=1)
    bad = receiver.runs.count("bad")
    assert 1 < bad < 21, "one of the two sides had to wait for the other"
    assert len(receiver.got) == 21


def _fail() -> None:
    raise DeliveryFailed("no")


def test_interrupt_is_seen_between_two_deliveries(journal: Journal, serve: Serve) -> None:
    interrupt = threading.Event()
    receiver = Receiver(lambda _: interrupt.set())
    for n in range(5):
        end_run(journal, f"run-{n}")
    DeliveryService(journal, {"*": receiver}, concurrency=1).run(interrupt)
    assert len(receiver.got) == 1
    assert [r.status for r in journal.deliveries()].count("delivered") == 1
