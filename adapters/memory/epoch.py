"""The token epoch of a journal in memory."""

from __future__ import annotations

from functools import partial

from eventsourcing.persistence import IntegrityError
from eventsourcing.persistence import StoredEvent as LibraryEvent

from ...domain.ports import StoredEvent
from .deliveries import MemoryDeliveries
from .recorder import Commit, Tables


class MemoryEpoch(MemoryDeliveries):
    """What MemoryStore does for tokens that outlive a restore."""

    def __init__(self, tables: Tables | None = None) -> None:
        super().__init__(tables)
        self.epoch = 0

    def read_epoch(self) -> int:
        with self._open():
            return self.epoch

    def raise_epoch(self, epoch: int, event: StoredEvent, pass_over: int) -> bool:
        # Nobody can have seen more than what is in this memory: no position is passed over.
        with self._open():
            if epoch != self.epoch + 1:
                return False
            begin = partial(setattr, self, "epoch", epoch)
            try:
                self.tables.publish(Commit((LibraryEvent(*event),), None, (begin,)))
            except IntegrityError:
                return False
            return True
