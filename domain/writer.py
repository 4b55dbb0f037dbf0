"""HolderWriter: how the one holder of a run writes, and how it learns that it is no longer.

A refused write means that the run is lost, with one exception: several processes may write under
one grant (`ledger.adopt`), and one of them was first. Then the write is decided again on what that
one wrote. The first loss latches. A write whose reply was lost is settled by reading back before
anything else is written.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import inf
from typing import NamedTuple

from . import commands as c
from .decide import decide
from .engine import Engine, Instant
from .errors import (
    RUN_CONFLICT,
    RUN_LEASE_LOST,
    RUN_OUTCOME_UNKNOWN,
    RUN_STORE_UNAVAILABLE,
    RunStoreError,
)
from .events import RunEvent
from .holding import require_holder
from .ports import Guard, LeaseRef, Reading, Reply
from .record import Lease, RunRecord
from .run import fold
from .unsettled import DECIDE_TRIES, SETTLE_TRIES, contended, unknown_outcome

#: The share of the ttl, one second at most, by which a holder stops trusting its lease early.
MARGIN = 0.05


class _Write(NamedTuple):
    """One append of this holder, kept until its reply is in."""

    command: c.Command
    before: RunRecord
    events: tuple[RunEvent, ...]


class HolderWriter:
    """One lease: its token, how long it can be trusted, and the record after its last write."""

    def __init__(
        self,
        engine: Engine,
        record: RunRecord,
        lease: Lease,
        reply: Reply,
        at: Instant,
        on_end: Callable[[], None],
    ) -> None:
        self.token = record.fencing_token
        self.ttl = lease.ttl
        self.owner = lease.owner
        self._granted_at = lease.acquired_at
        self.lost: RunStoreError | None = None
        self.lost_callbacks: list[Callable[[RunStoreError], None]] = []
        self._engine = engine
        self._record = record
        # The store's own: where its clock was set back, the grant's stamp is ahead of it.
        self._deadline = reply.deadline or lease.expires_at
        self._trusted_until = -inf
        self._guard = Guard(self.token, "live")
        self._on_end = on_end
        self._unsettled: _Write | None = None
        self._lock = engine.make_lock()
        # Random per grant: ids stay unique even if a restore ever brought a token back.
        self._nonce = engine.new_id()
        self._writes = 0
        self.believe(reply, at)

    @property
    def record(self) -> RunRecord:
        """The record after the last write, with the lease's known deadline."""
        return self._record.with_deadline(self._deadline)

    @property
    def lease_ref(self) -> LeaseRef:
        return LeaseRef(self._record.run_id, self.token, self.ttl)

    def trusted_for(self) -> float:
        """Seconds for which the lease can be trusted without asking; 0 when it cannot."""
        if self.lost is not None or self._record.lease is None:
            return 0.0
        open_write = self._unsettled
        if open_write is not None and not isinstance(open_write.command, c.SaveCheckpoint):
            return 0.0  # it may have given the lease back
        return max(0.0, self._trusted_until - self._engine.instant().ticks)

    def believe(self, reply: Reply, at: Instant) -> None:
        """Trust the lease until the moment before the request was sent + time left - margin."""
        if reply.deadline is None:
            return  # nothing new
        self._deadline = max(self._deadline, reply.deadline)
        margin = min(1.0, self.ttl * MARGIN)
        self._trusted_until = max(self._trusted_until, at.ticks + reply.time_left - margin)

    def lose(self, error: RunStoreError) -> RunStoreError:
        """Latch a loss; the first one stays."""
        if self.lost is None:
            self.lost = error
            self._on_end()
            for callback in self.lost_callbacks:
                callback(error)
        return self.lost

    # Renewing.

    def renew(self) -> None:
        """Move the deadline, or raise why that is not possible any more."""
        self._ensure_not_lost()
        with self._lock:
            self._ensure_not_lost()
            if self._unsettled is not None:
                self._settle(self._unsettled)
            if self._record.lease is None:
                require_holder(self._record, self.token, self._deadline)
            self._renew()

    def _renew(self) -> None:
        at = self._engine.instant()
        reply = self._engine.renew([self.lease_ref], at).get(self._record.run_id)
        if reply is not None:
            self.believe(reply, at)
            return
        self.examine()
        self._ensure_not_lost()
        raise RunStoreError(
            RUN_STORE_UNAVAILABLE,
            "busy",
            f"run {self._record.run_id!r} was locked by others: its lease is held and not renewed",
            record=self.record,
        )

    def _ensure_not_lost(self) -> None:
        # Also asked before the lock: after a fork its holder may be a thread that is not there.
        if self.lost is not None:
            raise self.lost

    def examine(self, seen: Reading | None = None) -> None:
        """Find out whether the lease was lost, and latch it then.

        seen  the run as it was just read or written; None: ask the store
        """
        # A write in flight may be ending the lease right now, and will learn its own fate.
        if not self._lock.acquire(blocking=False):
            return
        try:
            known = self._record
            if known.lease is None or self._unsettled is not None:
                return
            stored, now = seen or self._engine.read(known.run_id)
            error = self._loss(stored, known.version, now)
            if error is not None:
                self.lose(error)
        finally:
            self._lock.release()

    # Writing.

    def write(self, make: Callable[[str], c.Command]) -> RunRecord:
        """Decide the command on what this holder last wrote, and write it; the record after it."""
        if self.lost is not None:
            raise self.lost
        with self._lock:
            if self.lost is not None:
                raise self.lost
            if self._unsettled is not None:
                self._settle(self._unsettled)
            self._writes += 1
            return self._decide_and_send(make(f"{self._nonce}-{self._writes}"))

    def _decide_and_send(self, command: c.Command) -> RunRecord:
        for _ in range(DECIDE_TRIES):
            at = self._engine.instant()
            if at.now >= self._deadline and self._record.lease is not None:
                # Only the store knows whether a renewal whose reply was lost has moved it.
                self._renew()
                at = self._engine.instant()
            before = self.record
            events = decide(before, command, at.now, self._engine.limits, self._engine.store.epoch)
            if not events:
                return before
            # Until the reply is in, an interrupt leaves this write's fate open: it is settled then.
            self._unsettled = _Write(command, before, events)
            written = self._send(self._unsettled, at)
            if written is not None:
                return written
        raise contended(command.run_id, self.record)

    def _send(self, write: _Write, at: Instant) -> RunRecord | None:
        """The record after the write; None: another process of this holder was first."""
        patience = max(0.05, self._trusted_until - at.ticks)
        try:
            done = self._engine.commit(write.before, write.events, self._guard, at, patience)
        except RunStoreError as error:
            if error.code == RUN_OUTCOME_UNKNOWN:
                return self.record if self._settle(write) else None
            self._unsettled = None
            raise
        self._unsettled = None
        if done is None:
            self._catch_up(write)
            return None
        record, reply = done
        self._record = record
        if record.lease is None:
            self._on_end()
        elif reply.deadline is not None:
            self.believe(reply, at)
            return self.record
        return record

    def _settle(self, write: _Write) -> bool:
        """Whether a write whose reply never came has landed; raises if it cannot be learnt.

        That my event is not there proves nothing while the old transaction may still commit. Proof
        of absence is that my retry at the same expected version succeeded, or that the version
        moved past it without my command.
        """
        try:
            for _ in range(SETTLE_TRIES):
                landed = self._find_out(write)
                if landed is not None:
                    self._unsettled = None
                    return landed
        except RunStoreError as error:
            # "Nothing was written" is said of the asking; the write itself stays open.
            if error.code != RUN_STORE_UNAVAILABLE:
                raise
        raise unknown_outcome(write.before.run_id, write.command.command_id)

    def _find_out(self, write: _Write) -> bool | None:
        """Whether the write has landed, if need be by sending it again; None: not known yet."""
        if self._has_landed(write):
            return True
        stored, _now = self._engine.read(write.before.run_id)
        if stored is not None and stored.pruned_at and stored.applied(write.command.command_id):
            self._record = stored  # its events are gone, and its last command is known
            self._on_end()
            return True
        before = write.before
        if stored is None or (stored.version, stored.head) != (before.version, before.head):
            # It may have landed between the two readings, and a version moves only once.
            if self._has_landed(write):
                return True
            self._catch_up(write)
            return False
        at = self._engine.instant()
        try:
            done = self._engine.commit(write.before, write.events, self._guard, at)
        except RunStoreError as error:
            if error.code != RUN_OUTCOME_UNKNOWN:
                raise
            return None
        if done is None:
            return None
        self._record, reply = done
        self.believe(reply, at)
        if self._record.lease is None:
            self._on_end()
        return True

    def _has_landed(self, write: _Write) -> bool:
        """Whether the write's events are there; then its record is this holder's."""
        before = write.before
        written = self._engine.written_by(write.command.command_id, before.run_id, before.version)
        record = fold(before, written)
        if not written or record is None:
            return False
        self._record = record
        if record.lease is None:
            self._on_end()
        return True

    # Losing.

    def _catch_up(self, write: _Write) -> None:
        """After a refused write: know what another process wrote under this very grant, or lose.

        Token, owner and time name the grant. The token alone does not: a store that was restored
        without raising the epoch can hand the same one out again.
        """
        stored, now = self._engine.read(write.before.run_id)
        error = self._loss(stored, write.before.version, now)
        if error is not None:
            raise self.lose(error)
        assert stored is not None  # or else it was rewound
        assert stored.lease is not None  # or else it was released
        grant = (stored.lease.owner, stored.lease.acquired_at)
        if stored.version == write.before.version or grant != (self.owner, self._granted_at):
            raise self.lose(
                RunStoreError(
                    RUN_CONFLICT,
                    "unexpected_version",
                    f"run {write.before.run_id!r}: version {write.before.version} was expected, "
                    f"and somebody wrote another under token {self.token}",
                    record=stored,
                )
            )
        self._record = stored
        self._deadline = max(self._deadline, stored.lease.expires_at)

    def _loss(
        self, stored: RunRecord | None, known_version: int, now: datetime
    ) -> RunStoreError | None:
        """The loss that the stored record shows, if it shows one."""
        if stored is None or stored.version < known_version:
            at = "gone" if stored is None else f"at version {stored.version}"
            return RunStoreError(
                RUN_LEASE_LOST,
                "rewound",
                f"run {self._record.run_id!r} is {at}, behind version {known_version} that "
                f"token {self.token} wrote: the store was rewound",
                record=stored,
            )
        try:
            require_holder(stored, self.token, now)
        except RunStoreError as error:
            return error
        return None
