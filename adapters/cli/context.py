"""What the commands share: the global options, an open journal, and the refusal of bad input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ...domain.ledger import RunLedger
    from ..journal import Journal
    from ..key_ring import KeyRing

DEFAULT_DB = "sqlite:///runjournal.db"
DEFAULT_SCHEMA = "public"

RunId = Annotated[str, typer.Argument(metavar="RUN_ID", help="The run's id.")]
Actor = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who asks for it; kept in the event.")
]
Owner = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A name that no other live process has; made up if not given."
    ),
]
CommandId = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Repeating a command under the same id has no second effect."),
]


@dataclass(frozen=True, slots=True)
class Options:
    """The options before the command. `db` is None when it was not given."""

    db: str | None
    as_json: bool
    schema: str = DEFAULT_SCHEMA
    pooler: bool = False
    key_file: str | None = None


def options(ctx: typer.Context) -> Options:
    """The global options of this invocation."""
    found = ctx.obj
    assert isinstance(found, Options)
    return found


def key_ring(given: Options) -> KeyRing | None:
    """The keys of --key-file; None without one."""
    if given.key_file is None:
        return None
    from ..key_ring import KeyRing

    return KeyRing.from_file(given.key_file)


def require_there(url: str) -> None:
    """Refuse the address of a file that is not there, and leave it so.

    A mistyped one must not be created, and then found to be empty.
    """
    from ...domain.checks import refuse

    path = url.removeprefix("sqlite:///").partition("?")[0]
    if url.startswith("sqlite:///") and not Path(path).exists():
        raise refuse("address", f"there is no file {path!r}")


@contextmanager
def opened(ctx: typer.Context, *, creates: bool = False) -> Iterator[Journal]:
    """The journal that --db names.

    creates  for commands that begin something: a file that is not there is made
    """
    from ..opening import open_journal

    given = options(ctx)
    url = given.db or DEFAULT_DB
    if not creates:
        require_there(url)
    with open_journal(
        url,
        schema=given.schema,
        pooler=given.pooler,
        cipher=key_ring(given),
    ) as journal:
        yield journal


@contextmanager
def opened_ledger(ctx: typer.Context, *, creates: bool = False) -> Iterator[RunLedger]:
    """A ledger that writes where other processes will see it.

    A journal in this process's memory would accept the command and forget it at exit.
    """
    with opened(ctx, creates=creates) as journal:
        yield journal.ledger(require="cross-process")


def read_json(given: str, option: str) -> Any:
    """The JSON value that an option names: inline, of an @FILE, or of stdin (-)."""
    from ...domain.checks import refuse

    try:
        if given == "-":
            text = sys.stdin.read()
        elif given.startswith("@"):
            text = Path(given[1:]).read_text(encoding="utf-8")
        else:
            text = given
    except (OSError, ValueError) as error:  # no such file; not UTF-8; a NUL in the name
        raise refuse("argument", f"{option} {given!r} cannot be read: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refuse("argument", f"{option} is not JSON: {error}") from None
