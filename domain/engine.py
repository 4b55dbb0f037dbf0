"""Engine: gather -> decide -> append, for the ledger and for the holders of its leases.

perform   for whoever asks from outside: read the record, decide, write at that version; losing
          the version means that somebody else was first, so decide again on what is true now
commit    one write of decided events; a holder calls it directly and never decides again
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from . import commands as c
from .chain import GENESIS
from .checks import check_time
from .decide import decide
from .delivery import evolve_delivery, request_delivery
from .errors import RUN_INTEGRITY_ERROR, RUN_OUTCOME_UNKNOWN, RunStoreError
from .events import CheckpointSaved, Event, Payload, RunEvent, RunQueued, run_stream
from .limits import DeploymentLimits
from .ports import (
    Authorizer,
    Change,
    Clock,
    Guard,
    Ids,
    LeaseRef,
    Lock,
    PayloadCodec,
    Reading,
    Reply,
    RunStore,
    SealedEvent,
    StoredEvent,
    Ticks,
)
from .record import RunRecord
from .refusals import missing, pruned
from .run import evolve
from .unsettled import DECIDE_TRIES, Unsettled, contended

#: Events read at once when a stream is searched.
PAGE = 500


class Instant(NamedTuple):
    """The one instant of a command: read once, used for everything in it (test_case_15).

    now    for deciding and for stamps
    given  the host's clock if it replaces the store's, for the store to judge by; else None
    ticks  seconds on the clock that trust in a lease is measured on
    """

    now: datetime
    given: datetime | None
    ticks: float


class Performed(NamedTuple):
    """A command's result: the record, and the store's reply unless nothing had to be written."""

    record: RunRecord
    reply: Reply | None
    at: Instant


class Engine:
    """The ports of one ledger, and the steps that every command is made of."""

    def __init__(
        self,
        store: RunStore,
        codec: PayloadCodec,
        ids: Ids,
        ticks: Ticks,
        make_lock: Callable[[], Lock],
        clock: Clock | None,
        limits: DeploymentLimits,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.store = store
        self.limits = limits
        self.make_lock = make_lock
        self.new_id = ids.new
        self._codec = codec
        self._ticks = ticks
        self._clock = clock
        self._allowed = limits.model_dump()
        self._authorizer = authorizer

    def instant(self) -> Instant:
        """Read the clock, once for one command."""
        if self._clock is None:
            return Instant(self.store.now(), None, self._ticks())
        now = check_time(self._clock(), "clock")
        return Instant(now, now, now.timestamp())

    def encode(self, limit: str, value: Any, what: str, run_id: str) -> Payload:
        """The payload's bytes, within the deployment's limit of that name."""
        payload = self._codec.encode(value, what)
        if len(payload.data) > self._allowed[limit]:
            self.limits.check(limit, len(payload.data), run_id)
        return payload

    # Reading.

    def read(self, run_id: str) -> Reading:
        """The run's record and the instant it was read at; of a pruned run, what is left of it."""
        reading = self.store.get(run_id, self.instant().given)
        if reading.record is None:
            return reading._replace(record=self.store.buried(run_id))
        return reading

    def read_input(self, run_id: str) -> Any:
        """The run's input, from its first event."""
        event = self._event(run_id, 1)
        return event.input if isinstance(event, RunQueued) else None

    def read_checkpoint(self, record: RunRecord) -> Any:
        """The run's last saved state, from its event; None when there is none."""
        ref = record.checkpoint_ref
        if ref is None:
            return None
        event = self._event(record.run_id, ref.version)
        if not isinstance(event, CheckpointSaved):
            raise RunStoreError(
                RUN_INTEGRITY_ERROR,
                "unreadable_record",
                f"run {record.run_id!r}: its record names version {ref.version} as its checkpoint, "
                "and that is none",
                record=record,
            )
        return event.state

    def _event(self, run_id: str, version: int) -> Event | None:
        found = self.store.read(run_stream(run_id), version - 1, 1)
        return self._codec.open(found[0]) if found and found[0].version == version else None

    def written_by(self, command_id: str, run_id: str, after_version: int) -> list[Event]:
        """The events that this command wrote right after a version; none if it did not."""
        page = self.store.read(run_stream(run_id), after_version, 4)
        events = [self._codec.open(stored) for stored in page]
        return [event for event in events if event.command_id == command_id]

    def version_of(self, command_id: str, record: RunRecord) -> int | None:
        """The version at which a command landed, however long ago."""
        known = record.applied(command_id)
        if known is not None:
            return known.version
        if record.pruned_at is not None:
            raise pruned(record)  # its events would tell, and they are gone
        after = 0
        page: Sequence[StoredEvent]
        while page := self.store.read(run_stream(record.run_id), after, PAGE):
            for stored in page:
                if self._codec.open(stored).command_id == command_id:
                    return stored.version
            after = page[-1].version
        return None

    # Writing.

    def renew(self, leases: Sequence[LeaseRef], at: Instant) -> dict[str, Reply]:
        """Renew many leases in one trip; who is not in the answer is unknown, not lost."""
        return self.store.renew(leases, at.given)

    def commit(
        self,
        before: RunRecord | None,
        events: Sequence[RunEvent],
        guard: Guard | None,
        at: Instant,
        patience: float | None = None,
    ) -> tuple[RunRecord, Reply] | None:
        """Write decided events, with the delivery that a run's end asks for; None: a lost guard."""
        changes, record = self.changes(before, events)
        reply = self.store.append(changes, guard, at.given, patience)
        return None if reply is None else (record, reply)

    def changes(
        self, before: RunRecord | None, events: Sequence[RunEvent]
    ) -> tuple[list[Change], RunRecord]:
        """The events sealed onto the chain, a requested delivery, and the record they lead to."""
        record = before
        version, head = (0, GENESIS) if before is None else (before.version, before.head)
        expected_head = head
        sealed: list[SealedEvent] = []
        for event in events:
            stored = self._codec.seal(event, head)
            head = stored.hash
            record = evolve(record, event, head)
            sealed.append(stored)
        assert record is not None  # decide gave at least one event
        changes = [Change(sealed[0].stream, version, tuple(sealed), record, expected_head)]
        return changes + self._delivery(record, events[-1]), record

    def _delivery(self, record: RunRecord, terminal: RunEvent) -> list[Change]:
        event = request_delivery(record, terminal)
        if event is None:
            return []
        stored = self._codec.seal(event, GENESIS)
        return [Change(stored.stream, 0, (stored,), evolve_delivery(None, event, stored.hash))]

    def perform(self, command: c.Command, *, assume_new: bool = False) -> Performed:
        """gather -> decide -> append, until it is written, already so, or refused.

        assume_new  try first as if the run did not exist: one trip where that is so
        """
        record: RunRecord | None = None
        asked: int | None = None
        unsettled = Unsettled(command)
        with unsettled:
            for attempt in range(DECIDE_TRIES):
                at = self.instant()
                now = at.now
                if attempt or not assume_new:
                    record, read_at = self.store.get(command.run_id, at.given)
                    now = max(now, read_at)
                    # Whether it was pruned is asked once it cannot be created: a start that finds
                    # nothing there costs no trip more.
                    if record is None and (attempt or not _creates(command)):
                        record = self.store.buried(command.run_id)
                    if record is not None and unsettled.moved(record):
                        # Only now can it be told: the version moved past where ours was to land.
                        written = self._found(command, unsettled.version, record, read_at)
                        if written is not None:
                            return Performed(*written, at)
                version = record.version if record else 0
                if version != asked:  # else a write of ours may land yet: what allowed it stands
                    self._authorize(command, record, now)
                    asked = version
                events = decide(record, command, now, self.limits, self.store.epoch)
                if not events:
                    assert record is not None  # only a record can already be so
                    return Performed(record, None, at)
                try:
                    written = self.commit(record, events, _grant_guard(record, command, now), at)
                except RunStoreError as error:
                    if error.code != RUN_OUTCOME_UNKNOWN or not unsettled.again(record):
                        raise
                    continue
                if written is not None:
                    return Performed(*written, at)
        raise contended(command.run_id, record)

    def _authorize(self, command: c.Command, record: RunRecord | None, now: datetime) -> None:
        """Refuse, as if there were no such run, what the host does not allow this actor.

        Also asked about a run that is not there: the time it takes must not tell. For a new run
        the host is shown the record as it would be, so that it can judge the id.
        """
        if self._authorizer is None or not isinstance(command, c.OperatorCommand):
            return
        shown = record
        if record is None and isinstance(command, c.Start):
            shown = evolve(None, decide(None, command, now)[0], GENESIS)
        if not self._authorizer.allows(command.actor, command.action, shown):
            raise missing(command)

    def _found(
        self, command: c.Command, after_version: int, record: RunRecord, now: datetime
    ) -> tuple[RunRecord, Reply] | None:
        """What a command with a lost reply has written after a version, if it has."""
        if not self.written_by(command.command_id, command.run_id, after_version):
            return None
        deadline = record.lease.expires_at if record.lease else None
        return record, Reply(now, deadline, deadline is not None)


def _creates(command: c.Command) -> bool:
    return isinstance(command, c.Start) or (
        isinstance(command, c.Acquire) and command.start is not None
    )


def _grant_guard(record: RunRecord | None, command: c.Command, now: datetime) -> Guard | None:
    """A takeover must not overrule a renewal that came after it was decided."""
    if not isinstance(command, c.Acquire) or record is None or record.lease is None:
        return None
    expired = now >= record.lease.expires_at
    return Guard(record.fencing_token, "expired") if expired else None
