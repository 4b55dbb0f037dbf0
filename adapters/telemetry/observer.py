"""Observer: where a journal tells of its work. This one listens to nothing and costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...domain.delivery import DeliveryRecord
    from ...domain.errors import RunStoreError
    from ...domain.lease import RunLeaseHandle
    from ...domain.record import RunRecord
    from ..journal import Journal


class Observer:
    """What a journal, its workers and its senders call; `Telemetry` is the one that listens."""

    #: Called with each loss of a lease of this process; None: nobody asks.
    on_loss: Callable[[RunStoreError], None] | None = None

    def measured(self, store: Any) -> Any:
        """The store to work with: this one, or one around it that is measured."""
        return store

    def watch(self, journal: Journal) -> None:
        """An open journal, whose projections may be looked at while it is open."""

    def handling(
        self, journal: Journal, lease: RunLeaseHandle
    ) -> AbstractContextManager[Callable[[RunRecord | None], None]]:
        """Around a worker's work on a run; what it gives is told the run's record afterwards."""
        return nullcontext(_nobody)

    def sending(self, record: DeliveryRecord) -> AbstractContextManager[None]:
        """Around the call of a delivery's gateway."""
        return nullcontext()


def _nobody(_record: RunRecord | None) -> None:
    pass


SILENT = Observer()
