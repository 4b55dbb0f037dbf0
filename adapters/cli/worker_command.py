"""The command that takes runs and hands them to a function of the user's."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from .context import opened, options
from .exits import complain

if TYPE_CHECKING:
    from ...domain.record import RunRecord
    from ..worker import Worker

#: Seconds between two looks at the interrupt while an idle worker waits.
INTERRUPT_EVERY = 0.2
#: Seconds that an idle worker waits at first; it doubles up to --poll.
FIRST_WAIT = 0.05


class Interrupt:
    """Whether a signal has come.

    No threading.Event: its lock may be held by the very code that the signal handler interrupts.
    """

    def __init__(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True


def worker(
    ctx: typer.Context,
    handler: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Called with the context of each run; found in the working directory too.",
        ),
    ],
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only runs of this kind; may be repeated."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Take one run if one is due.")] = False,
    ttl: Annotated[float, typer.Option(metavar="SECONDS", help="How long a lease lasts.")] = 60.0,
    grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long a handler that was told to stop may take."),
    ] = 10.0,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", help="The longest wait between two looks.")
    ] = 1.0,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A name that no other live process has; made up if not given."
        ),
    ] = None,
) -> None:
    """Take due runs, one after the other, and run the handler on each.

    SIGTERM and Ctrl-C end it: the handler is told to stop, its run is handed back (not cancelled),
    and the exit code is 0. A second signal kills it.
    """
    from ...domain.checks import check_seconds
    from ..loading import load_function
    from ..worker import Worker

    longest_wait = check_seconds(poll, "--poll")
    function = load_function(handler, "--handler")
    with opened(ctx) as journal, _interrupt_on_signals() as interrupt:
        taking = Worker(journal, function, owner=owner, lease_ttl=ttl, grace=grace)
        if once:
            _report(ctx, taking.run_once(kind or None, interrupt))
        else:
            _take_runs(ctx, taking, kind or None, interrupt, longest_wait)


def _take_runs(
    ctx: typer.Context,
    taking: Worker,
    kinds: list[str] | None,
    interrupt: Interrupt,
    longest_wait: float,
) -> None:
    from ...domain.errors import RunStoreError

    wait = FIRST_WAIT
    while not interrupt.is_set():
        try:
            record = taking.run_once(kinds, interrupt)
        except RunStoreError as error:
            # A worker outlives a store that is busy or away for a while.
            if not error.retryable:
                raise
            complain(error.code, error.reason, error.message, error.hint)
            record = None
        if record is not None:
            _report(ctx, record)
            wait = FIRST_WAIT
        elif _told_while_waiting(taking, min(wait, longest_wait), interrupt):
            wait = FIRST_WAIT
        else:
            wait = min(wait * 2, longest_wait)


def _told_while_waiting(taking: Worker, seconds: float, interrupt: Interrupt) -> bool:
    """Wait for work, or for the interrupt; whether the store said that there is some."""
    end = time.monotonic() + seconds
    while not interrupt.is_set() and (left := end - time.monotonic()) > 0:
        if taking.journal.wait_for_work(min(left, INTERRUPT_EVERY)):
            return True
    return False


def _report(ctx: typer.Context, record: RunRecord | None) -> None:
    from .exits import one_line
    from .output import print_json, record_json

    if options(ctx).as_json:
        print_json(None if record is None else record_json(record))
    elif record is None:
        typer.echo("no run is due")
    else:
        typer.echo(one_line(f"{record.run_id}: {record.status} (version {record.version})"))
        sys.stdout.flush()


@contextmanager
def _interrupt_on_signals() -> Iterator[Interrupt]:
    """An event that the first SIGTERM or SIGINT sets; the second one finds the default again."""
    interrupt = Interrupt()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def restore() -> None:
        for number, action in before.items():
            signal.signal(number, action)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        restore()
        interrupt.set()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield interrupt
    finally:
        restore()
