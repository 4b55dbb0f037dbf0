"""DeliveryService among failures: of gateways, of the store, of what is stored, and of others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from runjournal import (
    DeliveryAmbiguous,
    DeliveryFailed,
    DeliveryPolicy,
    DeliveryService,
    Journal,
)
from runjournal.adapters import delivery_service
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.contract.scribe import contract_codec
from runjournal.adapters.contract.tools import SteppedClock, race, refused
from runjournal.adapters.delivery_service import Pass
from runjournal.domain.events import run_stream

from ..receivers import Receiver, end_run, happened, rewrite, row, spoil_row

Until = Callable[[Callable[[], Any]], None]
ONCE = ["requested", "attempted", "succeeded"]


@pytest.fixture
def losing(journal: Journal) -> LosesReplies:
    """Stands between a service and the journal's store."""
    return LosesReplies(journal.store)


@pytest.fixture
def behind(losing: LosesReplies, journal: Journal) -> Journal:
    """The same journal, through what loses."""
    return Journal(losing, contract_codec(), journal.limits)


# What gateways raise.


@pytest.mark.parametrize("journal_url", ["memory:"])
@pytest.mark.parametrize(
    "said",
    [
        "x" * (1 << 20),
        "a.b-" * (1 << 18),
        "https://u:secret@host/" * (1 << 16),
        "nul \x00 lone \ud800 line \n\r\u2028 escape \x1b[31m",
        "postgresql://u:secret@host/db refused, password=secret",
        "https://h/" + "p" * 3960 + " postgresql://u:" + "secret" * 9 + "@host",
        "",
    ],
    ids=["long", "quadratic", "addresses", "odd", "credentials", "cut", "empty"],
)
def test_error_text_is_one_short_line_without_credentials(
    journal: Journal, caplog: pytest.LogCaptureFixture, said: str
) -> None:
    invocation_id = end_run(journal)
    begun = time.process_time()
    with caplog.at_level(logging.INFO):
        DeliveryService(journal, {"*": Receiver(DeliveryFailed(said))}).deliver_due()
    assert time.process_time() - begun < 5
    error = row(journal, invocation_id).error
    assert error
    assert len(error) <= 2000
    for text in (error, *caplog.messages):
        assert text.isprintable()
        assert "secret" not in text
        assert len(text) < 2200


@pytest.mark.parametrize("journal_url", ["sqlite", "postgres"], indirect=True)
def test_odd_error_text_is_stored(journal: Journal) -> None:
    invocation_id = end_run(journal)
    error = DeliveryFailed("nul \x00 lone \ud800 line \n")
    DeliveryService(journal, {"*": Receiver(error)}).deliver_due()
    assert row(journal, invocation_id).error == "nul \\x00 lone \\ud800 line"


def test_exception_without_a_text(journal: Journal) -> None:
    class BrokenError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    invocation_id = end_run(journal)
    assert DeliveryService(journal, {"*": Receiver(BrokenError())}).deliver_due() == Pass(unknown=1)
    assert row(journal, invocation_id).error == "BrokenError: its text cannot be had"


