"""Sender: one attempt of a delivery. Claim, send, report; each on record before the next."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..domain.checks import readable
from ..domain.delivery import DeliveryRecord
from ..domain.delivery_ledger import Claimed, DeliveryLedger
from ..domain.delivery_store import DueDelivery
from ..domain.errors import (
    RUN_CONFLICT,
    RUN_INTEGRITY_ERROR,
    RUN_INVALID_TRANSITION,
    RUN_OUTCOME_UNKNOWN,
    RunStoreError,
)
from ..domain.gateway import (
    ANY_REF,
    DeliveryAmbiguous,
    DeliveryError,
    DeliveryFailed,
    DeliveryGateway,
    DeliveryRefused,
)
from .clocks import RandomIds, ticks
from .delivery_policy import DeliveryPolicy
from .logs import fields
from .masking import mask
from .telemetry.observer import SILENT, Observer

log = logging.getLogger("runjournal.delivery")
T = TypeVar("T")

#: Seconds: the first pause after the store failed, or when there is nothing to do.
FIRST_WAIT = 0.05
#: How much of an error is looked at: the search for credentials in it takes its time.
LOOKED_AT = 4000


class Sender:
    """Sends deliveries through their gateways. Called from several threads at once."""

    def __init__(
        self,
        ledger: DeliveryLedger,
        gateways: Mapping[str, DeliveryGateway],
        policy: DeliveryPolicy,
        observer: Observer = SILENT,
    ) -> None:
        self._ledger = ledger
        self._gateways = gateways
        self._policy = policy
        self._observer = observer

    def deliver(self, due: DueDelivery) -> str:
        """One attempt; what became of it, by the name of a field of Pass."""
        return self._setting_aside(due.invocation_id, lambda: self._deliver(due.invocation_id))

    def retry(self, due: DueDelivery, actor: str | None) -> str:
        """As `deliver`, at somebody's request."""
        return self._setting_aside(
            due.invocation_id, lambda: self.deliver_now(due.invocation_id, actor)
        )

    def deliver_now(self, invocation_id: str, actor: str | None) -> str:
        """As `retry`, and raises what `retry` sets aside."""
        # An attempt that nobody reported on is put on record before it is repeated.
        self._expire(invocation_id)
        return self._deliver(invocation_id, actor)

    # Inside.

    def _setting_aside(self, invocation_id: str, act: Callable[[], str]) -> str:
        try:
            return act()
        except RunStoreError as e:
            if e.code == RUN_INTEGRITY_ERROR or e.reason == "different_request":
                about = fields(error=e, invocation_id=invocation_id)
                log.error("delivery %s was set aside: %s", invocation_id, e, extra=about)
                self._ledger.set_aside(invocation_id, e.message)
                return "set_aside"
            if e.code == RUN_CONFLICT:
                return "skipped"
            raise

    def _deliver(self, invocation_id: str, actor: str | None = None) -> str:
        try:
            claimed = self._claim(invocation_id, actor)
        except RunStoreError as e:
            if e.code != RUN_INVALID_TRANSITION:
                raise
            self._expire(invocation_id)
            return "unknown"
        return "skipped" if claimed is None else self._send(claimed)

    def _expire(self, invocation_id: str) -> None:
        self._ledger.expire(
            invocation_id,
            lambda record: self._policy.next_attempt_at(record, self._ledger.now(), definite=False),
        )

    def _claim(self, invocation_id: str, actor: str | None) -> Claimed | None:
        """Claim an attempt. Once it may be ours, nobody else would send it, so ask patiently."""
        try:
            command_id = RandomIds().new()
            return self._ledger.attempt(invocation_id, actor, command_id=command_id)
        except RunStoreError as e:
            if e.code != RUN_OUTCOME_UNKNOWN:
                raise
        # Not for longer: half of the attempt's time is left for sending.
        return _patiently(
            lambda: self._ledger.attempt(invocation_id, actor, command_id=command_id, again=True),
            self._ledger.ttl / 2,
        )

    def _send(self, claimed: Claimed) -> str:
        record, request = claimed
        try:
            with self._observer.sending(record):
                self._gateway(record.delivery_ref).deliver(request)
        except Exception as error:  # noqa: BLE001 - whatever a gateway raises is its answer
            self._report_doubt(record, error)
            return "unknown"
        except BaseException:
            self._report_doubt(record, DeliveryAmbiguous("interrupted while sending"))
            raise
        self._report(record, lambda: self._ledger.succeeded(record))
        return "delivered"

    def _gateway(self, delivery_ref: str) -> DeliveryGateway:
        for name in (delivery_ref, ANY_REF):
            if name in self._gateways:
                return self._gateways[name]
        raise DeliveryFailed(f"no gateway is configured for {delivery_ref!r}")

    def _report_doubt(self, record: DeliveryRecord, error: Exception) -> None:
        definite = not _is_ambiguous(error)
        text = _told(error)
        log.warning(
            "delivery %s (%s): %s",
            record.invocation_id,
            record.delivery_ref,
            text,
            extra=fields(record, error, owner=self._ledger.owner),
        )

        def write() -> DeliveryRecord:
            due = None
            if not isinstance(error, DeliveryRefused):
                due = self._policy.next_attempt_at(
                    record,
                    self._ledger.now(),
                    definite=definite,
                    retry_after=_seconds(getattr(error, "retry_after", None)),
                )
            return self._ledger.doubted(record, text, definite=definite, next_attempt_at=due)

        self._report(record, write)

    def _report(self, record: DeliveryRecord, write: Callable[[], DeliveryRecord]) -> None:
        """Put an attempt's end on record, patiently: what was sent should not look unreported."""
        try:
            _patiently(write, self._ledger.ttl)
        except RunStoreError as error:
            about = fields(record, error, owner=self._ledger.owner)
            text = "delivery %s: its end is not on record: %s"
            log.error(text, record.invocation_id, error, extra=about)


def _patiently(act: Callable[[], T], seconds: float) -> T:
    """Do it, for so long again after a failure that may pass."""
    until, pause = ticks() + seconds, FIRST_WAIT
    while True:
        try:
            return act()
        except RunStoreError as error:
            if not error.retryable or ticks() + pause > until:
                raise
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(pause * 2, 5.0)


def _is_ambiguous(error: Exception) -> bool:
    """As the gateway port says: a broken connection may have come after the receiver had it."""
    if isinstance(error, DeliveryError):
        return isinstance(error, DeliveryAmbiguous)
    if isinstance(error, ConnectionRefusedError):
        return False
    return isinstance(error, TimeoutError | ConnectionError)


def _seconds(retry_after: Any) -> float:
    """What the receiver asked for; 0 for what is no number of seconds. The policy bounds it."""
    wants = isinstance(retry_after, int | float) and retry_after > 0
    return float(min(retry_after, 1e9)) if wants else 0.0


def _told(error: Exception) -> str:
    """What a gateway raised, as one line without credentials.

    The gateway is the host's, and what it raises may name an address with a password in it.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a foreign exception may not even have a text
        text = "its text cannot be had"
    if not isinstance(error, DeliveryError):
        text = f"{name}: {text}"
    if len(text) > LOOKED_AT:
        # The last word may be half of an address, which would not be known for one.
        text = text[:LOOKED_AT].rpartition(" ")[0] or text[:LOOKED_AT]
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in mask(text).strip())
    return readable(line or name)
