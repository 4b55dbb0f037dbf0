"""Stores that write wrongly in one way each, as `broken_stores` has them.

Not collected by itself: these classes are meant to fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from runjournal.adapters.contract import EpochContract, RunStoreContract
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain import RunLifecycleStatus, RunRecord
from runjournal.domain.ports import Change, Guard, Reply, StoredEvent
from runjournal.domain.tokens import is_of

from .enrolling import enrol


class WritesTwice(MemoryStore):
    """Takes a reply for lost, and writes again at the version that it finds."""

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        reply = super()._append(changes, guard, instant)
        if reply is not None:
            super()._append([moved(self, change) for change in changes], None, instant)
        return reply


class WritesWhateverComes(MemoryStore):
    """Looks at neither the version nor the lease."""

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        return super()._append([moved(self, change) for change in changes], None, instant)


class WritesTheLastEventOnly(MemoryStore):
    """Takes an append for one event."""

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        last = [change._replace(events=change.events[-1:]) for change in changes]
        return super()._append(last, guard, instant)


class JudgesTheNewRow(MemoryStore):
    """Looks for the lease in what is being written: at an end there is none any more."""

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        record = changes[0].record
        if guard is not None and isinstance(record, RunRecord) and record.lease is None:
            return None
        return super()._append(changes, guard, instant)


class KeepsDeadlines(MemoryStore):
    """Leaves the deadline of a lease where it is when the lease ends."""

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        record = changes[0].record
        assert isinstance(record, RunRecord)
        row = self.rows.get(record.run_id)
        reply = super()._append(changes, guard, instant)
        if row is None or reply is None or record.lease is not None:
            return reply
        if record.status is not RunLifecycleStatus.QUEUED:
            self.rows[record.run_id].ready_at = row.ready_at
        return reply._replace(deadline=row.ready_at)


class RefusesNewTokens(MemoryStore):
    """Takes a token that is new and of an earlier epoch for a grant, whoever writes it."""

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        record = changes[0].record
        assert isinstance(record, RunRecord)
        row = self.rows.get(record.run_id)
        is_new = row is not None and row.record.fencing_token != record.fencing_token
        if is_new and not is_of(record.fencing_token, self.epoch):
            return None
        return super()._append(changes, guard, instant)


class RefusesEarlierTokens(MemoryStore):
    """Lets nobody write whose token is of an earlier epoch."""

    def _append(
        self, changes: Sequence[Change], guard: Guard | None, instant: datetime
    ) -> Reply | None:
        record = changes[0].record
        assert isinstance(record, RunRecord)
        if record.lease is not None and not is_of(record.fencing_token, self.epoch):
            return None
        return super()._append(changes, guard, instant)


class RaisesToTheNextEpoch(MemoryStore):
    """Begins the next epoch, whichever was asked for."""

    def raise_epoch(self, epoch: int, event: StoredEvent, pass_over: int) -> bool:
        return super().raise_epoch(self.epoch + 1, event, pass_over)


def moved(store: MemoryStore, change: Change) -> Change:
    """The change as one at the version where its stream is by now."""
    stored = store.read(change.stream)
    last = stored[-1].version if stored else 0
    by = last - change.expected_version
    record = change.record.model_copy(update={"version": change.record.version + by})
    events = tuple(e._replace(version=e.version + by) for e in change.events)
    return Change(change.stream, last, events, record)


class BrokenContract(RunStoreContract, EpochContract):
    """The contract on one of the stores above."""

    store_class: ClassVar[type[MemoryStore]]

    def make_store(self, tmp_path: Path) -> Any:
        return self.store_class()


enrol(globals(), BrokenContract, MemoryStore)
