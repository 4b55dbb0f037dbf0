"""RunLeaseHandle: what one holder may do with one run while its lease lasts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import commands as c
from .checks import (
    check_identifier,
    check_identifiers,
    check_integer,
    check_text,
    check_time,
    readable,
    refuse,
)
from .engine import Engine, Instant
from .errors import RunStoreError
from .lease_readings import LeaseReadings
from .ports import LeaseRef, Reading, Reply
from .record import RunRecord
from .writer import HolderWriter

if TYPE_CHECKING:
    from .ports import Beat


class RunLeaseHandle(LeaseReadings):
    """The capability of the one holder of a run, got from `ledger.acquire`, `restore` or `claim`.

    Every write carries the fencing token and is judged by the store on its own clock. The first
    loss latches: every later call raises that same error without touching the store. As a context
    manager it releases the run when the block ends without having finished it.
    """

    def __init__(
        self,
        engine: Engine,
        beat: Beat,
        record: RunRecord,
        reply: Reply,
        at: Instant,
        on_end: Callable[[RunLeaseHandle], None],
    ) -> None:
        assert record.lease is not None  # a handle stands for a granted lease
        self._engine = engine
        self._beat = beat
        self._run_id = record.run_id
        self._writer = HolderWriter(engine, record, record.lease, reply, at, lambda: on_end(self))

    # The lease itself.

    def renew(self) -> None:
        """Move the deadline to the store's instant + ttl. No event, no new version.

        Raises RUN_LEASE_LOST (expired, taken_over, cancelled, released, rewound), or
        RUN_ALREADY_TERMINAL when this holder has ended the run.
        """
        self._writer.renew()

    def ensure_held(self) -> None:
        """The gate before the next step: returns only while the run is this holder's.

        Free while the lease is trusted; asks the store when it is not. Raises as `renew` does.
        """
        if not self.held:
            self.renew()

    def stop_heartbeat(self) -> None:
        """Renew no more in the background; the lease then runs out unless `renew` is called."""
        self._beat.unwatch(self)

    def on_lost(self, callback: Callable[[RunStoreError], None]) -> None:
        """Call `callback(error)` once when the loss is noticed, from whichever thread noticed."""
        self._writer.lost_callbacks.append(callback)
        if self._writer.lost is not None:
            callback(self._writer.lost)

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
        return self.prepare_checkpoint(state, key, snapshot_version)()

    def suspend(
        self, pending_approval_ids: Any = (), resume_when_decided: bool = False
    ) -> RunRecord:
        """Let go of the run until decisions arrive; nobody needs to stay alive for it.

        pending_approval_ids  what to decide; `record.approvals` will have the answers. Each
                              suspension begins a new set
        resume_when_decided   the last decision queues the run by itself; otherwise
                              `request_resume` or `restore` does

        Repeating it converges. Once the run is suspended, other arguments are RUN_LEASE_LOST /
        released: the lease was given back. Raises as save_checkpoint does, and
        RUN_LIMIT_EXCEEDED / approvals.
        """
        pending = check_identifiers(pending_approval_ids, "approval id")
        if resume_when_decided and not pending:
            raise refuse("argument", "resume_when_decided needs at least one pending approval id")
        self._engine.limits.check("approvals", len(pending), self._run_id)
        return self._writer.write(
            lambda command_id: c.Suspend(
                run_id=self._run_id,
                command_id=command_id,
                fencing_token=self._writer.token,
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
        return self.prepare_completion(result, code, message)()

    def fail(self, code: str, message: str | None = None) -> RunRecord:
        """End the run as failed. Repeating it returns the record. Raises as `complete` does."""
        return self._writer.write(
            lambda command_id: c.Fail(
                run_id=self._run_id,
                command_id=command_id,
                fencing_token=self._writer.token,
                code=check_identifier(code, "code"),
                message=check_text(message, "message"),
            )
        )

    def cancel(self, message: str | None = None) -> RunRecord:
        """End the run because the business wants it no more. To hand it back, use `release`."""
        return self._writer.write(
            lambda command_id: c.Cancel(
                run_id=self._run_id,
                command_id=command_id,
                actor=self._writer.owner,
                fencing_token=self._writer.token,
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
        return self._writer.write(
            lambda command_id: c.Release(
                run_id=self._run_id,
                command_id=command_id,
                fencing_token=self._writer.token,
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
        if self._writer.lost is not None or self._writer.record.lease is None:
            return
        try:
            if exc is None:
                self.release(reason="left unfinished")
            elif isinstance(exc, Exception):
                self.release(reason="exception", error=readable(f"{type(exc).__name__}: {exc}"))
            else:
                self.release(reason="interrupted")
        except RunStoreError:
            # The body's own exception is what the caller must see. Renewed no more, the lease
            # expires by itself.
            self.stop_heartbeat()
            if exc is None:
                raise

    # For the async face: what checks and copies, apart from the writing.

    def prepare_checkpoint(
        self, state: Any, key: str, snapshot_version: int
    ) -> Callable[[], RunRecord]:
        """Check and copy now; what it returns writes, as `save_checkpoint` does."""
        payload = self._engine.encode("checkpoint_bytes", state, "state", self._run_id)
        if type(key) is not str or key != "latest":
            check_identifier(key, "key")
        if type(snapshot_version) is not int or snapshot_version != 1:
            check_integer(snapshot_version, "snapshot_version", least=0)
        return partial(
            self._writer.write,
            lambda command_id: c.SaveCheckpoint(
                run_id=self._run_id,
                command_id=command_id,
                fencing_token=self._writer.token,
                key=key,
                snapshot_version=snapshot_version,
                state=payload,
            ),
        )

    def prepare_completion(
        self, result: Any, code: str, message: str | None
    ) -> Callable[[], RunRecord]:
        """Check and copy now; what it returns writes, as `complete` does."""
        payload = self._engine.encode("result_bytes", result, "result", self._run_id)
        return partial(
            self._writer.write,
            lambda command_id: c.Complete(
                run_id=self._run_id,
                command_id=command_id,
                fencing_token=self._writer.token,
                code=check_identifier(code, "code"),
                message=check_text(message, "message"),
                result=payload,
            ),
        )

    # For the ledger and its beat.

    @property
    def lease_ref(self) -> LeaseRef:
        """What names this lease to the store."""
        return self._writer.lease_ref

    def renewed(self, reply: Reply, at: Instant) -> None:
        """Take note of a renewal that the beat made for many leases at once."""
        self._writer.believe(reply, at)

    def examine(self) -> None:
        """Find out why a renewal was not answered; latches the loss if it is one."""
        self._writer.examine()

    def overtaken(self, record: RunRecord, now: datetime) -> None:
        """Take note that the run was granted again under this very owner."""
        self._writer.examine(Reading(record, now))

    def lose(self, error: RunStoreError) -> None:
        """Latch a loss that was learnt elsewhere; the first one stays."""
        self._writer.lose(error)
