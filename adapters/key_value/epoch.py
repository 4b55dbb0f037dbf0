"""The token epoch of a journal in a Space."""

from __future__ import annotations

from ...domain.history_store import HistoryStore
from ...domain.ports import StoredEvent
from .events import last_version, pass_over, put_event
from .space import InSpace, Space, number_in


class KeyValueEpoch(InSpace, HistoryStore):
    """What KeyValueStore does for tokens that outlive a restore."""

    _epoch: int | None = None

    @property
    def epoch(self) -> int:
        return self.read_epoch() if self._epoch is None else self._epoch

    def read_epoch(self) -> int:
        with self._within() as space:
            return self._epoch_in(space)

    def raise_epoch(self, epoch: int, event: StoredEvent, pass_over: int) -> bool:
        with self._within() as space:
            if epoch != self._epoch_in(space) + 1:
                return False
            if last_version(space, event.stream) != event.version - 1:
                return False
            _begin(space, epoch, event, pass_over)
        self._epoch = epoch
        return True

    def _epoch_in(self, space: Space) -> int:
        self._epoch = number_in(space, "epoch")
        return self._epoch


def _begin(space: Space, epoch: int, event: StoredEvent, positions: int) -> None:
    pass_over(space, positions)
    put_event(space, event)
    space.put("epoch", b"%d" % epoch)
