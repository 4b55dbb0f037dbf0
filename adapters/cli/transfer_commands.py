"""Commands that move journals: export, import, copy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .context import key_ring, opened, options, require_there
from .exits import CONFLICT, INTEGRITY, one_line
from .progress import progress

if TYPE_CHECKING:
    from ..journal import Journal
    from ..transfer.publishing import Imported

Sending = Annotated[
    bool,
    typer.Option(
        "--send-deliveries",
        help="Undelivered results are due in the target too, and not set aside.",
    ),
]


def export(
    ctx: typer.Context,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="The new file to write; - for stdout."),
    ],
    run_id: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN_ID...]", help="The runs' ids.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole journal.")] = False,
) -> None:
    """Write runs with all their events, or the whole journal, to a file of JSON lines.

    The file appears when it is complete, is for its owner only, and replaces nothing.
    """
    from ...domain.checks import refuse
    from .output import print_json

    if bool(run_id) == everything:
        raise refuse("argument", "name the runs to export, or give --all")
    ids = None if everything else run_id
    with (
        opened(ctx) as journal,
        progress("exporting", journal.position() if everything else None) as advance,
    ):
        if output == "-":
            for line in journal.export(ids, advance):
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            return
        done = journal.export_to(output, ids, advance)
    if options(ctx).as_json:
        print_json({"file": output, **done._asdict()})
    else:
        typer.echo(one_line(f"{output}: {done.events:,} events in {done.streams:,} streams"))


def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote.")],
    send_deliveries: Sending = False,
) -> None:
    """Write the runs of an export into the journal, as they are; what is there already stays.

    The whole file is checked first. Repeating it does no harm. Exits with 4 when a run is another
    one here; it is left out and named. Exits with 6 when an archive's last document is cut short.
    """
    from ..transfer.reading import ExportFile

    with opened(ctx, creates=True) as journal:
        _require_lasting(journal)
        told = ExportFile.told_events(file)
        with progress("importing", told and 2 * told) as advance:
            done = journal.import_from(file, send_deliveries, advance)
    _print_imported(ctx, done)


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM_URL", help="The journal to read.")],
    target: Annotated[str, typer.Argument(metavar="TO_URL", help="The journal to write to.")],
    from_schema: Annotated[
        str | None, typer.Option(metavar="NAME", help="The Postgres schema to read.")
    ] = None,
    send_deliveries: Sending = False,
) -> None:
    """Copy a whole journal to another database, as by export and import; --db is not looked at.

    Repeating it brings over what was written since. Exits with 4 when a run is another one there.
    """
    from ..opening import open_journal

    given = options(ctx)
    require_there(source)
    cipher = key_ring(given)
    with (
        open_journal(
            source,
            schema=from_schema or given.schema,
            pooler=given.pooler,
            cipher=cipher,
            create=False,
        ) as read,
        open_journal(target, schema=given.schema, pooler=given.pooler, cipher=cipher) as written,
    ):
        _require_lasting(written)
        with progress("copying", read.position()) as advance:
            done = read.copy_to(written, send_deliveries, advance)
    _print_imported(ctx, done)


def _require_lasting(journal: Journal) -> None:
    """A journal in this process's memory would be gone at exit."""
    journal.ledger(require="cross-process")


def _print_imported(ctx: typer.Context, done: Imported) -> None:
    from .output import print_json

    if options(ctx).as_json:
        print_json(
            {
                "new": done.new,
                "extended": done.extended,
                "unchanged": done.unchanged,
                "events": done.events,
                "heldDeliveries": done.held,
                "pruned": done.pruned,
                "tombstones": done.buried,
                "torn": list(done.torn),
                "conflicts": [c._asdict() for c in done.conflicts],
            }
        )
    else:
        for conflict in done.conflicts:
            typer.echo(one_line(f"conflict: {conflict.message}"))
        left = f", {len(done.conflicts):,} in conflict" if done.conflicts else ""
        typer.echo(
            f"{done.new:,} new, {done.extended:,} extended, {done.unchanged:,} there already"
            f"{left}; {done.events:,} events written"
        )
        if done.pruned:
            typer.echo(f"{done.pruned:,} were pruned here, and stay so")
        if done.buried:
            typer.echo(f"{done.buried:,} tombstones of streams that were pruned there")
        if done.torn:
            names = ", ".join(done.torn[:10]) + (", …" if len(done.torn) > 10 else "")
            typer.echo(one_line(f"the last document is cut short and left out: {names}"))
        if done.held:
            typer.echo(
                f"{done.held:,} undelivered results are set aside: see `deliveries retry` and "
                "--send-deliveries"
            )
    if done.torn:
        raise typer.Exit(INTEGRITY)
    if done.conflicts:
        raise typer.Exit(CONFLICT)
