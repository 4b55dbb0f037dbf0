"""Commands that keep a journal: backup, restore, restore-check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .context import key_ring, opened, options
from .exits import one_line
from .progress import progress

if TYPE_CHECKING:
    from ..backup import Restored

Actor = Annotated[
    str, typer.Option(metavar="NAME", help="Who restores it; kept in `journal/audit`.")
]
Reason = Annotated[
    str, typer.Option(metavar="TEXT", help="Why, for those who come later; kept as well.")
]


def backup(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file to write.")],
) -> None:
    """Write a SQLite journal, as it is at one moment, to a new file; writers go on.

    The file appears when it is complete, verified and on disk. It is for its owner only, and
    replaces nothing.
    """
    from .output import print_json

    with opened(ctx) as journal, progress("verifying", journal.position()) as advance:
        done = journal.backup(file, advance)
    if options(ctx).as_json:
        print_json({"file": str(file), **done._asdict()})
        return
    typer.echo(
        one_line(
            f"{file}: {done.bytes:,} bytes, {done.events:,} events in {done.streams:,} streams, up "
            f"to position {done.position:,}; verified"
        )
    )
    typer.echo(f"heads sha256 {done.heads}")


def restore(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `backup` wrote.")],
    target: Annotated[Path, typer.Argument(metavar="NEW", help="The new journal's file.")],
    actor: Actor,
    reason: Reason,
) -> None:
    """Make a new SQLite journal of a backup: verified, and with a new token epoch.

    Nothing is replaced, and --db is not looked at. Every lease that is granted in the new journal
    has a token above all that were granted before.
    """
    from ..restoring import restore_backup

    with progress("verifying", None) as advance:
        done = restore_backup(
            file,
            target,
            actor=actor,
            reason=reason,
            cipher=key_ring(options(ctx)),
            progress=advance,
        )
    _print(ctx, str(target), done)


def restore_check(ctx: typer.Context, actor: Actor, reason: Reason) -> None:
    """Verify a journal that was put back where it is, and begin a new token epoch in it.

    On Postgres after a failover, a point-in-time recovery or a restored dump: until then no lease
    is granted.
    """
    with opened(ctx) as journal, progress("verifying", journal.position()) as advance:
        done = journal.restore_check(actor, reason, advance)
    _print(ctx, "the journal", done)


def _print(ctx: typer.Context, name: str, done: Restored) -> None:
    from ...domain.tokens import EPOCH_SIZE
    from .output import print_json

    if options(ctx).as_json:
        names = ("events", "lastPosition", "oldEpoch", "epoch")
        print_json(dict(zip(names, done, strict=True)))
        return
    typer.echo(
        one_line(
            f"{name}: {done.events:,} events verified, up to position {done.last_position:,}; "
            f"epoch {done.epoch}, tokens from {done.epoch * EPOCH_SIZE + 1:,} on"
        )
    )
