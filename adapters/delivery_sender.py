"""Sender: one attempt of a delivery. Claim, send, report; each on record before the next."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping

from ..domain.delivery import DeliveryRecord
from ..domain.delivery_ledger import Claimed, DeliveryLedger
from ..domain.delivery_store import DueDelivery
from ..domain.errors import (
    RUN_CONFLICT,
    RUN_INTEGRITY_ERROR,
    RUN_INVALID_TRANSITION,
    RunStoreError,
)
from ..domain.gateway import (
    DeliveryAmbiguous,
    DeliveryError,
    DeliveryFailed,
    DeliveryGateway,
    DeliveryRefused,
)
from .clocks import ticks
from .delivery_policy import DeliveryPolicy
from .masking import mask

log = logging.getLogger("runjournal.delivery")

#: The gateway for every ref that has none of its own.
ANY_REF = "*"
#: Seconds: the first pause after the store failed, or when there is nothing to do.
FIRST_WAIT = 0.05


class Sender:
    """Sends deliveries through their gateways. Called from several threads at once."""

    def __init__(
        self,
        ledger: DeliveryLedger,
        gateways: Mapping[str, DeliveryGateway],
        policy: DeliveryPolicy,
    ) -> None:
        self._ledger = ledger
        self._gateways = gateways
        self._policy = policy

    def deliver(self, due: DueDelivery, actor: str | None = None) -> str:
        """One attempt; what became of it, by the name of a field of Pass."""
        try:
            claimed = self._ledger.attempt(due.invocation_id, actor)
        except RunStoreError as e:
            if e.code == RUN_INVALID_TRANSITION:
                self.expire(due.invocation_id)
                return "unknown"
            if e.code == RUN_INTEGRITY_ERROR or e.reason == "different_request":
                log.error("delivery %s was set aside: %s", due.invocation_id, e)
                self._ledger.set_aside(due.invocation_id, e.message)
                return "set_aside"
            if e.code == RUN_CONFLICT:
                return "skipped"
            raise
        return "skipped" if claimed is None else self._send(claimed)

    def expire(self, invocation_id: str) -> None:
        self._ledger.expire(
            invocation_id,
            lambda record: self._policy.next_attempt_at(record, self._ledger.now(), definite=False),
        )

    def _send(self, claimed: Claimed) -> str:
        record, request = claimed
        gateway = self._gateways.get(record.delivery_ref) or self._gateways.get(ANY_REF)
        try:
            if gateway is None:
                raise DeliveryFailed(f"no gateway is configured for {record.delivery_ref!r}")
            gateway.deliver(request)
        except Exception as error:  # noqa: BLE001 - whatever a gateway raises is its answer
            self._report_doubt(record, error)
            return "unknown"
        except BaseException:
            self._report_doubt(record, DeliveryAmbiguous("interrupted while sending"))
            raise
        self._report(record, lambda: self._ledger.succeeded(record))
        return "delivered"

    def _report_doubt(self, record: DeliveryRecord, error: Exception) -> None:
        definite = not _is_ambiguous(error)
        retry_after = getattr(error, "retry_after", None) or 0.0
        due = None
        if not isinstance(error, DeliveryRefused):
            due = self._policy.next_attempt_at(
                record, self._ledger.now(), definite=definite, retry_after=retry_after
            )
        said = isinstance(error, DeliveryError)
        # The gateway is the host's, and what it raises may name an address with a password in it.
        text = mask(str(error) if said else f"{type(error).__name__}: {error}")
        log.warning("delivery %s (%s): %s", record.invocation_id, record.delivery_ref, text)
        self._report(
            record,
            lambda: self._ledger.doubted(record, text, definite=definite, next_attempt_at=due),
        )

    def _report(self, record: DeliveryRecord, write: Callable[[], object]) -> None:
        """Put an attempt's end on record, patiently: what was sent should not look unreported."""
        sending = record.sending
        left = (sending.expires_at - sending.started_at).total_seconds() if sending else 0.0
        until, pause = ticks() + left, FIRST_WAIT
        while True:
            try:
                write()
                return
            except RunStoreError as error:
                if not error.retryable or ticks() + pause > until:
                    log.error(
                        "delivery %s: its end is not on record: %s", record.invocation_id, error
                    )
                    return
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, 5.0)


def _is_ambiguous(error: Exception) -> bool:
    """As the gateway port says: a broken connection may have come after the receiver had it."""
    if isinstance(error, DeliveryError):
        return isinstance(error, DeliveryAmbiguous)
    if isinstance(error, ConnectionRefusedError):
        return False
    return isinstance(error, TimeoutError | ConnectionError)
