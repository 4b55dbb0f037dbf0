"""The command that counts a whole journal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .context import opened, options

if TYPE_CHECKING:
    from ...projections.stats import JournalStats


def stats(
    ctx: typer.Context,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Print Prometheus's text format.")
    ] = False,
) -> None:
    """Count runs, leases, deliveries, projections and bytes, and say how old the oldest are."""
    from .output import print_json

    with opened(ctx) as journal:
        found = journal.stats()
    if prometheus:
        from ..prometheus import prometheus_text

        sys.stdout.write(prometheus_text(found))
    elif options(ctx).as_json:
        print_json(found.model_dump(mode="json", by_alias=True))
    else:
        _print(found)


def _print(found: JournalStats) -> None:
    from rich.table import Table

    from .output import cell, console

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("WHAT", "COUNT", "OLDEST"):
        table.add_column(title, justify="left" if title == "WHAT" else "right")
    for what, count, age in _rows(found):
        table.add_row(cell(what), cell(f"{count:,}"), cell(age))
    console().print(table)


def _rows(found: JournalStats) -> list[tuple[str, int, str]]:
    def age(seconds: float | None) -> str:
        from ..durations import age_of

        return "" if seconds is None else age_of(seconds)

    return [
        *((f"{run.kind}: {run.status.value}", run.count, "") for run in found.runs),
        ("ready now", found.ready, age(found.oldest_ready_age)),
        ("held", found.held, ""),
        ("abandoned", found.abandoned, age(found.oldest_abandoned_age)),
        ("set aside", found.set_aside + found.deliveries_set_aside, ""),
        *((f"deliveries: {sent.status.value}", sent.count, "") for sent in found.deliveries),
        ("not delivered", _undelivered(found), age(found.oldest_undelivered_age)),
        ("waiting for a decision", found.deliveries_waiting, ""),
        *((f"projection {p.name}: behind", p.lag, "") for p in found.projections),
        ("events, at most", found.events, ""),
        ("bytes", found.size_bytes, ""),
    ]


def _undelivered(found: JournalStats) -> int:
    return sum(sent.count for sent in found.deliveries if sent.status != "delivered")
