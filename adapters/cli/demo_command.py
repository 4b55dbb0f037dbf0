"""The demo as a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .context import options
from .exits import UNPROVED


def demo(
    ctx: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]", help="The directory tree to index; else the installed packages."
        ),
    ] = None,
    files: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Index only the first N files.")
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            metavar="N", min=2, max=16, help="Worker processes: one to be killed, the rest to wait."
        ),
    ] = 2,
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the journal in this file.")
    ] = None,
) -> None:
    """Kill a worker in the middle of a real job, and watch another one carry on.

    Worker processes index a directory tree. The first is killed with SIGKILL; the others wait for
    its lease to expire, one of them goes on from the last checkpoint, and the result is compared
    with that of an uninterrupted run. The journal is made in a temporary folder, unless --keep or
    --db (on the command line) names another place.
    """
    from ..demo.show import show_demo
    from ..demo.takeover import Setting

    given = options(ctx)
    db = None
    # A database that the environment names is somebody's real one: no place for a demo.
    source = ctx.parent.get_parameter_source("db") if ctx.parent else None
    if source is not None and source.name == "COMMANDLINE":
        db = given.db
    if db is not None and keep is not None:
        raise typer.BadParameter("--keep and --db cannot be combined", param_hint="--keep")
    if keep is not None:
        db = f"sqlite:///{keep}"
    pages = None if keep is None else keep.parent
    setting = Setting(db, given.schema, given.pooler, workers, pages)
    if not show_demo(path, files, setting, given.as_json):
        raise typer.Exit(UNPROVED)
