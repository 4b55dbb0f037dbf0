"""The command that `verify` and `projections rebuild` start to read parts of a journal."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .context import DEFAULT_DB, opened, options

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...domain.ports import PayloadCodec
    from ...projections.parts import Part
    from ..journal import Journal
    from ..part_processes import PartProcesses

#: A journal of fewer events is read by one process: starting others takes half a second.
MANY_EVENTS = 50_000


def processes(ctx: typer.Context, journal: Journal, jobs: int | None) -> PartProcesses | None:
    """The processes that read parts of this journal; None where this one does it all."""
    from ..part_processes import PartProcesses, usable_cores

    if jobs is None:
        jobs = usable_cores() if (journal.position() or 0) >= MANY_EVENTS else 1
    if jobs == 1 or journal.atomicity != "cross-process":
        return None
    given = options(ctx)
    return PartProcesses(
        given.db or DEFAULT_DB,
        jobs,
        schema=given.schema,
        pooler=given.pooler,
        key_file=given.key_file,
    )


def part(
    ctx: typer.Context,
    work: Annotated[str, typer.Argument()],
    table: Annotated[str | None, typer.Argument()] = None,
    anchor: Annotated[str | None, typer.Option()] = None,
) -> None:
    """Read the parts of the journal that are told on stdin: for `verify --jobs`."""
    from ..giving_way import YieldingCodec, give_way
    from ..part_processes import serve_parts

    give_way()
    # What is read dies with its page, by reference counts; looking for cycles costs a tenth.
    gc.set_threshold(100_000)
    with opened(ctx) as journal:
        store, codec = journal.store, YieldingCodec(journal._codec)
        rebuilds = work == "rebuild"
        read = _rebuilding(store, codec, table) if rebuilds else _verifying(store, codec, anchor)
        serve_parts(read, sys.stdin, sys.stdout)


def _verifying(
    store: Any, codec: PayloadCodec, anchor: str | None
) -> Callable[..., dict[str, Any]]:
    from pathlib import Path

    from ..checking import found_in

    path = None if anchor is None else Path(anchor)

    def read(part: Part, say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        def advance(events: int) -> None:
            say({"events": events})

        for finding in found_in(store, codec, path, advance, part):
            say({"finding": finding})
        return {}

    return read


def _rebuilding(store: Any, codec: PayloadCodec, table: Any) -> Callable[..., dict[str, Any]]:
    from ..checking import rebuilt_in

    def read(part: Part, say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        def advance(events: int) -> None:
            say({"events": events})

        done = rebuilt_in(store, codec, table, advance, part)
        for finding in done.findings:
            say({"finding": finding})
        return {"streams": done.streams, "repaired": done.repaired}

    return read
