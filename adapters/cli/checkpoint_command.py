"""The command with which what `exec` runs saves a checkpoint."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from .context import opened_ledger, options, read_json


def checkpoint(
    ctx: typer.Context,
    state: Annotated[
        str,
        typer.Option(
            metavar="JSON|@FILE|-", help="The state to go on from; - reads it from stdin."
        ),
    ],
    key: Annotated[
        str, typer.Option(metavar="NAME", help="A name for the state, for readers of the history.")
    ] = "latest",
    snapshot_version: Annotated[
        int, typer.Option(metavar="N", min=0, help="The version of the state's own layout.")
    ] = 1,
) -> None:
    """Save a checkpoint of the run that `exec` runs this command for.

    Prints nothing when it was saved. Exits with 5 when the run is no longer this command's: then
    stop, for somebody else may have gone on with it.
    """
    from ...domain.checks import refuse

    run_id = os.environ.get("RUNJOURNAL_RUN_ID", "")
    token = os.environ.get("RUNJOURNAL_FENCING_TOKEN", "")
    if not run_id or not (token.isascii() and token.isdigit()):
        raise refuse(
            "argument",
            "checkpoint works in what `runjournal exec` runs only: RUNJOURNAL_RUN_ID and "
            "RUNJOURNAL_FENCING_TOKEN are not set",
        )
    value = read_json(state, "--state")
    with opened_ledger(ctx) as ledger:
        record = ledger.adopt(run_id, int(token)).save_checkpoint(value, key, snapshot_version)
    if options(ctx).as_json:
        from .output import print_json, record_json

        print_json(record_json(record))
