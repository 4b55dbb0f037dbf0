"""The command that takes runs and hands them to a function of the user's."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ..masking import mask
from .context import Owner, opened, options
from .delivery_commands import service_on
from .exits import LEFT_BEHIND, one_line

if TYPE_CHECKING:
    from ...domain.record import RunRecord
    from ..retrying import RetryPolicy
    from ..worker import Worker


class _OneLine(logging.Handler):
    """What a worker logs, as one line each on stderr, without credentials."""

    def emit(self, record: logging.LogRecord) -> None:
        text = mask(one_line(record.getMessage()))
        print(f"runjournal: {text}", file=sys.stderr, flush=True)


def worker(
    ctx: typer.Context,
    handler: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Called with the context of each run; found in the working directory too.",
        ),
    ],
    kind: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only runs of this kind; may be repeated."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Take one run if one is due.")] = False,
    concurrency: Annotated[
        int, typer.Option(metavar="N", help="How many runs to work on at once.")
    ] = 1,
    max_attempts: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Fail a run when the handler has raised in so many attempts; default: at once.",
        ),
    ] = None,
    backoff: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="The longest pause after the first failure; it doubles. Default 1.",
        ),
    ] = None,
    gateways: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Deliver each result as its run ends, through these gateways."
        ),
    ] = None,
    ttl: Annotated[float, typer.Option(metavar="SECONDS", help="How long a lease lasts.")] = 60.0,
    grace: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="How long a handler that was told to stop may take."),
    ] = 10.0,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", help="The longest wait between two looks.")
    ] = 1.0,
    owner: Owner = None,
) -> None:
    """Take due runs, up to --concurrency at a time, and run the handler on each.

    SIGTERM and Ctrl-C end it: the handlers are told to stop, and their runs are handed back (not
    cancelled). The exit code is 0, or 8 if a handler did not stop within --grace. A second signal
    kills it.
    """
    from ..loading import load_function
    from ..worker import Worker

    function, retry = load_function(handler, "--handler"), _retry_policy(max_attempts, backoff)
    with _told_on_stderr(), opened(ctx, creates=True) as journal:
        delivery = None if gateways is None else service_on(journal, gateways, leave_others=True)
        taking = Worker(journal, function, owner, ttl, grace, retry=retry, delivery=delivery)
        if once:
            abandoned = _run_once(ctx, taking, kind or None)
        else:
            done = taking.run(
                concurrency,
                kind or None,
                poll=poll,
                signals=True,
                on_record=lambda record: _report(ctx, record),
            )
            abandoned = bool(done.abandoned)
    if abandoned:
        _leave_behind()


def _run_once(ctx: typer.Context, taking: Worker, kinds: list[str] | None) -> bool:
    """Take one run; whether it had to be abandoned: then this worker's lease is still on it."""
    from ..stopping import stopped_by_signals

    with stopped_by_signals() as interrupt:
        record = taking.run_once(kinds, interrupt)
    _report(ctx, record)
    lease = record.lease if record is not None else None
    return lease is not None and lease.owner == taking.ledger.owner


def _leave_behind() -> NoReturn:
    """End this process although a handler goes on in it.

    An exit of the usual kind would wait for threads that the handler has started.
    """
    sys.stdout.flush()
    os._exit(LEFT_BEHIND)


def _retry_policy(max_attempts: int | None, backoff: float | None) -> RetryPolicy | None:
    from ...domain.checks import refuse
    from ..retrying import RetryPolicy

    if max_attempts is None:
        if backoff is not None:
            raise refuse("argument", "--backoff needs --max-attempts")
        return None
    return RetryPolicy(max_attempts) if backoff is None else RetryPolicy(max_attempts, backoff)


@contextmanager
def _told_on_stderr() -> Iterator[None]:
    handler, log = _OneLine(logging.WARNING), logging.getLogger("runjournal")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def _report(ctx: typer.Context, record: RunRecord | None) -> None:
    from .output import print_json, record_json

    if options(ctx).as_json:
        print_json(None if record is None else record_json(record))
    elif record is None:
        typer.echo("no run is due")
    else:
        typer.echo(one_line(f"{record.run_id}: {record.status} (version {record.version})"))
        sys.stdout.flush()
