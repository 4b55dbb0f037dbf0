"""The command that checks a deployment before it goes live, and every day after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from .context import opened, options
from .exits import DOUBTFUL, one_line
from .migrate_command import state_of

if TYPE_CHECKING:
    from ...projections.inspection import Check


def doctor(
    ctx: typer.Context,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A TOML file with these options, by their long names."),
    ] = None,
    require: Annotated[
        Literal["process", "cross-process"] | None,
        typer.Option(help="How far leases must exclude others."),
    ] = None,
    backup: Annotated[
        str | None,
        typer.Option(metavar="PATH|ISO", help="The newest backup, a folder of them, or its time."),
    ] = None,
    backup_max_age: Annotated[
        str | None, typer.Option(metavar="AGE", help="How old it may be; default 1d.")
    ] = None,
    retention: Annotated[
        str | None, typer.Option(metavar="AGE", help="How long runs are kept after their end.")
    ] = None,
    gateways: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The TOML file that says which ref goes where."),
    ] = None,
    undelivered: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="How long a result may be on its way; default 1h."),
    ] = None,
    abandoned: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="How long a run may lie abandoned; default 5m."),
    ] = None,
    lag: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many events a projection may be behind; default 10000."
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Let a warning decide the exit code too.")
    ] = False,
) -> None:
    """Check a deployment: pass, warn or fail in one line each, with what to do. Changes nothing.

    Exits with 9 when a check failed.
    """
    from ..doctor.expectations import expectations

    expected = expectations(
        config,
        {
            "require": require,
            "backup": backup,
            "backup_max_age": backup_max_age,
            "retention": retention,
            "gateways": gateways,
            "undelivered": undelivered,
            "abandoned": abandoned,
            "lag": lag,
        },
    )
    found = [_schema(ctx)]
    if found[0].verdict == "pass":
        from ..doctor.checks import Deployment, run_checks

        with opened(ctx) as journal:
            found += run_checks(Deployment(journal, expected))
    _print(ctx, found)
    verdicts = {check.verdict for check in found}
    if "fail" in verdicts or (strict and "warn" in verdicts):
        raise typer.Exit(DOUBTFUL)


def _schema(ctx: typer.Context) -> Check:
    """Looked at before the journal is opened, which would bring it up to date, or create it."""
    from ...projections.inspection import Check

    state = state_of(ctx)
    if state is None:
        return Check("schema", "pass", "a journal in memory has none")
    if not state.missing:
        return Check("schema", "pass", f"version {state.version}, as this code expects")
    lacks = "there is no journal" if state.version == 0 else f"version {state.version} is too old"
    return Check("schema", "fail", f"{state.where}: {lacks}", "runjournal migrate")


def _print(ctx: typer.Context, found: list[Check]) -> None:
    from .output import print_json

    if options(ctx).as_json:
        worst = next(
            v for v in ("fail", "warn", "pass") if any(check.verdict == v for check in found)
        )
        checks: list[dict[str, Any]] = [check._asdict() for check in found]
        print_json({"verdict": worst, "checks": checks})
        return
    for check in found:
        fix = f" -> {check.fix}" if check.fix else ""
        typer.echo(one_line(f"{check.verdict}  {check.name}: {check.message}{fix}"))
