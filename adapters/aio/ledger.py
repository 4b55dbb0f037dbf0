"""AsyncRunLedger: a RunLedger whose calls are awaited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, overload

from ...domain.lease import RunLeaseHandle
from ...domain.ledger import RunLedger
from ...domain.record import RunRecord
from ...domain.run_operator import CommandOutcome, RunOperator
from .handle import AsyncRunLeaseHandle
from .threads import Threads
from .twins import Pending, like


class AsyncRunOperator:
    """Start, get, cancel, fail, resume, decide and resolve: no lease is needed for any of them.

    As RunOperator. A command whose await was cancelled has landed or not: `resolve`, or repeating
    it under its `command_id`, tells.
    """

    def __init__(self, operator: RunOperator, threads: Threads) -> None:
        self._operator = operator
        self._threads = threads

    @like(RunOperator.start)
    async def start(
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
        # Here and not in the thread: it copies the input, which other tasks may change.
        start = self._operator.prepare_start(
            run_id,
            kind,
            input,
            delivery_ref,
            authority_ref,
            labels,
            parent_run_id,
            available_at,
            actor,
            command_id,
        )
        return await self._threads.call(start)

    @like(RunOperator.get)
    async def get(self, run_id: str) -> RunRecord | None:
        return await self._threads.call(self._operator.get, run_id)

    @like(RunOperator.cancel)
    async def cancel(
        self,
        run_id: str,
        message: str | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        return await self._threads.call(self._operator.cancel, run_id, message, actor, command_id)

    @like(RunOperator.fail)
    async def fail(
        self,
        run_id: str,
        code: str,
        message: str | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        return await self._threads.call(
            self._operator.fail, run_id, code, message, actor, command_id
        )

    @like(RunOperator.request_resume)
    async def request_resume(
        self, run_id: str, actor: str | None = None, command_id: str | None = None
    ) -> RunRecord:
        return await self._threads.call(self._operator.request_resume, run_id, actor, command_id)

    @like(RunOperator.record_decision)
    async def record_decision(
        self,
        run_id: str,
        approval_id: str,
        decision: str,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        return await self._threads.call(
            self._operator.record_decision, run_id, approval_id, decision, actor, command_id
        )

    @like(RunOperator.resolve)
    async def resolve(self, command_id: str, run_id: str) -> CommandOutcome:
        return await self._threads.call(self._operator.resolve, command_id, run_id)


class AsyncRunLedger(AsyncRunOperator):
    """Acquire, restore, claim and adopt, beside everything an AsyncRunOperator does.

    Got from `journal.ledger(...)`; as RunLedger. Leases are renewed in a thread, so a blocked event
    loop loses none. A lease whose await was cancelled while it was granted is released again.
    """

    def __init__(self, ledger: RunLedger, threads: Threads) -> None:
        super().__init__(ledger, threads)
        self._ledger = ledger

    @property
    def sync(self) -> RunLedger:
        """The ledger behind it, for code that runs in threads."""
        return self._ledger

    @property
    def owner(self) -> str:
        """Who holds the leases."""
        return self._ledger.owner

    @property
    def lease_ttl(self) -> float:
        """Seconds a lease lasts without renewal."""
        return self._ledger.lease_ttl

    @property
    def heartbeat_every(self) -> float:
        """Seconds between background renewals."""
        return self._ledger.heartbeat_every

    @like(RunLedger.acquire)
    def acquire(self, run_id: str, heartbeat: bool = True) -> Pending[AsyncRunLeaseHandle]:
        return Pending(self._take(partial(self._ledger.acquire, run_id, heartbeat)))

    @like(RunLedger.restore)
    def restore(self, run_id: str, heartbeat: bool = True) -> Pending[AsyncRunLeaseHandle]:
        return Pending(self._take(partial(self._ledger.restore, run_id, heartbeat)))

    @like(RunLedger.adopt)
    def adopt(self, run_id: str, fencing_token: int) -> Pending[AsyncRunLeaseHandle]:
        return Pending(self._take(partial(self._ledger.adopt, run_id, fencing_token)))

    @overload
    async def claim(
        self, kinds: Sequence[str] | None = None, limit: None = None, heartbeat: bool = True
    ) -> AsyncRunLeaseHandle | None: ...

    @overload
    async def claim(
        self, kinds: Sequence[str] | None = None, *, limit: int, heartbeat: bool = True
    ) -> list[AsyncRunLeaseHandle]: ...

    @like(RunLedger.claim)
    async def claim(
        self,
        kinds: Sequence[str] | None = None,
        limit: int | None = None,
        heartbeat: bool = True,
    ) -> AsyncRunLeaseHandle | list[AsyncRunLeaseHandle] | None:
        if limit is None:

            def one() -> RunLeaseHandle | None:
                return self._ledger.claim(kinds, heartbeat=heartbeat)

            handle = await self._threads.grant(one, _give_back)
            return None if handle is None else self._face(handle)

        def several() -> Sequence[RunLeaseHandle]:
            return self._ledger.claim(kinds, limit=limit, heartbeat=heartbeat)

        return [self._face(h) for h in await self._threads.grant(several, _give_back)]

    @like(RunLedger.release_all)
    async def release_all(self, reason: str | None = None) -> None:
        await self._threads.call(self._ledger.release_all, reason)

    async def _take(self, take: Callable[[], RunLeaseHandle]) -> AsyncRunLeaseHandle:
        return self._face(await self._threads.grant(take, _give_back))

    def _face(self, handle: RunLeaseHandle) -> AsyncRunLeaseHandle:
        return AsyncRunLeaseHandle(handle, self._threads)


def _give_back(
    taken: RunLeaseHandle | Sequence[RunLeaseHandle] | None, error: BaseException
) -> None:
    """As if the `with` block of each had been left with this error."""
    handles = (taken,) if isinstance(taken, RunLeaseHandle) else taken or ()
    for handle in handles:
        handle.__exit__(type(error), error, None)
