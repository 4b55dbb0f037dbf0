"""RunLedger: grants leases, and carries out what is asked from outside a lease.

Every command is gather -> decide -> append: read the record, let `decide` turn the command into
events, write them at the version they were decided on. Losing the version here only means that
somebody else was first: the command is decided again on what is true now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, overload

from . import commands as c
from .chain import GENESIS
from .checks import (
    check_identifier,
    check_identifiers,
    check_integer,
    check_labels,
    check_optional,
    check_seconds,
    check_text,
    check_time,
    refuse,
)
from .decide import decide
from .delivery import evolve_delivery, request_delivery
from .errors import (
    RUN_CONFLICT,
    RUN_INTEGRITY_ERROR,
    RUN_LEASE_LOST,
    RUN_OUTCOME_UNKNOWN,
    RunStoreError,
)
from .events import CheckpointSaved, Event, Payload, RunEvent, RunQueued, run_stream
from .lease import RunLeaseHandle
from .limits import DeploymentLimits
from .ports import (
    Beat,
    Change,
    Clock,
    Guard,
    Ids,
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
from .run import evolve

#: How often a command is decided anew when other writers were first.
DECIDE_TRIES = 32
#: How often the fate of a write with a lost reply is asked for.
SETTLE_TRIES = 3


class Instant(NamedTuple):
    """The one instant of a command: read once, used for everything in it (case 15).

    now    for deciding and for stamps
    given  the host's clock if it replaces the store's, for the store to judge by; else None
    ticks  seconds on the clock that trust in a lease is measured on
    """

    now: datetime
    given: datetime | None
    ticks: float


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What became of a command: whether it landed, at which version, and the run as it is now."""

    run_id: str
    command_id: str
    applied: bool
    version: int | None
    record: RunRecord | None


