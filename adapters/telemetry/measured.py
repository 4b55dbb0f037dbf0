"""MeasuredStore: a store whose appends, claims and deliveries are measured on the way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any

from ...domain.delivery import DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.ports import Change, Granted, Granting, Guard, Reply
from ...domain.record import RunRecord
from . import names as n

if TYPE_CHECKING:
    from .telemetry import Telemetry

#: What the store says of an attempt, by the event that reports on it.
_REPORTS = ("delivery.succeeded", "delivery.unknown")


class MeasuredStore:
    """The RunStore port around another store; whatever is not measured is that store's.

    Only what every backend does through the port is measured here, so the rules and the backends
    know nothing of it. Spans are made once the answer is in: an idle worker's looks leave none.
    """

    def __init__(self, store: Any, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry
        # Asked for at every checkpoint: without a look through __getattr__.
        self.now = store.now
        self.get = store.get
        self.read = store.read
        self.renew = store.renew

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        began, ticks = time_ns(), perf_counter()
        try:
            reply: Reply | None = self._store.append(changes, guard, now, patience)
        except RunStoreError as e:
            self._appended(changes[0], "failed", began, ticks, error_type(e))
            raise
        self._appended(changes[0], "refused" if reply is None else "written", began, ticks)
        record = changes[0].record
        if reply is not None and guard is not None and isinstance(record, RunRecord):
            self._written_under(guard, changes[0], record)
        return reply

    def _appended(
        self, change: Change, outcome: str, began: int, ticks: float, error: str | None = None
    ) -> None:
        telemetry, topic = self._telemetry, change.events[-1].topic
        attributes = {n.TOPIC: topic, n.OUTCOME: outcome}
        if error is not None:
            attributes[n.ERROR_TYPE] = error
        telemetry.append_duration.record(perf_counter() - ticks, attributes)
        if outcome == "refused":
            telemetry.append_conflicts.add(1, {n.TOPIC: topic})
        record = change.record
        if telemetry.tracing and isinstance(record, RunRecord):
            told = {
                n.RUN_ID: record.run_id,
                n.KIND: record.kind,
                n.TOPIC: topic,
                n.VERSION: record.version,
                n.FENCING_TOKEN: record.fencing_token,
                n.OUTCOME: outcome,
            }
            telemetry.span(n.APPEND, began, told, error)

    def _written_under(self, guard: Guard, change: Change, record: RunRecord) -> None:
        ref = record.checkpoint_ref
        if ref is not None and ref.version == record.version:
            self._telemetry.checkpoint_size.record(ref.size, {n.KIND: record.kind})
        elif guard.lease == "expired" and record.lease is not None:
            self._telemetry.takeovers.add(1, {n.KIND: record.kind})

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        before: dict[str, tuple[RunRecord, datetime]] = {}

        def noted(record: RunRecord, instant: datetime) -> Sequence[Change]:
            before[record.run_id] = record, instant
            return grant(record, instant)

        began, ticks = time_ns(), perf_counter()
        try:
            granted: list[Granted] = self._store.claim(kinds, limit, noted, now)
        except RunStoreError as e:
            self._claimed([], began, ticks, error_type(e))
            raise
        self._claimed(granted, began, ticks)
        for record, _reply in granted:
            self._granted(*before[record.run_id])
        return granted

    def _claimed(
        self, granted: list[Granted], began: int, ticks: float, error: str | None = None
    ) -> None:
        attributes = {n.OUTCOME: "granted" if granted else "nothing"}
        if error is not None:
            attributes = {n.OUTCOME: "failed", n.ERROR_TYPE: error}
        self._telemetry.claim_duration.record(perf_counter() - ticks, attributes)
        if granted or error is not None:
            self._telemetry.span(n.CLAIM, began, {n.GRANTED: len(granted)}, error)

    def _granted(self, before: RunRecord, instant: datetime) -> None:
        kind = {n.KIND: before.kind}
        due = before.updated_at
        if before.lease is not None:
            due = before.lease.expires_at
            self._telemetry.takeovers.add(1, kind)
        elif before.available_at is not None:
            due = max(due, before.available_at)
        waited = max(0.0, (instant - due).total_seconds())
        self._telemetry.claim_latency.record(waited, kind)

    def advance_delivery(self, change: Change) -> bool:
        written = bool(self._store.advance_delivery(change))
        record, topic = change.record, change.events[-1].topic
        if written and topic in _REPORTS and isinstance(record, DeliveryRecord):
            outcome = "delivered"
            if topic == "delivery.unknown":
                outcome = "failed" if record.definite else "ambiguous"
            age = max(0.0, (record.updated_at - record.created_at).total_seconds())
            self._telemetry.delivery_attempts.add(1, {n.OUTCOME: outcome})
            self._telemetry.delivery_age.record(age, {n.OUTCOME: outcome})
        return written


def error_type(error: BaseException) -> str:
    """What failed, without its text: "CODE/reason" of ours, else the name of its type."""
    if isinstance(error, RunStoreError):
        return f"{error.code}/{error.reason}"
    return type(error).__qualname__
