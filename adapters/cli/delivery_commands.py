"""Commands about deliveries: deliveries list, show, retry, serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .context import Actor, Owner, opened, options

if TYPE_CHECKING:
    from ...domain.delivery import DeliveryRecord
    from ..delivery_policy import DeliveryPolicy
    from ..delivery_service import DeliveryService, Pass
    from ..journal import Journal

#: DeliveryStatus, spelled out: the parser must not load the domain.
Status = Literal["pending", "delivered", "unknown"]
Name = Annotated[
    str, typer.Argument(metavar="ID", help="An invocation id, or the id of the run that ended.")
]
Gateways = Annotated[
    str, typer.Option(metavar="FILE", help="A TOML file that says which ref goes where.")
]

deliveries = typer.Typer(help="The results of ended runs, on their way to whoever waits for them.")


@deliveries.command("list")
def list_deliveries(
    ctx: typer.Context,
    status: Annotated[Status | None, typer.Option(help="Only those with this status.")] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="Only those that wait for somebody's decision.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 100,
    after: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on after this one of the last page.")
    ] = None,
) -> None:
    """List deliveries in the order of their invocation ids."""
    from .delivery_output import delivery_json, print_deliveries
    from .output import print_json

    with opened(ctx) as journal:
        records = journal.deliveries(status=status, attention=attention, limit=limit, after=after)
    if options(ctx).as_json:
        print_json([delivery_json(r) for r in records])
    else:
        print_deliveries(records)


@deliveries.command("show")
def show(ctx: typer.Context, name: Name) -> None:
    """Show one delivery and what happened to it; with --json, one document with both."""
    from .delivery_output import delivery_json, print_delivery
    from .output import console, event_json, print_event, print_json

    with opened(ctx) as journal:
        record = find(journal, name)
        events = list(journal.delivery_events(record.invocation_id))
    if options(ctx).as_json:
        print_json({**delivery_json(record), "events": [event_json(e) for e in events]})
        return
    print_delivery(record)
    to = console()
    for event in events:
        print_event(event, to)


@deliveries.command("retry")
def retry(
    ctx: typer.Context,
    gateways: Gateways,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Invocation ids, or ids of runs that ended."),
    ] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="All that wait for somebody's decision.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --attention: at most so many.")
    ] = 100,
    actor: Actor = None,
) -> None:
    """Try deliveries again now, under their own invocation ids."""
    from ...domain.checks import refuse
    from .delivery_output import delivery_json, one_delivery
    from .output import print_json

    if bool(names) == attention:
        raise refuse("argument", "name the deliveries to retry, or give --attention")
    with opened(ctx) as journal:
        service = service_on(journal, gateways)
        if attention:
            _report(ctx, service.retry_attention(limit, actor))
            return
        for name in names or ():
            record = service.retry(find(journal, name).invocation_id, actor)
            if options(ctx).as_json:
                print_json(delivery_json(record))
            else:
                typer.echo(one_delivery(record))


@deliveries.command("serve")
def serve(
    ctx: typer.Context,
    gateways: Gateways,
    once: Annotated[
        bool, typer.Option("--once", help="One pass over what is due, and what it did.")
    ] = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="At most so many in one pass.")
    ] = 100,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many are sent at once.")
    ] = 4,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", help="The longest wait between two looks.")
    ] = 1.0,
    attempt_ttl: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="After which an attempt that nobody reported on is unknown."
        ),
    ] = 60.0,
    keep_trying: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long what definitely fails is tried again by itself."
        ),
    ] = 259_200.0,
    retry_ambiguous: Annotated[
        bool,
        typer.Option(
            "--retry-ambiguous",
            help="Also try again by itself what may have arrived: the receiver deduplicates.",
        ),
    ] = False,
    leave_others: Annotated[
        bool,
        typer.Option("--leave-others", help="Leave refs alone that the file has no gateway for."),
    ] = False,
    owner: Owner = None,
) -> None:
    """Send what is due, until SIGTERM or Ctrl-C. Any number of these may run at once."""
    from ..delivery_policy import DeliveryPolicy
    from ..stopping import stopped_by_signals

    policy = DeliveryPolicy(keep_trying=keep_trying, retry_ambiguous=retry_ambiguous)
    with opened(ctx, creates=True) as journal:
        service = service_on(
            journal,
            gateways,
            policy,
            owner=owner,
            attempt_ttl=attempt_ttl,
            concurrency=concurrency,
            leave_others=leave_others,
        )
        if once:
            _report(ctx, service.deliver_due(limit))
            return
        with stopped_by_signals() as interrupt:
            service.run(interrupt, limit=limit, poll=poll)


def find(journal: Journal, name: str) -> DeliveryRecord:
    """The delivery of that invocation id, or of the run of that id.

    Raises RUN_NOT_FOUND / delivery.
    """
    from ...domain.delivery import delivery_invocation_id
    from ...domain.errors import RUN_NOT_FOUND, RunStoreError

    record = journal.delivery(name)
    if record is None:
        run = journal.get(name)
        if run is not None and run.delivery_ref is not None:
            record = journal.delivery(delivery_invocation_id(name, run.delivery_ref))
    if record is None:
        raise RunStoreError(RUN_NOT_FOUND, "delivery", f"there is no delivery {name!r}")
    return record


def service_on(
    journal: Journal, gateways: str, policy: DeliveryPolicy | None = None, **options: Any
) -> DeliveryService:
    """A service with the gateways of that file; options as for DeliveryService."""
    from ..delivery_service import DeliveryService
    from ..gateways.config import load_gateways

    return DeliveryService(journal, load_gateways(gateways), policy, **options)


def _report(ctx: typer.Context, done: Pass) -> None:
    from .output import print_json

    if options(ctx).as_json:
        print_json(done._asdict())
    else:
        counts = ", ".join(f"{n} {name.replace('_', ' ')}" for name, n in done._asdict().items())
        typer.echo(counts)
