"""Commands about the keys that a journal is encrypted with."""

from __future__ import annotations

from typing import Annotated

import typer

keys = typer.Typer(help="The keys of an encrypted journal.")


@keys.callback()
def _group() -> None:
    """Keeps `new` a command of the group, though it is the only one."""


@keys.command("new")
def new(
    key_id: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="The key's name; today's date if not given."),
    ] = None,
) -> None:
    """Print a line for a key file: a new random key. Nothing is stored.

    The first line of a key file is the key that writes.
    """
    from datetime import UTC, datetime

    from ..key_ring import new_key_line

    typer.echo(new_key_line(key_id or datetime.now(UTC).date().isoformat()))
