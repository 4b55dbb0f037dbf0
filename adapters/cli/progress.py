"""The bar of the commands that read everything."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Events after which the bar moves.
STEP = 200


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, with its rate and the time left, where that is a terminal.

    total  how many events there are to read, or an upper bound, as the last position is; None: not
           known
    """
    from ...domain.tokens import POSITIONS_PASSED_OVER

    if total is not None:
        total %= POSITIONS_PASSED_OVER  # what a restore passed over is no event
    if not sys.stderr.isatty():
        yield lambda _events: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.completed:,.0f} events, {task.speed or 0:,.0f}/s")

    columns = (TextColumn("{task.description}"), BarColumn(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        waiting = 0

        def advance(events: int) -> None:
            nonlocal waiting
            waiting += events
            if waiting >= STEP:  # moving it costs more than reading an event
                bar.advance(task, waiting)
                waiting = 0

        yield advance
