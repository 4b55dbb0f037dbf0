"""Commands for an auditor: replay, timeline, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .context import RunId, opened, options
from .operator_commands import read_time

if TYPE_CHECKING:
    from ..journal import Journal


def replay(
    ctx: typer.Context,
    run_id: RunId,
    at: Annotated[
        int | None, typer.Option(metavar="VERSION", min=1, help="Up to this version.")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="ISO", help="Up to this time, with time zone.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="What each event changed.")] = False,
) -> None:
    """Fold a run's record from its events, as it was; with --diff, event by event."""
    from ..time_travel import no_run
    from .output import console, print_json, print_record, record_json

    moment = None if as_of is None else read_time(as_of, "--as-of")
    as_json = options(ctx).as_json
    with opened(ctx) as journal:
        record = journal.get(run_id, version=at, as_of=moment)
        if record is not None and at is None and moment is None:
            record = journal.get(run_id, version=record.version)
        if record is None:
            raise no_run(run_id)
        if diff:
            _print_steps(journal, run_id, record.version, as_json)
    if as_json:
        print_json(record_json(record))
        return
    if diff:
        console().print()
    print_record(record)


def _print_steps(journal: Journal, run_id: str, version: int, as_json: bool) -> None:
    from itertools import islice

    from ...projections.replay import replay as steps
    from .output import console, print_json
    from .timeline_view import print_step, step_json

    to = console()
    for step in islice(steps(journal.events(run_id)), version):
        if as_json:
            print_json(step_json(step))
        else:
            print_step(step, to)


def timeline(ctx: typer.Context, run_id: RunId) -> None:
    """Draw who held a run under which token, and what happened around that."""
    from datetime import UTC, datetime

    from .output import print_json
    from .timeline_view import print_timeline

    with opened(ctx) as journal:
        line = journal.timeline(run_id)
    if options(ctx).as_json:
        print_json(line.model_dump(mode="json", by_alias=True))
    else:
        print_timeline(line, datetime.now(UTC))


def report(
    ctx: typer.Context,
    run_id: Annotated[list[str], typer.Argument(metavar="RUN_ID...", help="The runs' ids.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The page to write; - for stdout."),
    ],
    no_payloads: Annotated[
        bool, typer.Option("--no-payloads", help="Leave out inputs, states and results.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write the audit page of one or more runs: one HTML file that needs nothing else."""
    from ..report.writing import check_target, write_page
    from .output import cell, console, print_json

    stdout = str(output) == "-"
    if not stdout:
        check_target(output, force)
    with opened(ctx) as journal:
        page = journal.report(run_id, payloads=not no_payloads)
    if stdout:
        typer.echo(page, nl=False)
        return
    size = write_page(output, page, force)
    if options(ctx).as_json:
        told: dict[str, Any] = {"file": str(output), "bytes": size, "runIds": run_id}
        print_json(told)
    else:
        console().print(cell(f"{output}: written"))
