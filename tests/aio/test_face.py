"""What the async face does when nothing goes wrong, on both event loops."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from runjournal import (
    AsyncJournal,
    AsyncRunLeaseHandle,
    Event,
    RunStoreError,
    Worker,
    WorkerContext,
    open_async_journal,
    open_journal,
)

pytestmark = pytest.mark.anyio


async def test_a_life_of_a_run(journal_url: str) -> None:
    async with open_async_journal(journal_url) as journal:
        ledger = journal.ledger(owner="one")
        await ledger.start("life", kind="job", input={"files": 2})
        async with ledger.acquire("life") as lease:
            assert (await lease.input(), await lease.checkpoint()) == ({"files": 2}, None)
            await lease.save_checkpoint({"done": 1}, key="first")
            await lease.suspend(["ok?"], resume_when_decided=True)
        record = await ledger.record_decision("life", "ok?", "yes", actor="alice")
        assert record.status == "queued"
        lease = await ledger.restore("life")
        assert lease.held
        assert await lease.checkpoint() == {"done": 1}
        await lease.ensure_held()
        await lease.renew()
        assert (await lease.complete({"files": 2})).status == "completed"
        assert [e.topic async for e in journal.events("life", after_version=6)] == [
            "run.lease_granted",
            "run.completed",
        ]
        assert (await journal.timeline("life")).record.status == "completed"
        assert [r.run_id for r in await journal.runs(kind="job")] == ["life"]
        assert (await journal.verify()).findings == []
    assert journal.closed


async def test_leaving_the_block_releases_as_the_synchronous_one_does(journal_url: str) -> None:
    async with open_async_journal(journal_url) as journal:
        ledger = journal.ledger()
        async with ledger.acquire("a"):
            pass
        with pytest.raises(ZeroDivisionError):
            async with ledger.acquire("b"):
                raise ZeroDivisionError("oh")
        a, b = await journal.get("a"), await journal.get("b")
        assert a is not None
        assert b is not None
        assert (a.status, a.failures, b.status, b.failures) == ("queued", 0, "queued", 1)
        assert b.last_error == "ZeroDivisionError: oh"


async def test_claims_and_adopted_leases(journal_url: str) -> None:
    async with open_async_journal(journal_url) as journal:
        ledger = journal.ledger()
        assert await ledger.claim() is None
        for n in range(4):
            await ledger.start(f"run-{n}")
        one = await ledger.claim()
        assert isinstance(one, AsyncRunLeaseHandle)
        assert len(await ledger.claim(limit=5)) == 3
        async with journal.ledger().adopt(one.run_id, one.fencing_token) as adopted:
            await adopted.save_checkpoint("from a helper")
        await one.renew()  # leaving the helper's block has not released it
        await ledger.release_all("enough")
        assert [r.lease for r in await journal.runs()] == [None] * 4


async def test_errors_come_through(journal_url: str) -> None:
    async with open_async_journal(journal_url) as journal:
        async with journal.ledger().acquire("held") as lease:
            with pytest.raises(RunStoreError, match="is held by"):
                await journal.ledger().acquire("held")
            with pytest.raises(RunStoreError) as refused:
                await lease.save_checkpoint({"at": {1, 2}})
            assert (refused.value.code, refused.value.reason) == ("RUN_VALIDATION_ERROR", "payload")
            await journal.ledger().cancel("held")
            losses: list[RunStoreError] = []
            lease.on_lost(losses.append)
            with pytest.raises(RunStoreError) as lost:
                await lease.complete()
            assert lost.value.reason == "cancelled"
            assert lease.lost is lost.value is losses[0]
            with pytest.raises(RunStoreError) as gate:
                await lease.ensure_held()
            assert gate.value is lost.value
        with pytest.raises(RunStoreError, match="after_version"):
            await anext(journal.events("held", after_version=-1))
    with pytest.raises(RunStoreError, match="closed"):
        await journal.get("held")


async def test_opening_what_is_no_journal_raises() -> None:
    with pytest.raises(RunStoreError, match="no journal address"):
        await open_async_journal("nonsense:")
    with pytest.raises(RunStoreError, match="threads"):
        await open_async_journal("memory:", threads=0)


async def test_a_state_is_copied_at_the_call(anyio_backend_name: str) -> None:
    """Another task may change it while the await waits for a thread."""
    async with open_async_journal("memory:", threads=1) as journal:
        ledger = journal.ledger()
        await ledger.start("copied", input=(given := {"n": 0}))
        async with ledger.acquire("copied") as lease:
            state, go, busy = {"n": 1}, threading.Event(), anyio.Event()

            async def occupy() -> None:
                busy.set()
                await journal._threads.call(go.wait, 30)

            async with anyio.create_task_group() as group:
                group.start_soon(occupy)
                await busy.wait()
                group.start_soon(lease.save_checkpoint, state)
                await anyio.wait_all_tasks_blocked()
                state["n"] = given["n"] = 2
                go.set()
            assert (await lease.checkpoint(), await lease.input()) == ({"n": 1}, {"n": 0})


async def test_subscriptions(journal_url: str) -> None:
    async with open_async_journal(journal_url) as journal:
        ledger, seen = journal.ledger(), list[tuple[int, str]]()
        await ledger.start("before")
        begun = await journal.position()
        assert [e.topic async for _, e in journal.subscribe(follow=False)] == ["run.queued"]

        async def follow() -> None:
            async with journal.subscribe(begun, ["run.queued"], poll=0.01) as events:
                async for position, event in events:
                    seen.append((position, event.run_id))  # type: ignore[attr-defined]
                    assert events.position == position
                    if len(seen) == 2:
                        events.stop()

        async with anyio.create_task_group() as group:
            group.start_soon(follow)
            for run_id in ("one", "two"):
                (await ledger.start(run_id))
                await (await ledger.acquire(run_id)).complete()
        assert [run_id for _, run_id in seen] == ["one", "two"]
        late = journal.subscribe(await journal.position(), timeout=0.01)
        assert [e async for e in late] == []
        async with anyio.create_task_group() as group:
            stopped = journal.subscribe(await journal.position())
            group.start_soon(anext, stopped, None)
            await anyio.wait_all_tasks_blocked()
            stopped.stop()


class Kinds:
    """How many runs there are of a kind."""

    name, projection_version, topics = "kinds", 1, ("run.queued",)

    def key_of(self, event: Event) -> str:
        return str(event.kind)  # type: ignore[attr-defined]

    def project(self, row: Any, event: Event) -> Any:
        return {"runs": (row or {"runs": 0})["runs"] + 1}


async def test_projections(journal_url: str) -> None:
    async with open_async_journal(journal_url) as journal:
        kinds = journal.projection(Kinds())
        async with anyio.create_task_group() as group:
            group.start_soon(kinds.run)
            for n in range(3):
                await journal.ledger().start(f"run-{n}", kind="job")
            assert await kinds.wait_for()
            assert await kinds.get("job") == {"runs": 3}
            assert (await kinds.lag()).events == 0
            group.cancel_scope.cancel()
        assert [s.name for s in await journal.projection_states()] == ["kinds"]
        await journal.ledger().start("more", kind="job")
        assert await kinds.catch_up() == 1
        assert await kinds.rows() == [("job", {"runs": 4})]
        assert (await journal.rebuild(Kinds())).finished
        assert (await journal.rebuild("run_records")).repaired == 0  # type: ignore[union-attr]


async def test_what_only_waits_takes_no_thread_from_others_and_can_be_cancelled(
    journal_url: str,
) -> None:
    async with open_async_journal(journal_url, threads=1) as journal:
        kinds = journal.projection(Kinds())
        await journal.ledger().start("run")
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(journal.wait_for_work, 300)
                group.start_soon(kinds.wait_for, None, 300)
                group.start_soon(kinds.run)
                group.start_soon(anext, journal.subscribe(await journal.position()), None)
                await anyio.wait_all_tasks_blocked()
                assert await journal.get("run") is not None
                group.cancel_scope.cancel()
        assert journal._threads.busy == 0


async def test_closing_ends_what_only_waits(journal_url: str) -> None:
    with anyio.fail_after(20):
        async with open_async_journal(journal_url) as journal, anyio.create_task_group() as group:
            group.start_soon(journal.wait_for_work, 300)
            await anyio.wait_all_tasks_blocked()
            await journal.close()


async def test_a_blocked_loop_loses_no_lease(sqlite_url: str) -> None:
    async with open_async_journal(sqlite_url) as journal:
        async with journal.ledger(lease_ttl=0.4).acquire("blocked") as lease:
            time.sleep(0.9)
            await lease.complete()
        assert [e.topic async for e in journal.events("blocked")][-1] == "run.completed"


async def test_an_anchor_in_pages(journal_url: str, tmp_path: Path) -> None:
    async with open_async_journal(journal_url) as journal:
        for n in range(3):
            await journal.ledger().start(f"run-{n}")
        file = tmp_path / "anchor"
        file.write_text("".join([line async for line in journal.anchor()]))
        counted = list[int]()
        assert (await journal.verify(file, counted.append)).findings == []
        assert sum(counted) == 3


async def test_a_worker_s_lease_in_an_async_handler(anyio_backend_name: str) -> None:
    async def handler(ctx: WorkerContext) -> str:
        lease = AsyncRunLeaseHandle(ctx.lease)
        await lease.save_checkpoint({"page": 1})
        assert AsyncJournal(journal).ledger().owner != lease.owner
        return "done"

    with open_journal("memory:") as journal:
        journal.ledger().start("handled")
        record = await anyio.to_thread.run_sync(Worker(journal, handler).run_once)
        assert record is not None
        assert record.status == "completed"


def test_without_anyio_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["anyio"] = None
import runjournal
runjournal.open_journal("memory:").close()
try:
    runjournal.open_async_journal
except runjournal.RunStoreError as error:
    print(error.code, error.reason, error.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert done.startswith("RUN_VALIDATION_ERROR argument ")
    assert "runjournal[async]" in done
