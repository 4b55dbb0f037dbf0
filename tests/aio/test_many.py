"""Two hundred handles in one event loop, and nearly every third await is cancelled somewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any

import anyio
import psycopg
import pytest
from runjournal import (
    AsyncJournal,
    AsyncRunLeaseHandle,
    AsyncRunLedger,
    Journal,
    open_async_journal,
)

pytestmark = pytest.mark.anyio

HANDLES = 200
THREADS = 32
#: The share of awaits that are cancelled, and the seconds within which they are.
SHARE, WITHIN = 0.3, 0.08
CANCELLED = object()


class Host:
    """One task of the host: works on a run of its own, and is interrupted now and then."""

    def __init__(self, journal: AsyncJournal, ledger: AsyncRunLedger, run_id: str, seed: int):
        self.run_id = run_id
        self.cancelled = 0
        self._journal = journal
        self._ledger = ledger
        self._random = Random(f"{seed} {run_id}")

    async def work(self) -> None:
        lease = await self._acquire()
        done = 0
        while done < 3:
            version = lease.record.version
            saved = await self._perhaps(partial(lease.save_checkpoint, {"done": done + 1}))
            assert saved is CANCELLED or lease.record.version == version + 1
            done += lease.record.version - version
        if self._random.random() < SHARE:
            await self._walk_away(lease)
            return
        while not lease.record.is_terminal:
            await self._perhaps(partial(lease.complete, done))
        assert await lease.checkpoint() == {"done": 3}

    async def _acquire(self) -> AsyncRunLeaseHandle:
        while True:
            lease = await self._perhaps(lambda: _awaited(self._ledger.acquire(self.run_id)))
            if isinstance(lease, AsyncRunLeaseHandle):
                return lease
            record = await self._journal.get(self.run_id)
            assert record is None or record.lease is None  # at once, not when it expires

    async def _walk_away(self, lease: AsyncRunLeaseHandle) -> None:
        with anyio.CancelScope() as scope:
            async with lease:
                scope.cancel()
                await anyio.sleep_forever()
        assert lease.record.lease is None

    async def _perhaps(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """What it returns, or CANCELLED. Every other cancellation is asyncio's own, if it can."""
        if self._random.random() >= SHARE:
            return await call()
        seconds = self._random.uniform(0, WITHIN)
        try:
            if _on_asyncio() and self.cancelled % 2:
                async with asyncio.timeout(seconds):
                    return await call()
            else:
                with anyio.fail_after(seconds):
                    return await call()
        except TimeoutError:
            self.cancelled += 1
            return CANCELLED


async def _awaited(pending: Awaitable[Any]) -> Any:
    return await pending


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def work_on_all(journal: AsyncJournal, verify_run: Callable[[Journal, str], None]) -> None:
    ledger = journal.ledger(lease_ttl=600)  # what leaks does not expire within the test
    hosts = [Host(journal, ledger, f"run-{n}", seed=1) for n in range(HANDLES)]
    async with anyio.create_task_group() as group:
        for host in hosts:
            group.start_soon(host.work)
    assert sum(host.cancelled for host in hosts) > HANDLES / 2
    assert ledger.sync.handles == []
    assert journal._threads.busy == 0
    records = await journal.runs(limit=HANDLES)
    assert len(records) == HANDLES
    assert {record.lease for record in records} == {None}
    assert {str(record.status) for record in records} == {"completed", "queued"}
    assert (await journal.verify()).findings == []
    for record in records[::10]:
        verify_run(journal.sync, record.run_id)


async def test_many_handles_on_sqlite(
    sqlite_url: str, verify_run: Callable[[Journal, str], None]
) -> None:
    async with open_async_journal(f"{sqlite_url}?synchronous=normal", threads=THREADS) as journal:
        await work_on_all(journal, verify_run)


async def test_many_handles_on_postgres(
    postgres_url: str, verify_run: Callable[[Journal, str], None]
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as conn:

        def connections() -> list[str]:
            rows = conn.execute(
                "SELECT state FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            return [state for (state,) in rows]

        async with open_async_journal(postgres_url, threads=THREADS) as journal:
            await work_on_all(journal, verify_run)
            assert set(connections()) == {"idle"}
            assert len(connections()) <= THREADS + 1  # and the beat's
        with anyio.fail_after(30):
            while connections():
                await anyio.sleep(0.01)
