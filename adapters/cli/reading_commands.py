"""Commands that only read: list, show, log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .context import RunId, opened, options

if TYPE_CHECKING:
    from ...domain.events import Event
    from ..journal import Journal

#: RunLifecycleStatus, spelled out: the parser must not load the domain.
Status = Literal["queued", "running", "suspended", "completed", "failed", "cancelled"]

#: Seconds between two looks of `log --follow`.
FOLLOW_EVERY = 0.2


def list_runs(
    ctx: typer.Context,
    status: Annotated[Status | None, typer.Option(help="Only runs in this status.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this kind.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 100,
    after: Annotated[
        str | None, typer.Option(metavar="RUN_ID", help="Go on after this run of the last page.")
    ] = None,
) -> None:
    """List runs in the order of their creation."""
    from .output import print_json, print_records, record_json

    with opened(ctx) as journal:
        records = journal.runs(status=status, kind=kind, limit=limit, after=after)
    if options(ctx).as_json:
        print_json([record_json(r) for r in records])
    else:
        print_records(records)


def show(
    ctx: typer.Context,
    run_id: RunId,
    at: Annotated[
        int | None, typer.Option(metavar="VERSION", min=1, help="As it was at this version.")
    ] = None,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Also its input, last saved state and result.")
    ] = False,
) -> None:
    """Show one run's record, as it is or as it was."""
    from ..time_travel import no_run
    from .output import print_json, print_record, record_json

    with opened(ctx) as journal:
        record = journal.get(run_id, version=at)
        if record is None:
            raise no_run(run_id)
        held = {}
        if payloads:
            held = {
                "input": journal.input(run_id),
                "state": journal.checkpoint(run_id, record.version),
                "result": journal.result(run_id) if record.is_terminal else None,
            }
    if options(ctx).as_json:
        print_json(record_json(record) | held)
    else:
        print_record(record, held)


def log(
    ctx: typer.Context,
    run_id: RunId,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for further events until the run has ended.")
    ] = False,
    after: Annotated[
        int, typer.Option(metavar="VERSION", min=0, help="Only events after this version.")
    ] = 0,
) -> None:
    """Print a run's events, the newest last; with --json, one JSON document per line."""
    from ..time_travel import no_run

    with opened(ctx) as journal:
        if journal.get(run_id) is None:
            raise no_run(run_id)
        show_event = _printer(ctx)
        for event in _events(journal, run_id, after, follow):
            show_event(event)


def _events(journal: Journal, run_id: str, after: int, follow: bool) -> Iterator[Event]:
    while True:
        # Asked before the events are read: of a run that had ended by then, none can be missed.
        record = journal.get(run_id) if follow else None
        for event in journal.events(run_id, after_version=after):
            after = event.originator_version
            yield event
        if record is None or record.is_terminal:
            return
        time.sleep(FOLLOW_EVERY)


def _printer(ctx: typer.Context) -> Callable[[Event], None]:
    from .output import console, event_json, print_event, print_json

    if options(ctx).as_json:
        return lambda event: print_json(event_json(event))
    to = console()
    return lambda event: print_event(event, to)
