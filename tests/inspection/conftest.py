"""A journal in every state that there is, so that counting it by hand gives something each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from runjournal import CallableGateway, DeliveryFailed, DeliveryRefused, DeliveryService, Journal
from runjournal.adapters.contract.tools import SteppedClock

Fill = Callable[[Journal], None]


@pytest.fixture
def fill() -> Fill:
    """Writes runs of every status and deliveries of every kind; most of it is an hour old."""

    def write(journal: Journal) -> None:
        clock = SteppedClock()
        clock.now = journal.store.now()
        clock.advance(-3600)
        ledger = journal.ledger("host", lease_ttl=60, clock=clock)
        for n, kind in enumerate(("a", "a", "b")):
            ledger.start(f"queued-{n}", kind=kind)
            clock.advance(1)
        ledger.start("later", kind="b", available_at=clock.advance(7200))
        clock.advance(-7200)
        for n in range(2):
            ledger.acquire(f"abandoned-{n}", heartbeat=False)
            clock.advance(60)
        journal.ledger("host").acquire("held", heartbeat=False)
        ledger.acquire("suspended", heartbeat=False).suspend()
        ledger.start("aside", kind="b")
        journal.store.set_aside("aside", "cannot be read")
        ledger.acquire("failed", heartbeat=False).fail("broken")
        answers: dict[str, Any] = {
            "good": None,
            "later": DeliveryFailed("no"),
            "never": DeliveryRefused("no"),
        }
        for ref in [*answers, "pending"]:
            ledger.start(f"sent-{ref}", kind="c", delivery_ref=ref)
            ledger.acquire(f"sent-{ref}", heartbeat=False).complete()
            clock.advance(10)

        def answer(request: Any) -> None:
            if (error := answers[request.delivery_ref]) is not None:
                raise error

        gateways = dict.fromkeys(answers, CallableGateway(answer))
        DeliveryService(journal, gateways, leave_others=True, clock=clock).deliver_due()

    return write
