"""One call of a handler: what it gets, how it is told to stop, and the thread it runs in."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ..domain.checks import readable
from ..domain.errors import RunStoreError
from ..domain.lease import RunLeaseHandle
from ..domain.ports import AuthorityResolver
from ..domain.record import RunRecord
from .stopping import Interrupt

#: Seconds between two looks at an interrupt that can only be asked.
LOOK_EVERY = 0.02
#: The share of the ttl, half a second at most, between two looks at whether the lease is trusted.
TRUST_SHARE = 1 / 20


class RunInterrupted(Exception):  # noqa: N818 - not an error: the handler is asked to stop
    """Raised by `ctx.ensure_held()` when the worker was interrupted: let it pass through."""


class AuthorityUnavailable(Exception):  # noqa: N818 - the run's time has not come
    """On whose behalf the run acts could not be found out; the handler was not called."""


class StopSignal:
    """Tells a handler to stop: `reason` is "interrupted", "cancelled" or "lease lost"."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._callbacks: list[Callable[[], None]] = []
        self.seen = False

    @property
    def reason(self) -> str | None:
        """Why to stop; None while the handler may go on."""
        return self._reason

    def is_set(self) -> bool:
        """Whether the handler shall stop."""
        self.seen = self.seen or self._set.is_set()
        return self._set.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep up to `timeout` seconds, or until it shall stop; whether it shall.

        It blocks its thread: an async handler is cancelled instead, and need not wait for this.
        """
        self._set.wait(timeout)
        return self.is_set()

    def set(self, reason: str) -> None:
        """Ask for the stop; the first reason stays."""
        with self._lock:
            if self._set.is_set():
                return
            self._reason = reason
            self._set.set()
        for callback in self._callbacks:
            callback()

    def on_set(self, callback: Callable[[], None]) -> None:
        """Call `callback()` once it is set, from whichever thread sets it; it must not block."""
        with self._lock:
            if not self._set.is_set():
                self._callbacks.append(callback)
                return
        callback()


class WorkerContext:
    """What a handler gets: its run, where to go on from, and when to stop.

    `authority` is what the worker's AuthorityResolver gave for the run, None without a resolver.
    """

    def __init__(
        self, lease: RunLeaseHandle, given: Any, checkpoint: Any, stop: StopSignal | None = None
    ) -> None:
        self.lease = lease
        self.input = given
        self.checkpoint = checkpoint
        self.authority: Any = None
        self.stop = StopSignal() if stop is None else stop

    @property
    def run_id(self) -> str:
        return self.lease.run_id

    @property
    def record(self) -> RunRecord:
        return self.lease.record

    def ensure_held(self) -> None:
        """The gate before the next step.

        Raises RunInterrupted when the worker shall stop, RUN_LEASE_LOST when the run is no longer
        this worker's.
        """
        if self.lease.lost is not None:
            raise self.lease.lost
        if self.stop.is_set():
            raise RunInterrupted(self.stop.reason)
        self.lease.ensure_held()

    def save_checkpoint(
        self, state: Any, key: str = "latest", snapshot_version: int = 1
    ) -> RunRecord:
        """`lease.save_checkpoint`."""
        return self.lease.save_checkpoint(state, key, snapshot_version)

    def invocation_id(self, name: str) -> str:
        """`lease.invocation_id`."""
        return self.lease.invocation_id(name)


#: A function or a coroutine function of the context; what it gives is the run's result.
Handler = Callable[[WorkerContext], Any]


class HandlerCall:
    """One call of a handler in a thread of its own, and how it ended: `result` or `error`."""

    def __init__(
        self, ctx: WorkerContext, handler: Handler, authority: AuthorityResolver | None = None
    ) -> None:
        self.ctx = ctx
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self._handler = handler
        self._authority = authority
        self._wake = threading.Event()
        ctx.stop.on_set(self._wake.set)
        ctx.lease.on_lost(self._lost)

    def start(self) -> None:
        """Call the handler."""
        name = f"runjournal-handler-{self.ctx.run_id}"
        # What the worker's thread has in its context, such as a span, surrounds the handler too.
        target, args = contextvars.copy_context().run, (self._run,)
        threading.Thread(target=target, args=args, name=name, daemon=True).start()

    def watch(self, grace: float, interrupt: Interrupt | None = None) -> None:
        """Wait for the handler; pass on every reason to stop, then wait no longer than grace."""
        ctx = self.ctx
        look_every = min(0.5, ctx.lease.ttl * TRUST_SHARE)
        if interrupt is not None:
            look_every = min(look_every, LOOK_EVERY)
        while not self._wake.wait(look_every):
            if interrupt is not None and interrupt.is_set():
                ctx.stop.set("interrupted")
            elif ctx.record.lease is not None and not ctx.lease.held:
                ctx.stop.set("lease lost")
        self.done.wait(grace)

    def _lost(self, error: RunStoreError) -> None:
        self.ctx.stop.set("cancelled" if error.reason == "cancelled" else "lease lost")

    def _run(self) -> None:
        try:
            if self._authority is not None:
                self.ctx.authority = _resolve(self._authority, self.ctx.record)
            result = self._handler(self.ctx)
            if inspect.isawaitable(result):
                # A loop of its own: a handler that blocks its loop then stops no other run.
                result = asyncio.run(self._cancelled_by_stop(result))
            self.result = result
        except BaseException as e:  # noqa: BLE001 - it is the worker's to judge
            self.error = e
        finally:
            self.done.set()
            self._wake.set()

    async def _cancelled_by_stop(self, awaitable: Awaitable[Any]) -> Any:
        loop, task, stop = asyncio.get_running_loop(), asyncio.current_task(), self.ctx.stop

        def cancel() -> None:
            if task is not None and task.cancel():
                # What it returns after this is a stop, not a completion.
                stop.seen = True

        def from_any_thread() -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(cancel)

        stop.on_set(from_any_thread)
        return await awaitable


def _resolve(resolver: AuthorityResolver, record: RunRecord) -> object:
    try:
        authority = resolver.resolve(record)
    except Exception as e:
        raise AuthorityUnavailable(describe(e)) from e
    if authority is None:
        raise AuthorityUnavailable
    return authority


def describe(error: BaseException) -> str:
    """ "Type: text", made storable. Never a traceback, which may hold secrets."""
    name = type(error).__name__
    try:
        return readable(f"{name}: {error}")
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return name


def is_interruption(error: BaseException) -> bool:
    """Whether the handler was stopped, by whomever, and has not failed."""
    kinds = (RunInterrupted, asyncio.CancelledError, KeyboardInterrupt, SystemExit)
    return isinstance(error, kinds)
