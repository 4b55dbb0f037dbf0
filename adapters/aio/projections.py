"""AsyncProjectionRunner: a ProjectionRunner whose calls are awaited."""

from __future__ import annotations

from ...projections.ports import ProjectionState
from ...projections.projector import Row
from ..projecting.runner import Lag, ProjectionRunner
from ..stopping import Interrupt, either
from .threads import Threads
from .twins import like


class AsyncProjectionRunner:
    """Runs one projection, and reads its rows. Made by `journal.projection`; as ProjectionRunner.

    What projects or waits ends soon after its await was cancelled, between two pages.
    """

    def __init__(self, runner: ProjectionRunner, threads: Threads) -> None:
        self._runner = runner
        self._threads = threads

    @property
    def name(self) -> str:
        """The projection's name."""
        return self._runner.name

    @like(ProjectionRunner.run)
    async def run(self, interrupt: Interrupt | None = None, poll: float = 0.1) -> None:
        await self._threads.long(lambda stop: self._runner.run(either(interrupt, stop), poll))

    @like(ProjectionRunner.catch_up)
    async def catch_up(self, limit: int | None = None, interrupt: Interrupt | None = None) -> int:
        return await self._threads.long(
            lambda stop: self._runner.catch_up(limit, either(interrupt, stop))
        )

    @like(ProjectionRunner.resume)
    async def resume(self) -> bool:
        return await self._threads.call(self._runner.resume)

    @like(ProjectionRunner.get)
    async def get(self, key: str) -> Row | None:
        return await self._threads.call(self._runner.get, key)

    @like(ProjectionRunner.rows)
    async def rows(self, limit: int = 100, after: str | None = None) -> list[tuple[str, Row]]:
        return await self._threads.call(self._runner.rows, limit, after)

    @like(ProjectionRunner.state)
    async def state(self) -> ProjectionState | None:
        return await self._threads.call(self._runner.state)

    @like(ProjectionRunner.lag)
    async def lag(self) -> Lag:
        return await self._threads.call(self._runner.lag)

    @like(ProjectionRunner.wait_for)
    async def wait_for(
        self,
        position: int | None = None,
        timeout: float = 10.0,
        interrupt: Interrupt | None = None,
    ) -> bool:
        return await self._threads.long(
            lambda stop: self._runner.wait_for(position, timeout, either(interrupt, stop))
        )
