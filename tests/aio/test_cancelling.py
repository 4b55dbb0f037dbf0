"""A cancelled await loses no lease, leaves no thread alone, and wedges no handle."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from runjournal import AsyncJournal, Journal, open_async_journal, open_journal

from .conftest import Gate

pytestmark = pytest.mark.anyio
PutGate = Callable[[AsyncJournal, str], Gate]
Cancelled = Callable[[Callable[[], Awaitable[Any]], Gate], Awaitable[None]]


async def by_scope(call: Callable[[], Awaitable[Any]], gate: Gate) -> None:
    """Cancel the call while it stands before the gate, as anyio and trio do."""
    over = anyio.Event()

    async def run(scope: anyio.CancelScope) -> None:
        with scope:
            await call()
        over.set()

    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()
        group.start_soon(run, scope)
        await gate.entered()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not over.is_set()  # it waits for its thread
        gate.open()
    assert scope.cancelled_caught


async def by_task(call: Callable[[], Awaitable[Any]], gate: Gate) -> None:
    """Cancel the call while it stands before the gate, as asyncio does: twice."""
    task = asyncio.ensure_future(call())
    await gate.entered()
    for _ in range(2):
        task.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not task.done()  # it waits for its thread
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture(
    params=[("asyncio", by_scope), ("trio", by_scope), ("asyncio", by_task)],
    ids=["asyncio-scope", "trio-scope", "asyncio-task"],
)
def way(request: pytest.FixtureRequest) -> tuple[str, Cancelled]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def anyio_backend(way: tuple[str, Cancelled]) -> str:
    return way[0]


@pytest.fixture
def cancelled(way: tuple[str, Cancelled]) -> Cancelled:
    return way[1]


async def last_topic(journal: AsyncJournal, run_id: str) -> str:
    return [e.topic async for e in journal.events(run_id)][-1]


@pytest.mark.parametrize("how", ["acquire", "restore", "claim one", "claim several", "entered"])
async def test_a_lease_granted_to_a_cancelled_await_is_released(
    how: str, gate: PutGate, cancelled: Cancelled
) -> None:
    async with open_async_journal("memory:") as journal:
        ledger = journal.ledger()
        for run_id in ("one", "two"):
            await ledger.start(run_id)

        async def entered() -> None:
            async with ledger.acquire("one"):
                raise AssertionError("it was cancelled before")

        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "acquire": lambda: _awaited(ledger.acquire("one")),
            "restore": lambda: _awaited(ledger.restore("one")),
            "claim one": ledger.claim,
            "claim several": lambda: ledger.claim(limit=2),
            "entered": entered,
        }
        await cancelled(calls[how], gate(journal, "claim" if "claim" in how else "append"))
        assert await last_topic(journal, "one") == "run.lease_released"
        if how == "claim several":
            assert await last_topic(journal, "two") == "run.lease_released"
        assert ledger.sync.handles == []
        assert [r.lease for r in await journal.runs()] == [None, None]
        assert journal._threads.busy == 0


async def _awaited(pending: Awaitable[Any]) -> Any:
    return await pending


async def test_a_cancelled_write_lands_and_the_handle_goes_on(
    gate: PutGate, cancelled: Cancelled
) -> None:
    async with open_async_journal("memory:") as journal:
        lease = await journal.ledger().acquire("run")
        await cancelled(lambda: lease.save_checkpoint({"n": 1}), gate(journal, "append"))
        checkpoint = lease.record.checkpoint_ref
        assert checkpoint is not None
        assert checkpoint.version == lease.record.version
        await lease.save_checkpoint({"n": 2})
        assert await lease.checkpoint() == {"n": 2}
        await cancelled(lambda: lease.complete("done"), gate(journal, "append"))
        assert lease.record.status == "completed"
        assert (await lease.complete("done")).status == "completed"
        assert (await journal.verify()).findings == []


async def test_a_block_that_is_cancelled_releases_its_lease(
    gate: PutGate, cancelled: Cancelled
) -> None:
    async with open_async_journal("memory:") as journal:

        async def work() -> None:
            async with journal.ledger().acquire("run") as lease:
                await lease.save_checkpoint({"n": 1})
                held_up.append(gate(journal, "append"))
                opened.set()
                await lease.save_checkpoint({"n": 2})

        class Later:
            async def entered(self) -> None:
                await opened.wait()
                await held_up[0].entered()

            def open(self) -> None:
                held_up[0].open()

        held_up, opened = list[Gate](), anyio.Event()
        await cancelled(work, Later())  # type: ignore[arg-type]
        assert [e.topic async for e in journal.events("run")][-2:] == [
            "run.checkpoint_saved",
            "run.lease_released",
        ]


async def test_what_waits_for_a_thread_is_cancelled_at_once(gate: PutGate) -> None:
    async with open_async_journal("memory:", threads=1) as journal:
        ledger = journal.ledger()
        held_up = gate(journal, "append")
        async with anyio.create_task_group() as group:
            group.start_soon(ledger.start, "first")
            await held_up.entered()
            with anyio.move_on_after(0.01) as scope:
                await ledger.start("second")
            assert scope.cancelled_caught
            held_up.open()
        assert [r.run_id for r in await journal.runs()] == ["first"]


async def test_a_cancelled_page_of_a_subscription_is_not_lost(
    gate: PutGate, cancelled: Cancelled
) -> None:
    async with open_async_journal("memory:") as journal:
        for n in range(5):
            await journal.ledger().start(f"run-{n}")
        events = journal.subscribe(follow=False)
        await cancelled(lambda: anext(events), gate(journal, "select_notifications"))
        assert events.position == 0
        assert [position async for position, _ in events] == [1, 2, 3, 4, 5]


async def test_calls_that_are_held_up_leave_the_host_its_threads(gate: PutGate) -> None:
    async with open_async_journal("memory:", threads=2) as journal:
        held_up = gate(journal, "get")
        async with anyio.create_task_group() as group:
            for _ in range(200):
                group.start_soon(journal.get, "run")
            await held_up.entered()
            await anyio.wait_all_tasks_blocked()
            host = anyio.to_thread.current_default_thread_limiter()
            assert host.borrowed_tokens == 0
            assert journal._threads.busy == 2
            held_up.open()
        assert journal._threads.busy == 0


@pytest.mark.parametrize("what", ["verify", "rebuild"])
async def test_a_long_call_ends_soon_after_its_await_was_cancelled(
    what: str, cancelled: Cancelled
) -> None:
    class Progress:
        def __init__(self) -> None:
            self.calls = 0

        def call(self, _: Any) -> None:
            self.calls += 1

    async with open_async_journal("memory:") as journal:
        ledger = journal.sync.ledger()
        for n in range(600):  # more than a page
            ledger.start(f"run-{n}")
        uncut, cut = Progress(), Progress()
        run: Callable[[Any], Awaitable[Any]] = {
            "verify": lambda progress: journal.verify(progress=progress),
            "rebuild": lambda progress: journal.rebuild("run_records", progress),
        }[what]
        await run(uncut.call)
        held_up = Gate(cut, "call")
        await cancelled(lambda: run(cut.call), held_up)
        assert 1 == cut.calls < uncut.calls


async def test_closing_waits_for_a_grant_and_releases_it(gate: PutGate) -> None:
    async with open_async_journal("memory:") as journal:
        held_up, leases = gate(journal, "append"), list[Any]()

        async def take() -> None:
            leases.append(await journal.ledger().acquire("run"))

        async def let_go() -> None:
            await anyio.wait_all_tasks_blocked()
            assert not journal.closed
            held_up.open()

        async with anyio.create_task_group() as group:
            group.start_soon(take)
            await held_up.entered()
            group.start_soon(let_go)
            await journal.close()
    assert leases[0].record.lease is None


async def test_opening_that_is_cancelled_closes_the_journal(
    monkeypatch: pytest.MonkeyPatch, cancelled: Cancelled
) -> None:
    from runjournal.adapters.aio import journal as module

    opened = list[Journal]()

    def keep(url: str, **options: Any) -> Journal:
        opened.append(open_journal(url, **options))
        return opened[-1]

    monkeypatch.setattr(module, "open_journal", keep)
    held_up = Gate(module, "open_journal")
    await cancelled(lambda: _awaited(open_async_journal("memory:")), held_up)
    assert opened[0].closed


def test_a_release_that_waits_for_a_thread_outlasts_further_cancels(gate: PutGate) -> None:
    """asyncio's cancel() comes once for each call of it, and through every shield."""

    async def main() -> None:
        async with AsyncJournal(open_journal("memory:"), threads=1) as journal:
            lease = await journal.ledger().acquire("run")

            async def hold() -> None:
                async with lease:
                    await anyio.sleep_forever()

            held_up = gate(journal, "get")
            busy = asyncio.ensure_future(journal.get("run"))
            await held_up.entered()
            holding = asyncio.ensure_future(hold())
            await anyio.wait_all_tasks_blocked()
            for _ in range(3):
                holding.cancel()
                await anyio.wait_all_tasks_blocked()
            held_up.open()
            with pytest.raises(asyncio.CancelledError):
                await holding
            await busy
            assert lease.record.lease is None

    asyncio.run(main())


def test_a_grant_that_outlives_its_event_loop_is_released(
    gate: PutGate, wait_until: Callable[[Callable[[], Any]], None]
) -> None:
    """asyncio.run ends all tasks that are left, and waits for no thread."""
    journal = AsyncJournal(open_journal("memory:"))
    held_up = gate(journal, "append")

    async def main() -> None:
        asyncio.ensure_future(_awaited(journal.ledger().acquire("run")))  # noqa: RUF006
        await held_up.entered()

    asyncio.run(main())
    held_up.open()
    wait_until(lambda: len(list(journal.sync.events("run"))) == 3)
    assert [e.topic for e in journal.sync.events("run")][-1] == "run.lease_released"
    journal.sync.close()


async def test_a_pending_lease_that_nobody_awaits_is_warned_of() -> None:
    async with open_async_journal("memory:") as journal:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            journal.ledger().acquire("run")
        assert await journal.get("run") is None


async def test_an_error_beats_the_release_that_fails() -> None:
    async def work() -> None:
        async with journal.ledger().acquire("run"):
            await journal.ledger().cancel("run")
            raise ZeroDivisionError

    async with open_async_journal("memory:") as journal:
        with pytest.raises(ZeroDivisionError):
            await work()
