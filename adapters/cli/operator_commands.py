"""Commands that ask something of a run from outside: start, cancel, fail, resume, decide."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .context import Actor, CommandId, RunId, opened_ledger, options, read_json

if TYPE_CHECKING:
    from ...domain.errors import RunStoreError
    from ...domain.record import RunRecord

Message = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for people.")]


def start(
    ctx: typer.Context,
    run_id: RunId,
    kind: Annotated[str, typer.Option(metavar="NAME", help="Which workers may take it.")] = (
        "default"
    ),
    input_: Annotated[
        str | None,
        typer.Option(
            "--input", metavar="JSON|@FILE|-", help="The run's input; - reads it from stdin."
        ),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="May be repeated.")
    ] = None,
    delivery_ref: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where the result is to go.")
    ] = None,
    authority_ref: Annotated[
        str | None, typer.Option(metavar="NAME", help="On whose behalf it runs.")
    ] = None,
    parent: Annotated[str | None, typer.Option(metavar="RUN_ID", help="The parent run.")] = None,
    available_at: Annotated[
        str | None,
        typer.Option(metavar="ISO", help="Not to be claimed before this time, with time zone."),
    ] = None,
    actor: Actor = None,
    command_id: CommandId = None,
) -> None:
    """Create a run, queued for the next worker. Repeating it with the same arguments is safe."""
    arguments: dict[str, Any] = {
        "kind": kind,
        "input": None if input_ is None else read_json(input_, "--input"),
        "labels": _labels(label or []),
        "delivery_ref": delivery_ref,
        "authority_ref": authority_ref,
        "parent_run_id": parent,
        "available_at": None if available_at is None else read_time(available_at, "--available-at"),
        "actor": actor,
        "command_id": command_id,
    }
    with opened_ledger(ctx, creates=True) as ledger:
        _answer(ctx, ledger.start(run_id, **arguments))


def cancel(
    ctx: typer.Context,
    run_id: RunId,
    message: Message = None,
    actor: Actor = None,
    command_id: CommandId = None,
) -> None:
    """End a run because it is wanted no more; its holder is fenced at its next write."""
    with opened_ledger(ctx) as ledger:
        _answer(ctx, ledger.cancel(run_id, message, actor, command_id))


def fail(
    ctx: typer.Context,
    run_id: RunId,
    code: Annotated[str, typer.Option(metavar="CODE", help="Why, for programs.")],
    message: Message = None,
    actor: Actor = None,
    command_id: CommandId = None,
) -> None:
    """Give up a run that nobody holds: queued, suspended or abandoned."""
    with opened_ledger(ctx) as ledger:
        _answer(ctx, ledger.fail(run_id, code, message, actor, command_id))


def resume(
    ctx: typer.Context, run_id: RunId, actor: Actor = None, command_id: CommandId = None
) -> None:
    """Queue a suspended run again."""
    with opened_ledger(ctx) as ledger:
        _answer(ctx, ledger.request_resume(run_id, actor, command_id))


def decide(
    ctx: typer.Context,
    run_id: RunId,
    approval_id: Annotated[str, typer.Argument(metavar="APPROVAL_ID", help="What it waits for.")],
    decision: Annotated[str, typer.Argument(metavar="DECISION", help="Such as yes or no.")],
    actor: Actor = None,
    command_id: CommandId = None,
) -> None:
    """Record a decision that a suspended run waits for."""
    with opened_ledger(ctx) as ledger:
        _answer(ctx, ledger.record_decision(run_id, approval_id, decision, actor, command_id))


def _answer(ctx: typer.Context, record: RunRecord) -> None:
    from .exits import one_line
    from .output import print_json, record_json

    if options(ctx).as_json:
        print_json(record_json(record))
    else:
        typer.echo(one_line(f"{record.run_id}: {record.status} (version {record.version})"))


def _refuse(message: str) -> RunStoreError:
    from ...domain.checks import refuse

    return refuse("argument", message)


def _labels(given: list[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not equals:
            raise _refuse(f"--label {pair!r} must be KEY=VALUE")
        if key in labels:
            raise _refuse(f"--label {key!r} is given twice")
        labels[key] = value
    return labels


def read_time(given: str, option: str) -> datetime:
    """The time that an option gives; RUN_VALIDATION_ERROR when it is none."""
    from ...domain.checks import refuse

    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise refuse("time", f"{option} {given!r} is not an ISO 8601 time") from None
