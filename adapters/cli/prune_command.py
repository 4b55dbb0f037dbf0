"""The command that removes what ended long ago."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .context import Actor, opened, options
from .exits import INTERRUPTED, one_line
from .operator_commands import read_time

if TYPE_CHECKING:
    from ..pruning.result import Pruned

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
#: Runs that are named for people; `--json` has more of them.
SHOWN = 20


def prune(
    ctx: typer.Context,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="What ended so long ago, such as 30d, 12h, 90m or 8w."),
    ] = None,
    ended_before: Annotated[
        str | None,
        typer.Option(metavar="ISO", help="What ended before this time, with time zone."),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Export each batch to this file before it is removed."),
    ] = None,
    ignore_projection: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A projection that need not have seen it; may be repeated."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Runs removed in one transaction.")
    ] = 500,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would go, and change nothing.")
    ] = False,
    actor: Actor = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; kept in the audit log.")
    ] = None,
) -> None:
    """Remove runs that ended long ago, batch by batch, while work goes on.

    A run goes by the time it ended, and with all that belongs to it. What somebody still needs is
    held back and counted. Ctrl-C ends it between two batches.
    """
    from ..stopping import stopped_by_signals

    before = _cut(older_than, ended_before)
    with opened(ctx) as journal, stopped_by_signals() as stop:
        journal.ledger(require="cross-process")
        done = journal.prune_all(
            before,
            limit=limit,
            dry_run=dry_run,
            archive=archive,
            ignore_projections=ignore_projection or (),
            actor=actor,
            reason=reason,
            progress=_Told(),
            interrupt=stop,
        )
    _print(ctx, done, before, dry_run)
    if stop.is_set() and not done.done:
        raise typer.Exit(INTERRUPTED)


def _cut(older_than: str | None, ended_before: str | None) -> datetime:
    from ...domain.checks import refuse

    if (older_than is None) == (ended_before is None):
        raise refuse("argument", "give --older-than or --ended-before")
    if ended_before is not None:
        return read_time(ended_before, "--ended-before")
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", older_than or "")
    if found is None:
        raise refuse("argument", f"--older-than {older_than!r} is no age such as 30d, 12h or 90m")
    try:
        return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})
    except OverflowError:
        raise refuse("argument", f"--older-than {older_than!r} is before all time") from None


class _Told:
    """A line on stderr that tells how far it is, where that is a terminal."""

    def __init__(self) -> None:
        self._runs = self._events = 0

    def __call__(self, batch: Pruned) -> None:
        self._runs += batch.runs
        self._events += batch.events
        if sys.stderr.isatty():
            end = "\n" if batch.done else ""
            told = f"{self._runs:,} runs, {self._events:,} events"
            print(f"\rpruning: {told}", end=end, file=sys.stderr, flush=True)


def _print(ctx: typer.Context, done: Pruned, before: datetime, dry_run: bool) -> None:
    from .output import print_json

    if options(ctx).as_json:
        print_json(_json(done, before, dry_run))
        return
    would = "would remove" if dry_run else "removed"
    told = f"{would} {done.runs:,} runs with {done.events:,} events"
    typer.echo(f"{told} that ended before {before.astimezone(UTC).isoformat(timespec='seconds')}")
    if dry_run:
        for run_id in done.run_ids[:SHOWN]:
            typer.echo(one_line(f"  {run_id}"))
        if done.runs > SHOWN:
            typer.echo(f"  and {done.runs - SHOWN:,} more")
    for reason, count in sorted(done.held.items()):
        example = next(h for h in [*done.held_runs, None] if h is None or h.reason == reason)
        such = f", such as {example.run_id}: {example.detail}" if example else ""
        typer.echo(one_line(f"held back, {reason}: {count:,}{such}"))
    if done.torn:
        typer.echo(
            f"taken out of the archive: an unfinished document with {len(done.torn):,} streams, "
            "whose runs were not removed"
        )
    if not done.done:
        typer.echo("stopped before the end; repeat it to go on")


def _json(done: Pruned, before: datetime, dry_run: bool) -> dict[str, Any]:
    return {
        "endedBefore": before.astimezone(UTC).isoformat(),
        "dryRun": dry_run,
        "runs": done.runs,
        "events": done.events,
        "runIds": done.run_ids,
        "held": done.held,
        "heldRuns": [
            {"runId": h.run_id, "reason": h.reason, "detail": h.detail} for h in done.held_runs
        ],
        "torn": list(done.torn),
        "done": done.done,
    }
