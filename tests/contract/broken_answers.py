"""Stores that answer wrongly in one way each, as `broken_stores` has them.

Not collected by itself: these classes are meant to fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from runjournal import RunStoreError
from runjournal.adapters.contract import Between, RunStoreContract
from runjournal.adapters.contract.scribe import START
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain import RunRecord
from runjournal.domain.delivery_store import DeliveryReading
from runjournal.domain.ports import (
    Change,
    Granted,
    Granting,
    Guard,
    LeaseRef,
    Reading,
    Reply,
    RunStore,
    StoredEvent,
)

from .enrolling import enrol

INSTANT = timedelta(microseconds=1)


class ReadsFromAReplica(Between):
    """Answers with what a run was before its last append."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self._before: dict[str, RunRecord | None] = {}

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        run_id = changes[0].stream.removeprefix("run/")
        before = self.store.get(run_id, now).record
        reply = super().append(changes, guard, now, patience)
        if reply is not None:
            self._before[run_id] = before
        return reply

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        record, read_at = super().get(run_id, now)
        return Reading(self._before.get(run_id, record), read_at)


class ForgetsWhoHolds(Between):
    """Keeps no lease."""

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        record, read_at = super().get(run_id, now)
        return Reading(record and record.model_copy(update={"lease": None}), read_at)


class TellsDeadlinesLate(Between):
    """Rounds deadlines up to the next second."""

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        record, read_at = super().get(run_id, now)
        if record is not None and record.lease is not None:
            later = record.lease.expires_at.replace(microsecond=0) + timedelta(seconds=1)
            record = record.with_deadline(later)
        return Reading(record, read_at)


class TakesUnknownForDamaged(Between):
    """Says that what was never there cannot be read."""

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        reading = super().get(run_id, now)
        return reading if reading.record else self._refuse(run_id)

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        reading = super().get_delivery(invocation_id, now)
        return reading if reading.record else self._refuse(invocation_id)

    def _refuse(self, name: str) -> Any:
        raise RunStoreError("RUN_INTEGRITY_ERROR", "unreadable_record", f"{name} is damaged")


class IgnoresTheStream(Between):
    """Reads whatever is in the journal."""

    store: Any

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        return list(self.store.walk(("", 0), 1000))


class BuriesTheLiving(Between):
    """Answers for a run that is there as if it had been pruned."""

    def buried(self, run_id: str) -> RunRecord | None:
        return self.store.get(run_id).record


class TellsAnotherTime(Between):
    """Judges by another clock than the one that it tells."""

    def now(self) -> datetime:
        return START


class ClaimsLate(Between):
    """Takes a run for due after its instant, where it is due from it on."""

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        return super().claim(kinds, limit, grant, now and now - INSTANT)


class RenewsWhatNobodyHolds(Between):
    """Answers each renewal, whoever holds the run."""

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        answer = super().renew(leases, now)
        instant = now or self.now()
        for lease in leases:
            until = instant + timedelta(seconds=lease.ttl)
            answer.setdefault(lease.run_id, Reply(instant, until, True))
        return answer


class ReachesEverywhere(Between):
    """Declares an atomicity that nobody knows."""

    atomicity: Any = "everywhere"


class ClosesOnce(Between):
    """Cannot be closed again."""

    def close(self) -> None:
        if "close" in self.calls:
            raise RunStoreError("RUN_VALIDATION_ERROR", "closed", "it is closed already")
        self.calls.append("close")


class BrokenContract(RunStoreContract):
    """The contract on one of the stores above, around a sound one."""

    store_class: ClassVar[type[Between]]

    def make_store(self, tmp_path: Path) -> Any:
        return self.store_class(MemoryStore())


enrol(globals(), BrokenContract, Between)
