"""Commands about the journal as a whole: verify, anchor, projections."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .context import opened, options
from .exits import INTEGRITY, one_line
from .part_command import processes
from .progress import progress

if TYPE_CHECKING:
    from ...projections.findings import Finding
    from ..checking import Verification

TableName = Annotated[str, typer.Argument(metavar="NAME", help="run_records or delivery_outbox.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes that read parts of the journal beside one another.",
        show_default="one for each core; one for a small journal",
    ),
]
projections = typer.Typer(help="The tables that are made from the events.")


def verify(
    ctx: typer.Context,
    anchor: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also hold the journal against this anchor."),
    ] = None,
    acknowledge: Annotated[
        bool,
        typer.Option("--acknowledge", help="Put what is found on record as known; needs --reason."),
    ] = False,
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who acknowledges it; kept in the event.")
    ] = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why it is known, for those who come later.")
    ] = None,
    jobs: Jobs = None,
) -> None:
    """Check hash chains, versions, records and the outbox of the whole journal.

    Exits with 6 when something new is wrong. Writers go on meanwhile.
    """
    from ...domain.checks import refuse

    if acknowledge and (actor is None or reason is None):
        raise refuse("argument", "--acknowledge needs --actor and --reason")
    with opened(ctx) as journal:
        with progress("verifying", journal.position()) as advance:
            done = journal.verify(anchor, advance, processes(ctx, journal, jobs))
        if acknowledge:
            journal.acknowledge(done.findings, str(actor), str(reason))
    _print_verification(ctx, done, acknowledged_now=acknowledge)
    if done.findings and not acknowledge:
        raise typer.Exit(INTEGRITY)


def anchor(ctx: typer.Context) -> None:
    """Print the version and the head hash of every stream, with a digest of it all.

    Keep the output where nobody who can write to the journal can write, and sign it if you like.
    """
    with opened(ctx) as journal:
        for line in journal.anchor():
            sys.stdout.write(line)


@projections.command("status")
def status(ctx: typer.Context) -> None:
    """List the projections: how far each has come, and whether it is parked at an event."""
    from .output import cell, console, moment, print_json

    with opened(ctx) as journal:
        states, head = journal.projection_states(), journal.position()
    rows = [
        {
            "name": state.name,
            "version": state.projection_version,
            "position": state.position,
            "behind": max(0, head - state.position),
            "parkedAt": state.parked_at,
            "error": state.parked_error,
            "updatedAt": state.updated_at.isoformat(),
        }
        for state in states
    ]
    if options(ctx).as_json:
        print_json({"head": head, "projections": rows})
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("PROJECTION", "VERSION", "POSITION", "BEHIND", "PARKED AT", "ERROR", "UPDATED"):
        table.add_column(title, no_wrap=title == "UPDATED")
    for name in ("run_records", "delivery_outbox"):
        table.add_row(cell(name), "", cell(head), cell(0), "", cell("written with the events"), "")
    for row, state in zip(rows, states, strict=True):
        *values, _ = row.values()
        table.add_row(*map(cell, values), cell(moment(state.updated_at)))
    console().print(table)


@projections.command("verify")
def verify_projection(ctx: typer.Context, name: TableName, jobs: Jobs = None) -> None:
    """Fold every stream and name each row that differs; exits with 6 if one does."""
    with opened(ctx) as journal:
        _check_name(name)
        with progress("verifying", journal.position()) as advance:
            done = journal.verify(None, advance, processes(ctx, journal, jobs))
    prefix = "run/" if name == "run_records" else "delivery/"
    done.findings = [
        f
        for f in done.findings
        if f.stream.startswith(prefix) and f.kind in ("record", "missing_record", "orphan_record")
    ]
    _print_verification(ctx, done)
    if done.findings:
        raise typer.Exit(INTEGRITY)


@projections.command("rebuild")
def rebuild(ctx: typer.Context, name: TableName, jobs: Jobs = None) -> None:
    """Make a table anew from the events, in place; nothing is sent, and work goes on.

    Ctrl-C ends it between two pages. Exits with 6 when rows had to be left as they are.
    """
    from ..stopping import stopped_by_signals
    from .output import print_json

    with opened(ctx) as journal, stopped_by_signals() as stop:
        with progress(f"rebuilding {name}", journal.position()) as advance:
            done = journal.rebuild(
                name, lambda at: advance(at.events), stop, processes(ctx, journal, jobs)
            )
        interrupted = stop.is_set()
    if options(ctx).as_json:
        print_json(
            {
                "name": name,
                "streams": done.streams,
                "repaired": done.repaired,
                "findings": [_finding_json(f) for f in done.findings],
                "interrupted": interrupted,
            }
        )
    else:
        end = "stopped after" if interrupted else "rebuilt from"
        typer.echo(f"{name}: {end} {done.streams:,} streams, {done.repaired:,} rows put right")
        for finding in done.findings:
            typer.echo(one_line(f"{finding.kind}: {finding.message}"))
    if done.findings:
        raise typer.Exit(INTEGRITY)


def _check_name(name: str) -> None:
    from ...domain.checks import refuse
    from ...domain.history_store import TABLES

    if name not in TABLES:
        raise refuse("argument", f"there is no table {name!r}; there are {', '.join(TABLES)}")


def _print_verification(
    ctx: typer.Context, done: Verification, *, acknowledged_now: bool = False
) -> None:
    from .output import print_json

    if options(ctx).as_json:
        print_json(
            {
                "events": done.events,
                "findings": [_finding_json(f) for f in done.findings],
                "acknowledged": [
                    {**_finding_json(f), "actor": by.actor, "reason": by.reason}
                    for f, by in done.acknowledged
                ],
            }
        )
        return
    for finding in done.findings:
        typer.echo(one_line(f"{finding.kind}: {finding.message}"))
    for finding, by in done.acknowledged:
        known = f"acknowledged by {by.actor} ({by.reason})"
        typer.echo(one_line(f"{finding.kind}: {finding.message}; {known}"))
    found = f"{len(done.findings)} new" if done.findings else "nothing new"
    if acknowledged_now and done.findings:
        found = f"{len(done.findings)} now acknowledged"
    typer.echo(f"{done.events:,} events read; {found}, {len(done.acknowledged)} acknowledged")


def _finding_json(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "stream": finding.stream,
        "version": finding.version,
        "message": finding.message,
        "fingerprint": finding.fingerprint,
    }
