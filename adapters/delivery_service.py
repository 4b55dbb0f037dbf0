"""DeliveryService: sends the results that wait in the outbox, each under its one invocation id.

An attempt is claimed, sent, and reported, each on record before the next begins. Whoever dies in
between leaves an attempt that nobody reports on: it becomes `unknown` when its time is over, and
is tried again under the same id when somebody asks, or by itself where the policy allows it.
Nothing here ever touches a run.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from ..domain.checks import check_integer, check_optional, check_seconds
from ..domain.delivery import DeliveryRecord, DeliveryStatus, delivery_invocation_id
from ..domain.delivery_store import DueDelivery
from ..domain.errors import RunStoreError
from ..domain.gateway import ANY_REF, DeliveryGateway
from ..domain.ports import Clock
from ..domain.record import RunRecord
from .clocks import ticks
from .delivery_policy import DeliveryPolicy
from .delivery_sender import FIRST_WAIT, Sender
from .journal import Journal
from .logs import fields
from .retrying import Pauses
from .stopping import Interrupt, idle

log = logging.getLogger("runjournal.delivery")

#: Seconds after which an attempt that failed was slow: its ref is left alone for the rest of the
#: pass, so that a receiver that hangs does not use up every sender.
SLOW = 5.0


class Pass(NamedTuple):
    """What one pass over the outbox did.

    delivered  how many have arrived
    unknown    how many were tried, or given up, and are not known to have arrived
    skipped    how many were left: somebody else's, or behind a receiver that hangs
    set_aside  how many could not be read, and are listed by `journal.attention()`
    """

    delivered: int = 0
    unknown: int = 0
    skipped: int = 0
    set_aside: int = 0


class DeliveryService:
    """Sends finished runs' results through the host's gateways.

    gateways     from delivery ref to gateway; "*" stands for every other ref
    policy       when to try again
    owner        who sends, in the journal; made up if not given
    attempt_ttl  seconds after which an attempt that nobody reported on is unknown: longer than any
                 gateway takes
    concurrency  how many are sent at once
    leave_others leave deliveries alone for which there is no gateway here, because another service
                 has it; otherwise they are tried, and say so
    clock        a callable giving an aware datetime that replaces the store's clock: tests

    Any number of services may work on one journal: nothing is sent by two at once.
    """

    def __init__(
        self,
        journal: Journal,
        gateways: Mapping[str, DeliveryGateway],
        policy: DeliveryPolicy | None = None,
        *,
        owner: str | None = None,
        attempt_ttl: float | timedelta = 60.0,
        concurrency: int = 4,
        leave_others: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._ledger = journal.delivery_ledger(
            owner=owner, attempt_ttl=check_seconds(attempt_ttl, "attempt_ttl"), clock=clock
        )
        self._sender = Sender(
            self._ledger, dict(gateways), policy or DeliveryPolicy(), journal.observer
        )
        self._concurrency = check_integer(concurrency, "concurrency", least=1, most=1000)
        self._refs = list(gateways) if leave_others and ANY_REF not in gateways else None

    # Sending.

    def deliver_due(self, limit: int = 100) -> Pass:
        """One pass: try up to `limit` deliveries that are due now.

        First attempts and repetitions share the pass, so that neither keeps the other waiting.
        Raises RunStoreError when the store fails.
        """
        return self._deliver_due(limit, threading.Event())

    def _deliver_due(self, limit: int, interrupt: Interrupt) -> Pass:
        check_integer(limit, "limit", least=1, most=10_000)
        done, left, hanging = Pass(), limit, set[str]()
        while left:
            known = len(hanging)
            chosen = self._due(left, hanging)
            part, behind = self._pass(chosen, self._sender.deliver, interrupt, hanging)
            done = _sum(done, part)
            # What is behind a receiver that hangs stays due: look past it for the others.
            left = behind if len(hanging) > known else 0
        return done

    def _due(self, limit: int, hanging: Collection[str]) -> list[DueDelivery]:
        new = self._ledger.due(DeliveryStatus.PENDING, limit, self._refs, list(hanging))
        again = self._ledger.due(DeliveryStatus.UNKNOWN, limit, self._refs, list(hanging))
        # Half of the pass for each; of an odd limit each gets the larger part now and then.
        room = max((limit + random.randrange(2)) // 2, limit - len(again))
        chosen = new[:room]
        return chosen + again[: limit - len(chosen)]

    def retry_attention(self, limit: int = 100, actor: str | None = None) -> Pass:
        """Try up to `limit` deliveries that wait for somebody's decision, under their own ids.

        Then, up to the limit, those that are due. `actor` is who asked for it, for the record.
        """
        check_integer(limit, "limit", least=1, most=10_000)
        check_optional(actor, "actor")
        chosen = list(islice(self._waiting(limit), limit))
        done, _ = self._pass(
            chosen, lambda due: self._sender.retry(due, actor), threading.Event(), set()
        )
        left = limit - len(chosen)
        return _sum(done, self.deliver_due(left)) if left else done

    def _waiting(self, page: int) -> Iterator[DueDelivery]:
        """What waits for somebody's decision, without what is left to others."""
        after = None
        while found := self._ledger.attention(page, after):
            for record in found:
                if self._is_ours(record):
                    yield DueDelivery(record.invocation_id, record.delivery_ref)
            after = found[-1].invocation_id

    def _is_ours(self, record: DeliveryRecord) -> bool:
        return self._refs is None or record.delivery_ref in self._refs

    def retry(self, invocation_id: str, actor: str | None = None) -> DeliveryRecord:
        """Try this delivery now, unless it is delivered or being sent; its record afterwards.

        Raises RUN_NOT_FOUND / delivery. Raises RUN_INTEGRITY_ERROR, or RUN_CONFLICT /
        different_request, for one that cannot be sent.
        """
        self._sender.deliver_now(invocation_id, check_optional(actor, "actor"))
        return self._ledger.get(invocation_id)

    def deliver_run(self, record: RunRecord) -> DeliveryRecord | None:
        """Try the delivery of a run that has ended, unless it was tried already."""
        if record.delivery_ref is None or not record.is_terminal:
            return None
        invocation_id = delivery_invocation_id(record.run_id, record.delivery_ref)
        delivery = self._ledger.get(invocation_id)
        if self._is_ours(delivery) and delivery.attempts == 0:
            self._sender.deliver(DueDelivery(invocation_id, delivery.delivery_ref))
            delivery = self._ledger.get(invocation_id)
        return delivery

    def list_attention(self, limit: int = 100, after: str | None = None) -> list[DeliveryRecord]:
        """Deliveries that are not known to have arrived and will not be tried again by themselves.

        In the order of their ids; `after` is the id that the last page ended with.
        """
        check_integer(limit, "limit", least=1, most=10_000)
        return self._ledger.attention(limit, after)

    def run(self, interrupt: Interrupt, *, limit: int = 100, poll: float = 1.0) -> None:
        """Deliver until `interrupt` is set: the loop of a process of its own.

        poll  seconds between two looks when there is nothing to do, at most

        A store that is away for a while does not end it. What is being sent is waited for.
        """
        longest = check_seconds(poll, "poll")
        pauses = Pauses(min(FIRST_WAIT, longest), longest)
        while not interrupt.is_set():
            try:
                done = self._deliver_due(limit, interrupt)
            except RunStoreError as error:
                if not error.retryable:
                    raise
                log.warning("delivering failed and goes on: %s", error, extra=fields(error=error))
                done = Pass()
            if done.delivered + done.unknown:
                pauses.reset()
            idle(interrupt, pauses.next())

    # Inside.

    def _pass(
        self,
        chosen: Sequence[DueDelivery],
        act: Callable[[DueDelivery], str],
        interrupt: Interrupt,
        hanging: set[str],
    ) -> tuple[Pass, int]:
        """Let the senders take one after the other; no receiver gets them all at first.

        Adds the refs that turn out to hang; also gives how many were skipped because of that.
        """
        failed = threading.Event()

        def one(due: DueDelivery) -> str:
            if failed.is_set() or interrupt.is_set():
                return "skipped"
            if due.delivery_ref in hanging:
                return "behind"
            begun = ticks()
            try:
                outcome = act(due)
            except BaseException:
                failed.set()
                raise
            if outcome == "unknown" and ticks() - begun > SLOW:
                hanging.add(due.delivery_ref)
            return outcome

        if not chosen:
            return Pass(), 0
        with ThreadPoolExecutor(
            min(self._concurrency, len(chosen)), thread_name_prefix="runjournal-delivery"
        ) as senders:
            try:
                outcomes = Counter(senders.map(one, _in_turns(chosen)))
            except BaseException:  # also an interrupt that came while they were waited for
                failed.set()
                raise
        behind = outcomes["behind"]
        outcomes["skipped"] += behind
        return Pass(*(outcomes[name] for name in Pass._fields)), behind


def _sum(one: Pass, other: Pass) -> Pass:
    return Pass(*(a + b for a, b in zip(one, other, strict=True)))


def _in_turns(chosen: Sequence[DueDelivery]) -> Iterator[DueDelivery]:
    """One of each ref, then the next of each."""
    by_ref: dict[str, list[DueDelivery]] = {}
    for due in chosen:
        by_ref.setdefault(due.delivery_ref, []).append(due)
    rounds = zip_longest(*by_ref.values())
    return (due for due in chain.from_iterable(rounds) if due is not None)
