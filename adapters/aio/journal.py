"""AsyncJournal and open_async_journal: an open journal whose calls are awaited."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from ...domain.checks import check_seconds
from ...domain.limits import DeploymentLimits
from ...domain.ports import Authorizer, Clock
from ...domain.registry import EventRegistry
from ...projections.ports import ProjectionState
from ...projections.projector import Projector
from ..ciphering import Cipher
from ..clocks import ticks
from ..journal import Journal
from ..opening import open_journal
from .iterating import AsyncSubscription
from .ledger import AsyncRunLedger
from .projections import AsyncProjectionRunner
from .pruning import AsyncJournalPruning
from .readings import AsyncJournalReadings
from .threads import THREADS, Threads
from .transfer import AsyncJournalTransfer
from .twins import Pending, like
from .upkeep import AsyncJournalUpkeep

if TYPE_CHECKING:
    from ..key_value.store import KeyValueStore
    from ..postgres.database import HostPool
    from ..telemetry.telemetry import Telemetry

#: Seconds that a wait goes on at most after its await was cancelled.
SLICE = 0.2
#: A time-out so short that a subscription only looks: the waiting is done in the event loop.
LOOK_ONLY = 1e-9


class AsyncJournal(
    AsyncJournalReadings, AsyncJournalUpkeep, AsyncJournalTransfer, AsyncJournalPruning
):
    """An open run journal whose calls are awaited. As an async context manager it is closed.

    A thin face of a Journal: each call is carried out by that one, in a worker thread. Belongs to
    one event loop, asyncio's or trio's. Made by `open_async_journal`, or from an open journal that
    other threads use as well: `AsyncJournal(journal)`.

    threads  how many calls may be in threads at once; further ones wait. What may take long, or
             only waits (verify, rebuild, a projection, wait_for_work), has a thread beyond it

    A cancelled await raises once the call under way has ended. Callbacks are called in a worker
    thread.
    """

    def __init__(self, journal: Journal, threads: int = THREADS) -> None:
        super().__init__(journal, Threads(threads))

    @property
    def sync(self) -> Journal:
        """The journal behind it, for workers, deliveries and `in_transaction`."""
        return self._journal

    @property
    @like(Journal.atomicity)
    def atomicity(self) -> str:
        return self._journal.atomicity

    @property
    @like(Journal.closed)
    def closed(self) -> bool:
        return self._journal.closed

    @property
    def limits(self) -> DeploymentLimits:
        """What the deployment allows a run to store."""
        return self._journal.limits

    @like(Journal.ledger)
    def ledger(
        self,
        owner: str | None = None,
        lease_ttl: float | timedelta = 60.0,
        heartbeat_every: float | timedelta | None = None,
        clock: Clock | None = None,
        require: str | None = None,
    ) -> AsyncRunLedger:
        ledger = self._journal.ledger(owner, lease_ttl, heartbeat_every, clock, require)
        return AsyncRunLedger(ledger, self._threads)

    @like(Journal.wait_for_work)
    async def wait_for_work(self, timeout: float) -> bool:
        seconds = check_seconds(timeout, "timeout")
        return await self._threads.long(partial(self._wait_for_work, seconds))

    def _wait_for_work(self, seconds: float, stop: threading.Event) -> bool:
        until = ticks() + seconds
        while not stop.is_set() and not self.closed and (left := until - ticks()) > 0:
            if self._journal.wait_for_work(min(left, SLICE)):
                return True
        return False

    # The whole journal in order.

    @like(Journal.position)
    async def position(self) -> int:
        return await self._threads.call(self._journal.position)

    @like(Journal.subscribe)
    def subscribe(
        self,
        after: int = 0,
        topics: Sequence[str] | None = None,
        *,
        follow: bool = True,
        poll: float = 0.1,
        timeout: float | None = None,
    ) -> AsyncSubscription:
        begin = partial(
            self._journal.subscribe,
            after,
            topics,
            follow=follow,
            poll=poll,
            timeout=LOOK_ONLY if follow else None,
        )
        return AsyncSubscription(
            self._threads, begin, after=after, follow=follow, poll=poll, timeout=timeout
        )

    @like(Journal.projection)
    def projection(self, projector: Projector) -> AsyncProjectionRunner:
        return AsyncProjectionRunner(self._journal.projection(projector), self._threads)

    @like(Journal.projection_states)
    async def projection_states(self) -> list[ProjectionState]:
        return await self._threads.call(self._journal.projection_states)

    # Closing.

    @like(Journal.close)
    async def close(self) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self._threads.settle()
        finally:
            await self._threads.surely(self._journal.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        await self.close()


@like(
    open_journal,
    """
    Without opening anything here: `async with open_async_journal(url) as journal`, or
    `journal = await open_async_journal(url)`.

    threads   how many calls may be in worker threads at once (see AsyncJournal); on Postgres, how
              many connections they use at most
    """,
)
def open_async_journal(
    url: str | KeyValueStore,
    *,
    limits: DeploymentLimits | None = None,
    authorizer: Authorizer | None = None,
    registry: EventRegistry | None = None,
    cipher: Cipher | None = None,
    telemetry: Telemetry | bool | None = None,
    schema: str = "public",
    pool: HostPool | None = None,
    pooler: bool = False,
    create: bool = True,
    notify: bool = False,
    threads: int = THREADS,
) -> Pending[AsyncJournal]:
    opening = partial(
        open_journal,
        url,
        limits=limits,
        authorizer=authorizer,
        registry=registry,
        cipher=cipher,
        telemetry=telemetry,
        schema=schema,
        pool=pool,
        pooler=pooler,
        create=create,
        notify=notify,
    )
    return Pending(_open(opening, threads))


async def _open(opening: Callable[[], Journal], threads: int) -> AsyncJournal:
    journal = await Threads(threads).grant(opening, lambda opened, _: opened.close())
    return AsyncJournal(journal, threads)