class RunLedger:
    """Start, acquire, restore, claim; cancel, fail, resume and decide from outside a lease.

    Got from `journal.ledger(...)`. Two live processes must never share an owner. Every method may
    raise RUN_STORE_UNAVAILABLE (nothing was written) and RUN_OUTCOME_UNKNOWN (see `resolve`), and
    RUN_VALIDATION_ERROR before anything is written.
    """

    def __init__(
        self,
        store: RunStore,
        codec: PayloadCodec,
        ids: Ids,
        *,
        owner: str,
        ticks: Ticks,
        beat: Beat,
        make_lock: Callable[[], Lock],
        lease_ttl: float | timedelta = 60.0,
        heartbeat_every: float | timedelta | None = None,
        clock: Clock | None = None,
        limits: DeploymentLimits | None = None,
    ) -> None:
        self.owner = check_identifier(owner, "owner")
        self.lease_ttl = check_seconds(lease_ttl, "lease_ttl")
        self.heartbeat_every = (
            self.lease_ttl / 3
            if heartbeat_every is None
            else check_seconds(heartbeat_every, "heartbeat_every")
        )
        if self.heartbeat_every > self.lease_ttl / 2:
            raise refuse(
                "argument",
                f"heartbeat_every {self.heartbeat_every} s is above half of the lease ttl "
                f"{self.lease_ttl} s: one lost beat would lose the lease",
            )
        self.limits = limits or DeploymentLimits()
        self.beat = beat
        self.make_lock = make_lock
        self.settle_tries = SETTLE_TRIES
        self._store = store
        self._codec = codec
        self._ids = ids
        self._ticks = ticks
        self._clock = clock
        self._handles: set[RunLeaseHandle] = set()

    # Outside a lease.

    def start(
        self,
        run_id: str,
        kind: str = "default",
        input: Any = None,  # noqa: A002 - the word of the field
        delivery_ref: str | None = None,
        authority_ref: str | None = None,
        labels: Mapping[str, str] | None = None,
        parent_run_id: str | None = None,
        available_at: datetime | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """Create the run, queued. Starting it again with the same arguments returns its record.

        input         JSON for the worker
        delivery_ref  a name under which the host knows where the result is to go; no credentials
        authority_ref a name under which the host finds on whose behalf the run acts
        available_at  not before this time (aware) may it be claimed

        Raises RUN_CONFLICT / different_arguments, RUN_LIMIT_EXCEEDED / input_bytes or labels.
        """
        checked = check_labels(labels)
        check_identifier(run_id, "run id")
        self.limits.check("labels", len(checked), run_id)
        command = c.Start(
            run_id=run_id,
            command_id=self._command_id(command_id),
            actor=check_optional(actor, "actor"),
            kind=check_identifier(kind, "kind"),
            input=self.encode("input_bytes", input, "input", run_id),
            delivery_ref=check_optional(delivery_ref, "delivery_ref"),
            authority_ref=check_optional(authority_ref, "authority_ref"),
            labels=checked,
            parent_run_id=check_optional(parent_run_id, "parent_run_id"),
            available_at=None if available_at is None else check_time(available_at, "available_at"),
        )
        return self._perform(command, assume_new=True)[0]

    def get(self, run_id: str) -> RunRecord | None:
        """The run's record without taking ownership; None when there is none."""
        return self.read(check_identifier(run_id, "run id")).record

    def cancel(
        self,
        run_id: str,
        message: str | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """End the run for business reasons and fence its holder at its next write.

        A cancelled run stays as it is. Raises RUN_NOT_FOUND, RUN_ALREADY_TERMINAL.
        """
        return self._operate(c.Cancel, run_id, actor, command_id, message=check_text(message, "message"))

    def fail(
        self,
        run_id: str,
        code: str,
        message: str | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """Give up a run that nobody holds (queued, suspended or abandoned).

        Raises RUN_NOT_FOUND, RUN_ALREADY_TERMINAL, RUN_LEASE_HELD while a worker is on it.
        """
        return self._operate(
            c.GiveUp,
            run_id,
            actor,
            command_id,
            code=check_identifier(code, "code"),
            message=check_text(message, "message"),
        )

    def request_resume(
        self, run_id: str, actor: str | None = None, command_id: str | None = None
    ) -> RunRecord:
        """Make a suspended run eligible again; one that is not suspended stays as it is.

        Undecided approvals do not hinder it; they stay visible as undecided in `approvals`.
        Raises RUN_NOT_FOUND, RUN_ALREADY_TERMINAL.
        """
        return self._operate(c.RequestResume, run_id, actor, command_id)

    def record_decision(
        self,
        run_id: str,
        approval_id: str,
        decision: str,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """Record one decision a suspended run waits for. Repeating it converges.

        Raises RUN_CONFLICT / different_decision, RUN_INVALID_TRANSITION / not_suspended,
        RUN_VALIDATION_ERROR / unknown_approval, RUN_NOT_FOUND, RUN_ALREADY_TERMINAL.
        """
        return self._operate(
            c.RecordDecision,
            run_id,
            actor,
            command_id,
            approval_id=check_identifier(approval_id, "approval id"),
            decision=check_identifier(decision, "decision"),
        )

    def resolve(self, command_id: str, run_id: str) -> CommandOutcome:
        """What became of a command whose reply was lost.

        `applied` False means that no event carries it so far; a server that still works on the
        lost request could yet write it. Repeating the command under its id settles it for good.
        """
        check_identifier(command_id, "command id")
        record = self.read(check_identifier(run_id, "run id")).record
        version = None
        if record is not None:
            known = record.applied(command_id)
            version = known.version if known else self._search(record, command_id)
        return CommandOutcome(run_id, command_id, version is not None, version, record)

    # Leases.

    def acquire(self, run_id: str, heartbeat: bool = True) -> RunLeaseHandle:
        """Take the lease of this run, creating the run when it is new.

        heartbeat  renew in the background every `heartbeat_every` seconds

        An expired lease is taken over: token and attempt grow. After a release only the token
        grows. Acquiring again under the same owner fences the older handle. Raises RUN_LEASE_HELD,
        RUN_ALREADY_TERMINAL, RUN_SUSPENDED.
        """
        check_identifier(run_id, "run id")
        return self._take(run_id, heartbeat, resume=False, create=True)

    def restore(self, run_id: str, heartbeat: bool = True) -> RunLeaseHandle:
        """Take the lease of a suspended, abandoned or queued run, in one append.

        It is the resume command itself: of two that restore the same run only one goes on.
        Raises RUN_NOT_FOUND, RUN_LEASE_HELD, RUN_ALREADY_TERMINAL.
        """
        check_identifier(run_id, "run id")
        return self._take(run_id, heartbeat, resume=True, create=False)

    @overload
    def claim(
        self, kinds: Sequence[str] | None = None, limit: None = None, heartbeat: bool = True
    ) -> RunLeaseHandle | None: ...

    @overload
    def claim(
        self, kinds: Sequence[str] | None = None, *, limit: int, heartbeat: bool = True
    ) -> list[RunLeaseHandle]: ...

    def claim(
        self,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
        heartbeat: bool = True,
    ) -> RunLeaseHandle | list[RunLeaseHandle] | None:
        """Take whichever run is due: queued and available, or abandoned; the longest due first.

        kinds  only runs of these kinds
        limit  take up to so many and return a list; without it one handle or None
        """
        wanted = None if kinds is None else check_identifiers(kinds, "kind")
        count = 1 if limit is None else check_integer(limit, "limit", least=1, most=1000)
        at = self.instant()
        command_id = self.new_command_id()

        def grant(record: RunRecord, now: datetime) -> Change:
            command = c.Acquire(
                run_id=record.run_id,
                command_id=command_id,
                owner=self.owner,
                ttl=self.lease_ttl,
            )
            return self._change(record, decide(record, command, now))

        granted = self._store.claim(wanted, count, grant, at.given)
        handles = [self._handle(g.record, g.reply, at, heartbeat) for g in granted]
        if limit is None:
            return handles[0] if handles else None
        return handles

    def release_all(self, reason: str | None = None) -> None:
        """Release every lease of this ledger that is still held; losses are passed over."""
        for handle in list(self._handles):
            try:
                handle.release(reason=reason)
            except RunStoreError:
                self.forget(handle)

    # For handles and the beat: the ledger's own steps.

    @property
    def handles(self) -> list[RunLeaseHandle]:
        """The handles that still hold a lease as far as they know."""
        return list(self._handles)

    def instant(self) -> Instant:
        """Read the clock, once for one command."""
        if self._clock is None:
            return Instant(self._store.now(), None, self._ticks())
        now = check_time(self._clock(), "clock")
        return Instant(now, now, now.timestamp())

    def new_command_id(self) -> str:
        return self._ids.new()

    def encode(self, limit: str, value: Any, what: str, run_id: str) -> Payload:
        """The payload's bytes, within the deployment's limit."""
        payload = self._codec.encode(value, what)
        self.limits.check(limit, len(payload.data), run_id)
        return payload

    def read(self, run_id: str) -> Reading:
        return self._store.get(run_id, self.instant().given)

    def read_input(self, run_id: str) -> Any:
        (stored,) = self._store.read(run_stream(run_id), 0, 1)
        event = self._codec.open(stored)
        return event.input if isinstance(event, RunQueued) else None

    def read_checkpoint(self, record: RunRecord) -> Any:
        ref = record.checkpoint_ref
        if ref is None:
            return None
        found = self._store.read(run_stream(record.run_id), ref.version - 1, 1)
        event = self._codec.open(found[0]) if found else None
        if not isinstance(event, CheckpointSaved) or event.originator_version != ref.version:
            raise RunStoreError(
                RUN_INTEGRITY_ERROR,
                "unreadable_record",
                f"run {record.run_id!r}: its record names version {ref.version} as its checkpoint, "
                "and there is none",
                record=record,
            )
        return event.state

    def commit(
        self,
        before: RunRecord | None,
        events: Sequence[RunEvent],
        guard: Guard | None,
        at: Instant,
        patience: float | None = None,
    ) -> tuple[RunRecord, Reply] | None:
        """Write decided events; None when a guard was lost."""
        change = self._change(before, events)
        record = change.record
        assert isinstance(record, RunRecord)  # noqa: S101 - narrows the union
        changes = [change]
        if record.delivery_ref is not None and record.is_terminal:
            changes.append(self._delivery(record, events[-1]))
        reply = self._store.append(changes, guard, at.given, patience)
        return None if reply is None else (record, reply)

    def evolve(self, record: RunRecord, event: Event) -> RunRecord:
        """The record after an event that was read back."""
        return evolve(record, event, event.hash)

    def find(self, run_id: str, after_version: int, command_id: str) -> list[Event] | None:
        """The events that this command wrote right after a version, or None."""
        page = self._store.read(run_stream(run_id), after_version, 4)
        events = [self._codec.open(stored) for stored in page]
        mine = [e for e in events if e.command_id == command_id]
        return mine or None

    def renew(self, handles: Sequence[RunLeaseHandle], at: Instant) -> dict[str, Reply]:
        """Renew many leases in one trip; who is not in the answer is unknown, not lost."""
        return self._store.renew([h.lease_ref for h in handles], at.given)

    def beat_once(self, handles: Sequence[RunLeaseHandle]) -> None:
        """Renew these leases in one trip and find out about those that were not answered."""
        at = self.instant()
        replies = self.renew(handles, at)
        for handle in handles:
            reply = replies.get(handle.run_id)
            if reply is not None:
                handle.renewed(reply, at)
            else:
                handle.examine()

    def forked(self, owner: str) -> None:
        """In the child of a fork: the leases are the parent's, and the owner's name too."""
        self.owner = owner
        for handle in self.handles:
            handle.lose(
                RunStoreError(
                    RUN_LEASE_LOST,
                    "forked",
                    f"run {handle.run_id!r} is held by the parent of this process",
                    record=handle.record,
                )
            )

    def forget(self, handle: RunLeaseHandle) -> None:
        """The handle holds nothing any more."""
        self._handles.discard(handle)
        self.beat.unwatch(handle)

    # Inside.

    def _command_id(self, command_id: str | None) -> str:
        if command_id is None:
            return self.new_command_id()
        return check_identifier(command_id, "command id")

    def _operate(
        self,
        make: type[c.OperatorCommand],
        run_id: str,
        actor: str | None,
        command_id: str | None,
        **arguments: Any,
    ) -> RunRecord:
        command = make(
            run_id=check_identifier(run_id, "run id"),
            command_id=self._command_id(command_id),
            actor=check_optional(actor, "actor"),
            **arguments,
        )
        return self._perform(command)[0]

    def _perform(
        self, command: c.Command, *, assume_new: bool = False
    ) -> tuple[RunRecord, Reply | None, Instant]:
        """gather -> decide -> append, again while others are first."""
        record: RunRecord | None = None
        for attempt in range(DECIDE_TRIES):
            at = self.instant()
            now = at.now
            # A new run is the common case of `start`: one trip when it is one, two when not.
            if attempt or not assume_new:
                record, read_at = self._store.get(command.run_id, at.given)
                now = max(now, read_at)
            events = decide(record, command, now)
            if not events:
                assert record is not None  # noqa: S101 - only a record can already be so
                return record, None, at
            guard = _grant_guard(record, now) if isinstance(command, c.Acquire) else None
            try:
                answer = self.commit(record, events, guard, at)
            except RunStoreError as error:
                if error.code != RUN_OUTCOME_UNKNOWN:
                    raise
                if self._landed(command, record):
                    continue  # decided again, it is now "already so"
                raise RunStoreError(
                    error.code,
                    error.reason,
                    f"run {command.run_id!r}: whether command {command.command_id!r} was written "
                    "is not known",
                ) from error
            if answer is not None:
                return answer[0], answer[1], at
        raise RunStoreError(
            RUN_CONFLICT,
            "contended",
            f"run {command.run_id!r}: other writers were first {DECIDE_TRIES} times",
            record=record,
        )

    def _landed(self, command: c.Command, before: RunRecord | None) -> bool:
        after = before.version if before else 0
        try:
            return self.find(command.run_id, after, command.command_id) is not None
        except RunStoreError:
            return False

    def _take(self, run_id: str, heartbeat: bool, *, resume: bool, create: bool) -> RunLeaseHandle:
        command_id = self.new_command_id()
        start = c.Start(
            run_id=run_id,
            command_id=command_id,
            input=self._codec.encode(None, "input"),
        )
        command = c.Acquire(
            run_id=run_id,
            command_id=command_id,
            owner=self.owner,
            ttl=self.lease_ttl,
            resume=resume,
            start=start if create else None,
        )
        record, reply, at = self._perform(command)
        assert reply is not None  # noqa: S101 - a grant is always written
        return self._handle(record, reply, at, heartbeat)

    def _handle(
        self, record: RunRecord, reply: Reply, at: Instant, heartbeat: bool
    ) -> RunLeaseHandle:
        handle = RunLeaseHandle(self, record, reply, at)
        self._handles.add(handle)
        if heartbeat:
            self.beat.watch(handle)
        return handle

    def _change(self, before: RunRecord | None, events: Sequence[RunEvent]) -> Change:
        record = before
        head = before.head if before is not None else GENESIS
        sealed: list[SealedEvent] = []
        for event in events:
            stored = self._codec.seal(event, head)
            head = stored.hash
            record = evolve(record, event, head)
            sealed.append(stored)
        assert record is not None  # noqa: S101 - there is at least one event
        version = before.version if before is not None else 0
        return Change(sealed[0].stream, version, tuple(sealed), record)

    def _delivery(self, record: RunRecord, terminal: RunEvent) -> Change:
        event = request_delivery(record, terminal)
        assert event is not None  # noqa: S101 - the caller has looked
        stored = self._codec.seal(event, GENESIS)
        return Change(stored.stream, 0, (stored,), evolve_delivery(None, event, stored.hash))

    def _search(self, record: RunRecord, command_id: str) -> int | None:
        after = 0
        stream = run_stream(record.run_id)
        page: Sequence[StoredEvent]
        while page := self._store.read(stream, after, 500):
            for stored in page:
                if self._codec.open(stored).command_id == command_id:
                    return stored.version
            after = page[-1].version
        return None


def _grant_guard(record: RunRecord | None, now: datetime) -> Guard | None:
    """A takeover must not overrule a renewal that came after it was decided."""
    if record is None or record.lease is None or now < record.lease.expires_at:
        return None
    return Guard(record.fencing_token, "expired")
