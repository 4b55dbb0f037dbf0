"""DeliveryLedger: claims the attempts of deliveries, and records what became of them.

It sends nothing. Whoever sends asks for an attempt, sends under its invocation id, and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from . import delivering as d
from .checks import check_identifier, check_optional, check_seconds, check_text, readable
from .delivery import (
    DeliveryRecord,
    DeliveryStatus,
    delivery_stream,
    evolve_delivery,
)
from .delivery_store import DueDelivery
from .errors import (
    RUN_CONFLICT,
    RUN_INTEGRITY_ERROR,
    RUN_NOT_FOUND,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RunStoreError,
)
from .events import TERMINAL_EVENTS, Event, run_stream
from .gateway import DeliveryRequest
from .ports import Change, Clock, Ids, PayloadCodec, RunStore, SealedEvent
from .status import RunLifecycleStatus
from .unsettled import DECIDE_TRIES, SETTLE_TRIES

_STATUS = {
    "run.completed": RunLifecycleStatus.COMPLETED,
    "run.failed": RunLifecycleStatus.FAILED,
    "run.cancelled": RunLifecycleStatus.CANCELLED,
}


class Claimed(NamedTuple):
    """An attempt that is ours: the row after claiming it, and what to send."""

    record: DeliveryRecord
    request: DeliveryRequest


class DeliveryLedger:
    """The outbox of one journal, as one sender sees it.

    owner  who sends; two live processes must never share one
    ttl    seconds after which an attempt that nobody reported on is taken for unknown

    Every method may raise RUN_STORE_UNAVAILABLE, and RUN_INTEGRITY_ERROR for what cannot be read.
    """

    def __init__(
        self,
        store: RunStore,
        codec: PayloadCodec,
        ids: Ids,
        *,
        owner: str,
        ttl: float,
        clock: Clock | None = None,
    ) -> None:
        self.owner = check_identifier(owner, "owner")
        self.ttl = check_seconds(ttl, "ttl")
        self._store = store
        self._codec = codec
        self._ids = ids
        self._clock = clock

    # Reading.

    def get(self, invocation_id: str) -> DeliveryRecord:
        """The delivery's record. Raises RUN_NOT_FOUND / delivery."""
        return self._read(check_identifier(invocation_id, "invocation id"))[0]

    def due(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        """The deliveries with this status that are due now, longest due first.

        refs, but  only those with one of these delivery refs, and none with one of those
        """
        given = self._clock() if self._clock else None
        return self._store.due_deliveries(status, limit, refs, given, but)

    def attention(self, limit: int, after: str | None = None) -> list[DeliveryRecord]:
        """Those that wait for somebody's decision, in the order of their ids."""
        return self._store.deliveries(attention=True, limit=limit, after=after)

    def now(self) -> datetime:
        """The store's instant, for what is to happen later."""
        return self._clock() if self._clock else self._store.now()

    # Writing.

    def attempt(
        self,
        invocation_id: str,
        actor: str | None = None,
        *,
        command_id: str | None = None,
        again: bool = False,
    ) -> Claimed | None:
        """Claim the next attempt; None if it is delivered already, or being sent by another.

        again  whether it was asked for already under this command id, without a clear answer

        Only what is returned may be sent. Raises RUN_INVALID_TRANSITION / unreported: see `expire`.
        Raises RUN_CONFLICT / different_request when the run's end is no longer what the delivery
        was requested for. Raises RUN_OUTCOME_UNKNOWN / reply_lost when it may have been claimed.
        """
        record = self.get(invocation_id)
        if record.status is DeliveryStatus.DELIVERED:
            return None  # whatever has become of the run's events since
        # Read before it is claimed: what cannot be sent is not counted as an attempt.
        request = self._request(record)
        command = d.Attempt(
            command_id=command_id or self._ids.new(),
            actor=check_optional(actor, "actor"),
            owner=self.owner,
            ttl=self.ttl,
        )
        try:
            record, written = self._perform(invocation_id, command, maybe_written=again)
        except RunStoreError as e:
            if (e.code, e.reason) == ("RUN_LEASE_HELD", "held"):
                return None
            raise
        return Claimed(record, request) if written else None

    def succeeded(self, claimed: DeliveryRecord) -> DeliveryRecord:
        """The receiver has what was sent in this attempt."""
        command = d.Succeed(command_id=self._ids.new(), attempt=claimed.attempts)
        return self._perform(claimed.invocation_id, command)[0]

    def doubted(
        self,
        claimed: DeliveryRecord,
        error: str,
        *,
        definite: bool,
        next_attempt_at: datetime | None,
    ) -> DeliveryRecord:
        """The attempt failed, or nobody knows; nothing changes if that is on record already.

        error            what happened, for people: cut and escaped, and without credentials
        definite         the receiver surely does not have it
        next_attempt_at  when it is to be tried again; None: when somebody asks
        """
        command = d.Doubt(
            command_id=self._ids.new(),
            attempt=claimed.attempts,
            error=readable(error),
            definite=definite,
            next_attempt_at=next_attempt_at,
        )
        return self._perform(claimed.invocation_id, command)[0]

    def expire(
        self, invocation_id: str, next_attempt_at: Callable[[DeliveryRecord], datetime | None]
    ) -> DeliveryRecord:
        """Put an attempt whose sender never reported on record as unknown; else change nothing."""
        record, now = self._read(check_identifier(invocation_id, "invocation id"))
        if record.sending is None or now < record.sending.expires_at:
            return record
        error = f"{record.sending.owner} did not report before {record.sending.expires_at}"
        return self.doubted(record, error, definite=False, next_attempt_at=next_attempt_at(record))

    def set_aside(self, invocation_id: str, reason: str) -> None:
        """Take a delivery whose row or events cannot be read out of what is due."""
        self._store.set_aside_delivery(invocation_id, check_text(reason, "reason") or "")

    # Inside.

    def _read(self, invocation_id: str) -> tuple[DeliveryRecord, datetime]:
        given = self._clock() if self._clock else None
        record, now = self._store.get_delivery(invocation_id, given)
        if record is None:
            raise RunStoreError(
                RUN_NOT_FOUND, "delivery", f"there is no delivery {invocation_id!r}"
            )
        return record, now

    def _perform(
        self, invocation_id: str, command: d.DeliveryCommand, maybe_written: bool = False
    ) -> tuple[DeliveryRecord, bool]:
        """gather -> decide -> append; the record, and whether this command's is its last event."""
        lost = int(maybe_written)
        try:
            for _ in range(DECIDE_TRIES):
                record, now = self._read(invocation_id)
                if lost and self._wrote(command, record, now):
                    return record, True
                events = d.decide_delivery(record, command, now)
                if not events:
                    return record, False
                change, after = self._change(record, events)
                try:
                    if self._store.advance_delivery(change):
                        return after, True
                except RunStoreError as e:
                    # The reply was lost: look for it, and if it is not there write it again.
                    if e.code != RUN_OUTCOME_UNKNOWN or lost == SETTLE_TRIES:
                        raise
                    lost += 1
        except RunStoreError as e:
            # Once a write may have landed, a store that is away says nothing about it.
            if lost and e.code == RUN_STORE_UNAVAILABLE:
                raise RunStoreError(
                    RUN_OUTCOME_UNKNOWN,
                    "reply_lost",
                    f"delivery {invocation_id}: whether it was written is not known: {e}",
                ) from e
            raise
        raise RunStoreError(
            RUN_CONFLICT,
            "contended",
            f"delivery {invocation_id}: other writers were first {DECIDE_TRIES} times",
        )

    def _wrote(self, command: d.DeliveryCommand, record: DeliveryRecord, now: datetime) -> bool:
        """Whether the command's event is the last one, and what it claimed has not run out.

        What others wrote after it counts: an attempt that was given up meanwhile is not ours.
        """
        if record.sending is not None and now >= record.sending.expires_at:
            return False
        last = self._event(delivery_stream(record.invocation_id), record.version)
        return last is not None and last.command_id == command.command_id

    def _change(
        self, record: DeliveryRecord, events: Sequence[Event]
    ) -> tuple[Change, DeliveryRecord]:
        after, sealed = record, list[SealedEvent]()
        for event in events:
            stored = self._codec.seal(event, after.head)
            after = evolve_delivery(after, event, stored.hash)
            sealed.append(stored)
        change = Change(sealed[0].stream, record.version, tuple(sealed), after, record.head)
        return change, after

    def _request(self, record: DeliveryRecord) -> DeliveryRequest:
        """What to send, from the run's last event."""
        stream = run_stream(record.run_id)
        ended = self._event(stream, record.terminal_version)
        if not isinstance(ended, TERMINAL_EVENTS):
            raise RunStoreError(
                RUN_INTEGRITY_ERROR,
                "unreadable_record",
                f"delivery {record.invocation_id}: run {record.run_id!r} has no end at version "
                f"{record.terminal_version}",
            )
        if ended.hash != record.terminal_hash:
            raise RunStoreError(
                RUN_CONFLICT,
                "different_request",
                f"delivery {record.invocation_id}: the end of run {record.run_id!r} is not the "
                f"one it was requested for",
            )
        return DeliveryRequest(
            invocation_id=record.invocation_id,
            run_id=record.run_id,
            delivery_ref=record.delivery_ref,
            kind=record.kind,
            status=_STATUS[ended.topic].value,
            code=ended.outcome.code,
            message=ended.outcome.message,
            result=getattr(ended, "result", None),
            ended_at=ended.timestamp,
        )

    def _event(self, stream: str, version: int) -> Event | None:
        found = self._store.read(stream, version - 1, 1)
        return self._codec.open(found[0]) if found and found[0].version == version else None
