"""RunLeaseHandle: what one holder may do with one run while its lease lasts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import commands as c
from .chain import invocation_id
from .checks import (
    check_identifier,
    check_identifiers,
    check_integer,
    check_text,
    check_time,
    readable,
    refuse,
)
from .decide import decide, require_holder
from .errors import RUN_CONFLICT, RUN_LEASE_LOST, RUN_OUTCOME_UNKNOWN, RunStoreError
from .events import RunEvent
from .ports import Guard, LeaseRef, Reply
from .record import RunRecord

if TYPE_CHECKING:
    from .ledger import Instant, RunLedger

#: The share of the ttl, in seconds at most one, by which a holder stops trusting its lease early.
MARGIN = 0.05


class RunLeaseHandle:
    """The capability of the one holder of a run, got from `ledger.acquire`, `restore` or `claim`.

    Every write carries the fencing token and is judged by the store on its own clock. The first
    loss latches: every later call raises that same error without touching the store. As a context
    manager it releases the run when the block ends without having finished it.
    """

    def __init__(
        self, ledger: RunLedger, record: RunRecord, reply: Reply, at: Instant
    ) -> None:
        if record.lease is None or reply.deadline is None:
            raise AssertionError("a handle needs a granted lease")
        self._ledger = ledger
        self._record = record
        self._owner = record.lease.owner
        self._ttl = record.lease.ttl
        self._token = record.fencing_token
        self._guard = Guard(self._token, "live")
        self._deadline = reply.deadline
        self._trusted_until = 0.0
        self._lost: RunStoreError | None = None
        self._on_lost: list[Callable[[RunStoreError], None]] = []
        self._unsettled: _Write | None = None
        self._lock = ledger.make_lock()
        # Random per grant: ids stay unique even if a restore ever brought a token back.
        self._nonce = ledger.new_command_id()
        self._writes = 0
        self._believe(reply, at)

    # What the holder knows without asking the store.

    @property
    def run_id(self) -> str:
        return self._record.run_id

    @property
    def owner(self) -> str:
        """Who holds it: the owner the lease was granted to."""
        return self._owner

    @property
    def fencing_token(self) -> int:
        """The token to hand to every system that can compare it."""
        return self._token

    @property
    def attempt(self) -> int:
        """1, plus how often an abandoned lease of this run was taken over."""
        return self._record.attempt

    @property
    def ttl(self) -> float:
        """Seconds a renewal lasts."""
        return self._ttl

    @property
    def record(self) -> RunRecord:
        """The run's record after this holder's last write, with the lease's known deadline."""
        record, deadline = self._record, self._deadline
        if record.lease is None or record.lease.expires_at == deadline:
            return record
        lease = record.lease.model_copy(update={"expires_at": deadline})
        return record.model_copy(update={"lease": lease})

    @property
    def held(self) -> bool:
        """Whether the lease can be trusted now: not lost, not given back, not nearly expired."""
        return (
            self._lost is None
            and self._record.lease is not None
            and self._ledger.instant().ticks < self._trusted_until
        )

    @property
    def lost(self) -> RunStoreError | None:
        """The latched loss, or None."""
        return self._lost

    @property
    def checkpoint(self) -> Any:
        """The run's last saved state, read from its event; None when there is none.

        Every reading is a fresh copy. Raises RUN_INTEGRITY_ERROR when the event cannot be read.
        """
        return self._ledger.read_checkpoint(self._record)

    @property
    def input(self) -> Any:
        """The run's input, read from its first event."""
        return self._ledger.read_input(self._record.run_id)

    def invocation_id(self, name: str) -> str:
        """A stable idempotency key for the side effect `name` of this run.

        SHA-256 of the canonical [run id, name]: the same in every attempt and for every holder,
        so that the far end can recognise a repetition (seed 003, "唯一残留的窗口").
        """
        return invocation_id(self._record.run_id, check_identifier(name, "name"))

    # The lease itself.

    def renew(self) -> None:
        """Move the deadline to the store's instant + ttl. No event, no new version.

        Raises RUN_LEASE_LOST (expired, taken_over, cancelled, released, rewound), or
        RUN_ALREADY_TERMINAL when this holder has ended the run.
        """
        with self._lock:
            self._ensure_not_lost()
            self._require_lease()
            self._renew_now()

    def ensure_held(self) -> None:
        """The gate before the next step: returns only while the run is this holder's.

        Free while the lease is trusted; asks the store when it is not. Raises as `renew` does.
        """
        if not self.held:
            self.renew()

    def stop_heartbeat(self) -> None:
        """Renew no more in the background; the lease then runs out unless `renew` is called."""
        self._ledger.beat.unwatch(self)

    def on_lost(self, callback: Callable[[RunStoreError], None]) -> None:
        """Call `callback(error)` once when the loss is noticed, from whichever thread noticed."""
        self._on_lost.append(callback)
        if self._lost is not None:
            callback(self._lost)

    # Writing.

    def save_checkpoint(
        self, state: Any, key: str = "latest", snapshot_version: int = 1
    ) -> RunRecord:
        """Save the state to go on from. Fence and state are one event: both land or neither.

        state             a JSON value; it is copied at the call
        key               a name for the state, for readers of the history
        snapshot_version  the version of the state's own layout

        Raises RUN_VALIDATION_ERROR / payload with the path of what is not JSON,
        RUN_LIMIT_EXCEEDED / checkpoint_bytes, RUN_LEASE_LOST, RUN_ALREADY_TERMINAL.
        """
        payload = self._ledger.encode("checkpoint_bytes", state, "state", self._record.run_id)
        if key != "latest":
            check_identifier(key, "key")
        if snapshot_version != 1:
            check_integer(snapshot_version, "snapshot_version", least=0)
        return self._write(
            lambda command_id: c.SaveCheckpoint(
                run_id=self._record.run_id,
                command_id=command_id,
                fencing_token=self._token,
                key=key,
                snapshot_version=snapshot_version,
                state=payload,
            )
        )

    def suspend(
        self, pending_approval_ids: Any = (), resume_when_decided: bool = False
    ) -> RunRecord:
        """Let go of the run until decisions arrive; nobody needs to stay alive for it.

        With `resume_when_decided` the last decision queues the run by itself; otherwise
        `request_resume` or `restore` does. Repeating it converges. Raises as save_checkpoint does.
        """
        pending = check_identifiers(pending_approval_ids, "approval id")
        if resume_when_decided and not pending:
            raise refuse("argument", "resume_when_decided needs at least one pending approval id")
        self._ledger.limits.check("approvals", len(pending), self._record.run_id)
        return self._write(
            lambda command_id: c.Suspend(
                run_id=self._record.run_id,
                command_id=command_id,
                fencing_token=self._token,
                pending_approval_ids=pending,
                resume_when_decided=bool(resume_when_decided),
            )
        )

    def complete(
        self, result: Any = None, code: str = "ok", message: str | None = None
    ) -> RunRecord:
        """End the run as completed. Repeating it returns the record.

        Raises when it could not be written: no outcome is ever reported that the journal does not
        hold (seed 003, "失败语义"). RUN_LIMIT_EXCEEDED / result_bytes leaves the run usable.
        """
        payload = self._ledger.encode("result_bytes", result, "result", self._record.run_id)
        return self._write(
            lambda command_id: c.Complete(
                run_id=self._record.run_id,
                command_id=command_id,
                fencing_token=self._token,
                code=check_identifier(code, "code"),
                message=check_text(message, "message"),
                result=payload,
            )
        )

    def fail(self, code: str, message: str | None = None) -> RunRecord:
        """End the run as failed. Repeating it returns the record. Raises as `complete` does."""
        return self._write(
            lambda command_id: c.Fail(
                run_id=self._record.run_id,
                command_id=command_id,
                fencing_token=self._token,
                code=check_identifier(code, "code"),
                message=check_text(message, "message"),
            )
        )

    def cancel(self, message: str | None = None) -> RunRecord:
        """End the run because the business wants it no more. To hand it back, use `release`."""
        return self._write(
            lambda command_id: c.Cancel(
                run_id=self._record.run_id,
                command_id=command_id,
                actor=self._owner,
                fencing_token=self._token,
                message=check_text(message, "message"),
            )
        )

    def release(
        self,
        reason: str | None = None,
        error: str | None = None,
        available_at: datetime | None = None,
    ) -> RunRecord:
        """Hand the run back unfinished (the seed's detach): it is queued again, never cancelled.

        error         counts the release as a failure (`record.failures`)
        available_at  not before this time may it be claimed again
        """
        return self._write(
            lambda command_id: c.Release(
                run_id=self._record.run_id,
                command_id=command_id,
                fencing_token=self._token,
                reason=check_text(reason, "reason"),
                error=check_text(error, "error"),
                available_at=check_time(available_at, "available_at") if available_at else None,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        if self._lost is not None or self._record.lease is None:
            return
        try:
            if exc is None:
                self.release(reason="left unfinished")
            elif isinstance(exc, Exception):
                self.release(reason="exception", error=readable(f"{type(exc).__name__}: {exc}"))
            else:
                self.release(reason="interrupted")
        except RunStoreError:
            # The body's own exception is what the caller must see; the lease expires by itself.
            if exc is None:
                raise

    # For the ledger and its beat.

    @property
    def lease_ref(self) -> LeaseRef:
        return LeaseRef(self._record.run_id, self._token, self._ttl)

    def renewed(self, reply: Reply, at: Instant) -> None:
        """Take note of a renewal that the beat made for many leases at once."""
        self._believe(reply, at)

    def lose(self, error: RunStoreError) -> RunStoreError:
        """Latch a loss; the first one stays."""
        if self._lost is None:
            self._lost = error
            self._ledger.forget(self)
            for callback in self._on_lost:
                callback(error)
        return self._lost

    def examine(self) -> None:
        """Find out why a renewal was not answered; latches the loss if it is one."""
        # A write in flight may be ending the lease right now, and will learn its own fate.
        if not self._lock.acquire(blocking=False):
            return
        try:
            known = self._record
            if known.lease is None or self._unsettled is not None:
                return
            reading = self._ledger.read(known.run_id)
            error = self._loss(reading.record, known.version, reading.now)
            if error is not None:
                self.lose(error)
        finally:
            self._lock.release()

    # Inside.

    def _ensure_not_lost(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _require_lease(self) -> None:
        if self._record.lease is None:
            require_holder(self._record, self._token, self._deadline)

    def _renew_now(self) -> None:
        at = self._ledger.instant()
        reply = self._ledger.renew([self], at).get(self._record.run_id)
        if reply is not None:
            self._believe(reply, at)
            return
        self.examine()
        self._ensure_not_lost()

    def _believe(self, reply: Reply, at: Instant) -> None:
        """Trust the lease until the moment before the request was sent + time left - margin."""
        if reply.deadline is None:
            return
        self._deadline = max(self._deadline, reply.deadline)
        margin = min(1.0, self._ttl * MARGIN)
        self._trusted_until = max(self._trusted_until, at.ticks + reply.time_left - margin)

    def _write(self, make: Callable[[str], c.Command]) -> RunRecord:
        with self._lock:
            self._ensure_not_lost()
            if self._unsettled is not None:
                self._settle(self._unsettled)
            at = self._ledger.instant()
            if at.now >= self._deadline and self._record.lease is not None:
                # Only the store knows whether a renewal whose reply was lost has moved it.
                self._renew_now()
                at = self._ledger.instant()
            self._writes += 1
            command = make(f"{self._nonce}-{self._writes}")
            before = self.record
            events = decide(before, command, at.now)
            if not events:
                return before
            write = _Write(command.command_id, before, events)
            # Until the reply is in, an interrupt leaves this write's fate open: settle it then.
            self._unsettled = write
            try:
                answer = self._ledger.commit(
                    before, events, self._guard, at, max(0.05, self._trusted_until - at.ticks)
                )
            except RunStoreError as error:
                if error.code != RUN_OUTCOME_UNKNOWN:
                    self._unsettled = None
                    raise
                self._settle(write)
                return self.record
            self._unsettled = None
            if answer is None:
                raise self.lose(self._why(write))
            self._adopt(answer[0], answer[1], at)
            return self.record

    def _adopt(self, record: RunRecord, reply: Reply | None, at: Instant) -> None:
        self._record = record
        if reply is not None:
            self._believe(reply, at)
        if record.lease is None:
            self._ledger.forget(self)

    def _settle(self, write: _Write) -> None:
        """Learn the fate of a write whose reply never came; raises if it cannot be learnt.

        That my event is not there proves nothing while the old transaction may still commit. Proof
        of absence is that my retry at the same expected version succeeded, or that the version
        moved past it without my command (design 6).
        """
        for _ in range(self._ledger.settle_tries):
            if self._landed(write):
                self._unsettled = None
                return
            reading = self._ledger.read(self.run_id)
            if reading.record is None or reading.record.version != write.before.version:
                self._unsettled = None
                raise self.lose(self._why(write))
            at = self._ledger.instant()
            try:
                answer = self._ledger.commit(write.before, write.events, self._guard, at, None)
            except RunStoreError as error:
                if error.code != RUN_OUTCOME_UNKNOWN:
                    raise
                continue
            if answer is not None:
                self._unsettled = None
                self._adopt(answer[0], answer[1], at)
                return
        if self._landed(write):
            self._unsettled = None
            return
        raise RunStoreError(
            RUN_OUTCOME_UNKNOWN,
            "reply_lost",
            f"run {self.run_id!r}: whether command {write.command_id!r} was written is not known",
        )

    def _landed(self, write: _Write) -> bool:
        found = self._ledger.find(self.run_id, write.before.version, write.command_id)
        if found is None:
            return False
        record = write.before
        for event in found:
            record = self._ledger.evolve(record, event)
        self._adopt(record, None, self._ledger.instant())
        return True

    def _why(self, write: _Write) -> RunStoreError:
        reading = self._ledger.read(self.run_id)
        error = self._loss(reading.record, write.before.version, reading.now)
        if error is not None:
            return error
        return RunStoreError(
            RUN_CONFLICT,
            "unexpected_version",
            f"run {self.run_id!r}: version {write.before.version} was expected, and somebody "
            f"wrote another under token {self._token}",
            record=reading.record,
        )

    def _loss(
        self, stored: RunRecord | None, known_version: int, now: datetime
    ) -> RunStoreError | None:
        if stored is None or stored.version < known_version:
            at = "gone" if stored is None else f"at version {stored.version}"
            return RunStoreError(
                RUN_LEASE_LOST,
                "rewound",
                f"run {self.run_id!r} is {at}, behind version {known_version} that "
                f"token {self._token} wrote: the store was rewound",
                record=stored,
            )
        try:
            require_holder(stored, self._token, now)
        except RunStoreError as error:
            return error
        return None


class _Write:
    """One append of this holder, kept until its reply is in."""

    __slots__ = ("before", "command_id", "events")

    def __init__(
        self, command_id: str, before: RunRecord, events: tuple[RunEvent, ...]
    ) -> None:
        self.command_id = command_id
        self.before = before
        self.events = events
