"""AsyncRunLeaseHandle: a RunLeaseHandle whose calls are awaited."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import anyio.lowlevel

from ...domain.errors import RunStoreError
from ...domain.lease import RunLeaseHandle
from ...domain.record import RunRecord
from .threads import Threads
from .twins import like


class AsyncRunLeaseHandle:
    """The holder's side of one run, got from `ledger.acquire`, `restore`, `claim` or `adopt`.

    A thin face of a RunLeaseHandle: each call is carried out by that one, in a worker thread. What
    needs no thread is a property or a plain method. Also made from a handle that there is already,
    such as a worker's: `AsyncRunLeaseHandle(ctx.lease)`.

    A cancelled await raises once the call under way has ended; `record` then tells what landed. As
    an async context manager it releases the run, also where everything is being cancelled.
    """

    def __init__(self, handle: RunLeaseHandle, threads: Threads | None = None) -> None:
        self._handle = handle
        self._threads = Threads() if threads is None else threads

    @property
    def sync(self) -> RunLeaseHandle:
        """The handle behind it, for code that runs in threads."""
        return self._handle

    # What the holder knows without asking the store.

    @property
    @like(RunLeaseHandle.run_id)
    def run_id(self) -> str:
        return self._handle.run_id

    @property
    @like(RunLeaseHandle.owner)
    def owner(self) -> str:
        return self._handle.owner

    @property
    @like(RunLeaseHandle.fencing_token)
    def fencing_token(self) -> int:
        return self._handle.fencing_token

    @property
    @like(RunLeaseHandle.attempt)
    def attempt(self) -> int:
        return self._handle.attempt

    @property
    @like(RunLeaseHandle.ttl)
    def ttl(self) -> float:
        return self._handle.ttl

    @property
    @like(RunLeaseHandle.record)
    def record(self) -> RunRecord:
        return self._handle.record

    @property
    @like(RunLeaseHandle.held)
    def held(self) -> bool:
        return self._handle.held

    @property
    @like(RunLeaseHandle.trusted_for)
    def trusted_for(self) -> float:
        return self._handle.trusted_for

    @property
    @like(RunLeaseHandle.lost)
    def lost(self) -> RunStoreError | None:
        return self._handle.lost

    @like(RunLeaseHandle.invocation_id)
    def invocation_id(self, name: str) -> str:
        return self._handle.invocation_id(name)

    @like(RunLeaseHandle.stop_heartbeat)
    def stop_heartbeat(self) -> None:
        self._handle.stop_heartbeat()

    @like(RunLeaseHandle.on_lost)
    def on_lost(self, callback: Callable[[RunStoreError], None]) -> None:
        self._handle.on_lost(callback)

    # What the store is asked for: properties of the synchronous handle, methods here.

    @like(RunLeaseHandle.checkpoint)
    async def checkpoint(self) -> Any:
        return await self._threads.call(lambda: self._handle.checkpoint)

    @like(RunLeaseHandle.input)
    async def input(self) -> Any:
        return await self._threads.call(lambda: self._handle.input)

    # The lease itself.

    @like(RunLeaseHandle.renew)
    async def renew(self) -> None:
        await self._threads.call(self._handle.renew)

    @like(RunLeaseHandle.ensure_held)
    async def ensure_held(self) -> None:
        if self._handle.held:  # it asks nobody then, so a thread would be for nothing
            await anyio.lowlevel.checkpoint()
        else:
            await self._threads.call(self._handle.ensure_held)

    # Writing.

    @like(RunLeaseHandle.save_checkpoint)
    async def save_checkpoint(
        self, state: Any, key: str = "latest", snapshot_version: int = 1
    ) -> RunRecord:
        # Here and not in the thread: it copies the state, which other tasks may change.
        return await self._threads.call(
            self._handle.prepare_checkpoint(state, key, snapshot_version)
        )

    @like(RunLeaseHandle.suspend)
    async def suspend(
        self, pending_approval_ids: Any = (), resume_when_decided: bool = False
    ) -> RunRecord:
        return await self._threads.call(
            self._handle.suspend, pending_approval_ids, resume_when_decided
        )

    @like(RunLeaseHandle.complete)
    async def complete(
        self, result: Any = None, code: str = "ok", message: str | None = None
    ) -> RunRecord:
        return await self._threads.call(self._handle.prepare_completion(result, code, message))

    @like(RunLeaseHandle.fail)
    async def fail(self, code: str, message: str | None = None) -> RunRecord:
        return await self._threads.call(self._handle.fail, code, message)

    @like(RunLeaseHandle.cancel)
    async def cancel(self, message: str | None = None) -> RunRecord:
        return await self._threads.call(self._handle.cancel, message)

    @like(RunLeaseHandle.release)
    async def release(
        self,
        reason: str | None = None,
        error: str | None = None,
        available_at: datetime | None = None,
    ) -> RunRecord:
        return await self._threads.call(self._handle.release, reason, error, available_at)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self._threads.surely(self._handle.__exit__, exc_type, exc, tb)
