"""The gateway port: what sends a finished run's result to whoever waits for it.

    DeliveryError
      DeliveryFailed      the receiver surely does not have it; it is tried again by itself
      DeliveryRefused     the receiver surely does not want it; it waits for somebody's decision
      DeliveryAmbiguous   it may have arrived; it waits for somebody's decision unless the policy
                          says otherwise

A gateway that returns has delivered. Any other exception is a failure of the gateway's own, taken
for DeliveryFailed; but a connection that broke or a time-out may have come after the receiver had
it, so TimeoutError and ConnectionError are ambiguous, except ConnectionRefusedError.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol


class DeliveryError(Exception):
    """What a gateway raises when it has not, or may not have, delivered.

    The text is kept in the journal: it must not hold credentials.
    """


class DeliveryFailed(DeliveryError):  # noqa: N818 - named after what is then known
    """Not received. `retry_after` is how many seconds the receiver asked to be left alone."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeliveryRefused(DeliveryError):  # noqa: N818
    """Not received, and the same request never will be."""


class DeliveryAmbiguous(DeliveryError):  # noqa: N818
    """Sent, and no answer came: it may have been received."""


#: Stands for every delivery_ref that has no gateway of its own.
ANY_REF: Final = "*"


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """One result to deliver: the same in every attempt, however late.

    invocation_id  what the receiver deduplicates by
    delivery_ref   the host's name for where it goes
    status         completed, failed or cancelled
    code, message  the run's outcome
    result         the run's JSON result; None unless it completed with one
    ended_at       when the run ended, by the store's clock
    """

    invocation_id: str
    run_id: str
    delivery_ref: str
    kind: str
    status: str
    code: str
    message: str | None
    result: Any
    ended_at: datetime

    def as_json(self) -> dict[str, Any]:
        """What gateways send, as a JSON value."""
        return {
            "schema": "runjournal.delivery.v1",
            "invocationId": self.invocation_id,
            "runId": self.run_id,
            "deliveryRef": self.delivery_ref,
            "kind": self.kind,
            "status": self.status,
            "outcome": {"code": self.code, "message": self.message},
            "result": self.result,
            "endedAt": self.ended_at.isoformat(),
        }


class DeliveryGateway(Protocol):
    """Sends results to one kind of receiver. Called from several threads at once."""

    def deliver(self, request: DeliveryRequest) -> None:
        """Deliver, or raise as the module says. Must end well within the attempt's lease."""
        ...