def test_interrupted_in_the_middle_of_sending(journal: Journal) -> None:
    """It goes up, and the attempt is on record as one that may have arrived."""
    invocation_id = end_run(journal)
    service = DeliveryService(journal, {"*": Receiver(KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        service.deliver_due()
    (waiting,) = service.list_attention()
    assert (waiting.invocation_id, waiting.definite) == (invocation_id, False)
    assert waiting.error == "interrupted while sending"


# Receivers that hang.


def test_receiver_that_hangs_blocks_nobody_else(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of its deliveries are due first: the others' go out in the same pass."""
    monkeypatch.setattr(delivery_service, "SLOW", 0.02)

    def hang(_: Any) -> None:
        time.sleep(0.05)
        raise DeliveryAmbiguous("no answer in time")

    for n in range(30):
        end_run(journal, f"hanging-{n}", "hanging")
    for n in range(5):
        end_run(journal, f"good-{n}", "good")
    hanging, good = Receiver(hang), Receiver()
    service = DeliveryService(journal, {"hanging": hanging, "good": good})
    done = service.deliver_due(limit=10)
    assert sorted(good.runs) == [f"good-{n}" for n in range(5)]
    assert done.delivered == 5
    assert 1 <= done.unknown == len(hanging.got) <= 4
    assert len(journal.deliveries(status="pending")) == 30 - done.unknown


# Several at once.


def test_services_at_once_send_nothing_twice(journal: Journal) -> None:
    ids = [end_run(journal, f"run-{n}") for n in range(30)]
    receiver = Receiver()
    services = [DeliveryService(journal, {"*": receiver})] * 2
    services.append(DeliveryService(journal, {"*": receiver}))
    passes = race(3, lambda n: services[n].deliver_due())
    assert receiver.times == dict.fromkeys(ids, 1)
    assert sum(p.delivered for p in passes if isinstance(p, Pass)) == 30
    assert all(happened(journal, i) == ONCE for i in ids)


# A store that fails.


@pytest.mark.parametrize("answer", [None, DeliveryFailed("no")])
def test_store_is_away_when_the_end_is_to_be_recorded(
    journal: Journal, behind: Journal, losing: LosesReplies, answer: Exception | None
) -> None:
    """The end is on record once the store is back; nobody sends it a second time."""
    invocation_id = end_run(journal)

    def go_away(_: Any) -> None:
        losing.cut_off = True
        threading.Timer(0.2, setattr, (losing, "cut_off", False)).start()
        if answer is not None:
            raise answer

    receiver = Receiver(go_away)
    done = DeliveryService(behind, {"*": receiver}).deliver_due()
    assert done == (Pass(delivered=1) if answer is None else Pass(unknown=1))
    assert happened(journal, invocation_id)[:2] == ONCE[:2]
    record = row(journal, invocation_id)
    assert record.sending is None
    assert record.definite == (None if answer is None else isinstance(answer, DeliveryFailed))
    assert len(happened(journal, invocation_id)) == 3
    assert len(receiver.got) == 1


def test_end_that_could_not_be_recorded_is_unknown_later(
    journal: Journal, behind: Journal, losing: LosesReplies, clock: SteppedClock
) -> None:
    invocation_id = end_run(journal, clock=clock)
    receiver = Receiver(lambda _: setattr(losing, "cut_off", True))
    service = DeliveryService(behind, {"*": receiver}, attempt_ttl=0.2, clock=clock)
    service.deliver_due()
    assert row(journal, invocation_id).sending is not None
    losing.cut_off = False
    clock.advance(0.2)
    assert service.deliver_due() == Pass(unknown=1)
    (waiting,) = service.list_attention()
    assert waiting.definite is False
    receiver.answer = None
    assert service.retry(invocation_id).status == "delivered"
    assert happened(journal, invocation_id) == [*ONCE[:2], "unknown", *ONCE[1:]]


@pytest.mark.parametrize("lost", ["replies", "requests"])
def test_claim_whose_reply_is_lost_while_the_store_stays_away(
    journal: Journal, behind: Journal, losing: LosesReplies, lost: str
) -> None:
    """Sent, once, when the claim is known: it must not look like one that may have arrived."""
    invocation_id = end_run(journal)
    setattr(losing, lost, 1)
    losing.stays_down = True
    back = threading.Timer(0.3, setattr, (losing, "cut_off", False))
    back.start()
    receiver = Receiver()
    assert DeliveryService(behind, {"*": receiver}).deliver_due() == Pass(delivered=1)
    back.join()
    assert receiver.times == {invocation_id: 1}
    assert happened(journal, invocation_id) == ONCE


def test_loop_outlives_a_store_that_is_away(
    journal: Journal,
    behind: Journal,
    losing: LosesReplies,
    wait_until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:
    interrupt = threading.Event()
    receiver = Receiver()
    service = DeliveryService(behind, {"*": receiver})
    losing.cut_off = True
    loop = threading.Thread(target=service.run, args=(interrupt,), kwargs={"poll": 0.05})
    loop.start()
    end_run(journal)
    wait_until(lambda: "delivering failed and goes on" in caplog.text)
    losing.cut_off = False
    wait_until(lambda: receiver.got)
    interrupt.set()
    loop.join(10)
    assert not loop.is_alive()


def test_idle_loop_asks_seldom(behind: Journal, losing: LosesReplies, wait_until: Until) -> None:
    interrupt = threading.Event()
    service = DeliveryService(behind, {"*": Receiver()})
    loop = threading.Thread(target=service.run, args=(interrupt,), kwargs={"poll": 10})
    loop.start()
    try:
        wait_until(lambda: len(losing.calls) >= 4)
        time.sleep(0.6)
    finally:
        begun = time.monotonic()
        interrupt.set()
        loop.join(10)
    assert time.monotonic() - begun < 1, "the interrupt is looked at while it waits"
    # Pauses that double from 0.05 s on: five or six passes of two questions each.
    assert set(losing.calls) == {"due_deliveries"}
    assert len(losing.calls) <= 14


# What is stored.


def test_end_of_a_run_that_was_rewritten_is_not_sent(journal: Journal, journal_url: str) -> None:
    """Another payload under the same identity: refused, set aside, listed, blocking nobody."""
    bad, good = end_run(journal, "bad", result="right"), end_run(journal, "good")
    rewrite(journal, journal_url, run_stream("bad"), 3, b'"right"', b'"wrong"')
    before = row(journal, bad)
    with refused("RUN_CONFLICT", "different_request"):
        journal.delivery_ledger().attempt(bad)
    receiver = Receiver()
    service = DeliveryService(journal, {"*": receiver})
    assert service.deliver_due() == Pass(delivered=1, set_aside=1)
    assert receiver.times == {good: 1}
    assert service.deliver_due() == Pass()
    (listed,) = journal.attention()
    assert listed.run_id == "bad"
    assert "not the one it was requested for" in listed.reason
    assert row(journal, bad) == before
    with refused("RUN_CONFLICT", "different_request"):
        service.retry(bad)
    # Restored, somebody asks for it.
    rewrite(journal, journal_url, run_stream("bad"), 3, b'"wrong"', b'"right"')
    assert service.retry(bad).status == "delivered"
    assert journal.attention() == []


def test_end_of_a_run_that_cannot_be_read(journal: Journal, journal_url: str) -> None:
    bad, good = end_run(journal, "bad", result="right"), end_run(journal, "good")
    rewrite(journal, journal_url, run_stream("bad"), 3, b'"right"', b"\xff")
    receiver = Receiver()
    service = DeliveryService(journal, {"*": receiver})
    assert service.deliver_due() == Pass(delivered=1, set_aside=1)
    assert receiver.times == {good: 1}
    assert [a.run_id for a in journal.attention()] == ["bad"]
    with refused("RUN_INTEGRITY_ERROR", "unreadable_event"):
        service.retry(bad)


def test_what_was_delivered_stays_delivered(journal: Journal, journal_url: str) -> None:
    """Whatever becomes of the run's events, and whoever asks."""
    invocation_id = end_run(journal, result="right")
    service = DeliveryService(journal, {"*": Receiver()})
    service.deliver_due()
    before = row(journal, invocation_id)
    rewrite(journal, journal_url, run_stream("run"), 3, b'"right"', b'"wrong"')
    assert service.retry(invocation_id) == before
    assert row(journal, invocation_id) == before
    assert journal.attention() == []


@pytest.mark.parametrize("journal_url", ["sqlite", "postgres"], indirect=True)
def test_row_that_cannot_be_read(journal: Journal, journal_url: str, clock: SteppedClock) -> None:
    """One is due, one waits for somebody: both are set aside, the others are sent and listed."""
    due, waiting = end_run(journal, "due"), end_run(journal, "waiting", "refusing")
    good, refused_too = end_run(journal, "good"), end_run(journal, "other", "refusing")
    receiver, refusing = Receiver(), Receiver(DeliveryAmbiguous("perhaps"))
    service = DeliveryService(journal, {"*": receiver, "refusing": refusing})
    spoil_row(journal_url, due)
    assert service.deliver_due() == Pass(delivered=1, unknown=2, set_aside=1)
    assert receiver.times == {good: 1}
    spoil_row(journal_url, waiting)
    assert [r.invocation_id for r in service.list_attention()] == [refused_too]
    assert {a.run_id for a in journal.attention()} == {"due", "waiting"}
    assert {r.invocation_id for r in journal.deliveries()} == {good, refused_too}
    assert service.retry_attention() == Pass(unknown=1)
    with refused("RUN_INTEGRITY_ERROR", "unreadable_record") as caught:
        service.retry(due)
    assert due in caught.value.message


def test_policy_of_the_service_is_asked_for_lost_attempts(
    journal: Journal, clock: SteppedClock
) -> None:
    """A sender that died: with a receiver that deduplicates it needs nobody."""
    invocation_id = end_run(journal, clock=clock)
    assert journal.delivery_ledger(owner="dead", clock=clock).attempt(invocation_id)
    receiver = Receiver()
    service = DeliveryService(
        journal, {"*": receiver}, DeliveryPolicy(retry_ambiguous=True), clock=clock
    )
    clock.advance(60)
    assert service.deliver_due() == Pass(unknown=1)
    clock.advance(1)
    assert service.deliver_due() == Pass(delivered=1)
    assert happened(journal, invocation_id) == [*ONCE[:2], "unknown", *ONCE[1:]]
