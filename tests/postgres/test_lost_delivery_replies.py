"""Requests and replies of deliveries that are lost, at each step: one event each, sent once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from runjournal import (
    DeliveryFailed,
    DeliveryPolicy,
    DeliveryRequest,
    DeliveryService,
    Journal,
    open_journal,
)
from runjournal.adapters.delivery_service import Pass

from ..receivers import Receiver, end_run, happened, row
from .proxy import Lost, Proxy

#: What failed does not come back within the test.
SELDOM = DeliveryPolicy(first_pause=1e5, longest_pause=1e5)
#: More round trips than a delivery has.
MOST_STEPS = 20


@pytest.fixture
def direct(postgres_url: str) -> Iterator[Journal]:
    with open_journal(postgres_url) as journal:
        yield journal


@pytest.fixture
def lossy(proxy: Proxy) -> Iterator[Journal]:
    with open_journal(proxy.url) as journal:
        yield journal
        proxy.lose_nothing()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("what", "times"), [("request", 1), ("reply", 1), ("reply", 2)])
@pytest.mark.parametrize("end", ["succeeded", "unknown"])
def test_each_step_of_a_delivery(
    direct: Journal, lossy: Journal, proxy: Proxy, what: Lost, times: int, end: str
) -> None:
    """The first round trip is lost, then the second one, until all of a delivery's were."""
    recorded: list[list[str]] = []

    def answer(request: DeliveryRequest) -> None:
        recorded.append(happened(direct, request.invocation_id))
        if end == "unknown":
            raise DeliveryFailed("no")

    receiver = Receiver(answer)
    service = DeliveryService(lossy, {"*": receiver}, SELDOM, concurrency=1)
    for step in range(MOST_STEPS):
        invocation_id = end_run(direct, f"run-{step}")
        proxy.lose(what, after=step, times=times)
        before = proxy.lost
        done = service.deliver_due()
        proxy.lose_nothing()
        assert done == (Pass(delivered=1) if end == "succeeded" else Pass(unknown=1))
        # Sent once, and not before the attempt was on record; each thing is on record once.
        assert receiver.times[invocation_id] == 1
        assert recorded[-1] == ["requested", "attempted"]
        assert happened(direct, invocation_id) == ["requested", "attempted", end]
        assert row(direct, invocation_id).attempts == 1
        if proxy.lost == before:
            break
    else:
        pytest.fail("a delivery goes round in circles")
    assert step >= 6, "each trip of the claim and of the report was lost once"
