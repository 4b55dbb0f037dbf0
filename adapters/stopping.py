"""How a worker's process is told to stop: by signals, and by an event of the host's."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from ..domain.checks import refuse
from .clocks import ticks

#: Seconds between two looks at an interrupt that can only be asked.
LOOK_EVERY = 0.1


class Interrupt(Protocol):
    """What a host hands in to have a worker stop: a threading.Event will do."""

    def is_set(self) -> bool: ...


def idle(interrupt: Interrupt, seconds: float) -> None:
    """Sleep for so long, or until the interrupt is set."""
    until = ticks() + seconds
    while not interrupt.is_set() and (left := until - ticks()) > 0:
        time.sleep(min(left, LOOK_EVERY))


class SignalCame:
    """Whether a signal has come.

    No threading.Event: its lock may be held by the very code that the signal handler interrupts.
    """

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True


@contextmanager
def stopped_by_signals() -> Iterator[SignalCame]:
    """What the first SIGTERM or SIGINT sets; the second one kills the process.

    A signal that the process was started to ignore stays ignored. Only in the main thread, as
    Python has it: RUN_VALIDATION_ERROR / argument elsewhere.
    """
    if threading.current_thread() is not threading.main_thread():
        raise refuse("argument", "signals can be handled in the main thread only")
    came = SignalCame()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    taken = {n: action for n, action in before.items() if action not in (None, signal.SIG_IGN)}

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
        came.set()

    for number in taken:
        signal.signal(number, on_signal)
    try:
        yield came
    finally:
        for number, action in taken.items():
            signal.signal(number, action)


def either(first: Interrupt | None, second: Interrupt | None) -> Interrupt:
    """An interrupt that is set once one of the two is."""
    return _AnyOf(tuple(i for i in (first, second) if i is not None))


class _AnyOf:
    def __init__(self, interrupts: tuple[Interrupt, ...]) -> None:
        self._interrupts = interrupts

    def is_set(self) -> bool:
        return any(interrupt.is_set() for interrupt in self._interrupts)
