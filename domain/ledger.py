"""RunLedger: grants the leases of runs, and carries out what is asked from outside a lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import overload
from weakref import WeakSet

from . import commands as c
from .adopted import AdoptedLease
from .checks import check_identifier, check_identifiers, check_integer, check_seconds, refuse
from .decide import decide
from .engine import Engine, Instant
from .errors import RUN_LEASE_LOST, RUN_NOT_FOUND, RunStoreError
from .holding import require_holder
from .lease import RunLeaseHandle
from .limiting import raise_ended
from .limits import DeploymentLimits
from .ports import (
    Authorizer,
    Beat,
    Change,
    Clock,
    Ids,
    Lock,
    PayloadCodec,
    Reply,
    RunStore,
    Ticks,
)
from .record import RunRecord
from .run_operator import RunOperator


class RunLedger(RunOperator):
    """Acquire, restore and claim, beside everything a RunOperator does.

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
        authorizer: Authorizer | None = None,
        on_loss: Callable[[RunStoreError], None] | None = None,
    ) -> None:
        self.owner = check_identifier(owner, "owner")
        self.lease_ttl = check_seconds(lease_ttl, "lease_ttl")
        limits = limits or DeploymentLimits()
        limits.check_ttl(self.lease_ttl)
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
        self.beat = beat
        super().__init__(Engine(store, codec, ids, ticks, make_lock, clock, limits, authorizer))
        self._on_loss = on_loss
        self._handles: dict[str, RunLeaseHandle] = {}
        self._changing = make_lock()
        self._adopted: WeakSet[AdoptedLease] = WeakSet()

    # Leases.

    def acquire(self, run_id: str, heartbeat: bool = True) -> RunLeaseHandle:
        """Take the lease of this run, creating the run when it is new.

        heartbeat  renew in the background every `heartbeat_every` seconds

        An expired lease is taken over: token and attempt grow. After a release only the token
        grows. Acquiring again under the same owner fences the older handle: one of this ledger is
        lost at once, one elsewhere finds out at its next beat or call. Raises RUN_LEASE_HELD,
        RUN_ALREADY_TERMINAL, RUN_SUSPENDED; RUN_LIMIT_EXCEEDED / attempts or run_seconds when they
        are used up and the run was ended for it (`error.record`); RUN_LIMIT_EXCEEDED otherwise
        when another host let the run grow beyond what this one allows.
        """
        check_identifier(run_id, "run id")
        return self._take(run_id, heartbeat, resume=False, create=True)

    def restore(self, run_id: str, heartbeat: bool = True) -> RunLeaseHandle:
        """Take the lease of a suspended, abandoned or queued run, in one append.

        It is the resume command itself: of two that restore the same run only one goes on.
        Raises RUN_NOT_FOUND, RUN_LEASE_HELD, RUN_ALREADY_TERMINAL, RUN_LIMIT_EXCEEDED as `acquire`.
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

        On the way it ends runs whose attempts or time are used up, and sets aside those that are
        beyond another limit of this host (see `journal.attention`).
        """
        wanted = None if kinds is None else check_identifiers(kinds, "kind")
        count = 1 if limit is None else check_integer(limit, "limit", least=1, most=1000)
        at = self._engine.instant()
        command_id = self._engine.new_id()

        def grant(record: RunRecord, now: datetime) -> list[Change]:
            command = c.Acquire(
                run_id=record.run_id,
                command_id=command_id,
                owner=self.owner,
                ttl=self.lease_ttl,
            )
            events = decide(record, command, now, self._engine.limits, self._engine.store.epoch)
            return self._engine.changes(record, events)[0]

        granted = self._engine.store.claim(wanted, count, grant, at.given)
        handles = [self._handle(g.record, g.reply, at, heartbeat) for g in granted]
        if limit is None:
            return handles[0] if handles else None
        return handles

    def adopt(self, run_id: str, fencing_token: int) -> AdoptedLease:
        """Write under a lease that another process holds and renews, as the same holder.

        fencing_token  the token that this process was handed, as by a parent process

        The token is the capability: hand it to nobody but your own helpers. Writes of all who have
        it are put in order by the store. Raises RUN_LEASE_LOST, RUN_NOT_FOUND,
        RUN_ALREADY_TERMINAL.
        """
        check_identifier(run_id, "run id")
        token = check_integer(fencing_token, "fencing_token", least=1)
        at = self._engine.instant()
        record, now = self._engine.read(run_id)
        if record is None:
            raise RunStoreError(RUN_NOT_FOUND, "run", f"run {run_id!r} does not exist")
        lease = require_holder(record, token, now)
        reply = Reply(now, lease.expires_at, False)
        handle = AdoptedLease(self._engine, self.beat, record, reply, at, lambda _: None)
        self._adopted.add(handle)
        return handle

    def release_all(self, reason: str | None = None) -> None:
        """Release every lease of this ledger that is still held; losses are passed over."""
        for handle in self.handles:
            try:
                handle.release(reason=reason)
            except RunStoreError:
                self._ended(handle)

    # For the beat and the journal.

    @property
    def handles(self) -> list[RunLeaseHandle]:
        """The handles that still hold a lease as far as they know."""
        return list(self._handles.values())

    def beat_once(self, handles: Sequence[RunLeaseHandle]) -> None:
        """Renew these leases in one trip and find out about those that were not answered."""
        at = self._engine.instant()
        replies = self._engine.renew([h.lease_ref for h in handles], at)
        for handle in handles:
            reply = replies.get(handle.run_id)
            if reply is not None:
                handle.renewed(reply, at)
            else:
                handle.examine()

    def forked(self, owner: str) -> None:
        """In the child of a fork: the leases are the parent's, and the owner's name too."""
        self.owner = owner
        self._changing = self._engine.make_lock()  # a thread that is not here may have it
        for handle in [*self.handles, *self._adopted]:
            handle.lose(
                RunStoreError(
                    RUN_LEASE_LOST,
                    "forked",
                    f"run {handle.run_id!r} is held by the parent of this process",
                    record=handle.record,
                )
            )

    # Inside.

    def _take(self, run_id: str, heartbeat: bool, *, resume: bool, create: bool) -> RunLeaseHandle:
        command_id = self._engine.new_id()
        start = None
        if create:
            payload = self._engine.encode("input_bytes", None, "input", run_id)
            start = c.Start(run_id=run_id, command_id=command_id, input=payload)
        command = c.Acquire(
            run_id=run_id,
            command_id=command_id,
            owner=self.owner,
            ttl=self.lease_ttl,
            resume=resume,
            start=start,
        )
        done = self._engine.perform(command)
        if done.record.is_terminal:
            raise_ended(done.record, self._engine.limits)
        assert done.reply is not None  # a grant is always written
        return self._handle(done.record, done.reply, done.at, heartbeat)

    def _handle(
        self, record: RunRecord, reply: Reply, at: Instant, heartbeat: bool
    ) -> RunLeaseHandle:
        handle = RunLeaseHandle(self._engine, self.beat, record, reply, at, self._ended)
        if self._on_loss is not None:
            handle.on_lost(self._on_loss)
        if heartbeat:
            self.beat.watch(handle)
        with self._changing:
            last = self._handles.get(record.run_id)
            # Another thread may have acquired it again meanwhile.
            newer = last if last and last.fencing_token > handle.fencing_token else handle
            self._handles[record.run_id] = newer
        older = last if newer is handle else handle
        if older is not None:
            older.overtaken(newer.record, reply.now)
        return handle

    def _ended(self, handle: RunLeaseHandle) -> None:
        with self._changing:
            if self._handles.get(handle.run_id) is handle:
                del self._handles[handle.run_id]
        self.beat.unwatch(handle)
