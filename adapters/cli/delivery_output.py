"""Deliveries on stdout: tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from ...domain.delivery import DeliveryRecord
from .exits import one_line
from .output import cell, console, moment

_STYLES = {"pending": "cyan", "delivered": "green", "unknown": "yellow"}


def delivery_json(record: DeliveryRecord) -> dict[str, Any]:
    """The delivery's JSON form."""
    return {
        **record.model_dump(mode="json", by_alias=True),
        "needsAttention": record.needs_attention,
    }


def one_delivery(record: DeliveryRecord) -> str:
    """One line: what it is, and how it stands."""
    line = f"{record.run_id} -> {record.delivery_ref}: {record.status} (attempts {record.attempts})"
    return one_line(line if record.error is None else f"{line}: {record.error}")


def print_deliveries(records: Iterable[DeliveryRecord]) -> None:
    """One row per delivery."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("INVOCATION", "RUN", "REF", "STATUS", "ATTEMPTS", "NEXT", "ERROR"):
        table.add_column(title, no_wrap=title in ("INVOCATION", "NEXT"))
    for r in records:
        table.add_row(
            # Whole in --json and where it is piped; its beginning is enough for people.
            cell(r.invocation_id if not console().is_terminal else r.invocation_id[:21]),
            cell(r.run_id),
            cell(r.delivery_ref),
            cell(r.status, _STYLES[r.status]),
            cell(r.attempts),
            cell("attention" if r.needs_attention else moment(r.next_attempt_at)),
            cell(r.error),
        )
    console().print(table)


def print_delivery(record: DeliveryRecord) -> None:
    """One row per field that says something."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _fields(record):
        if value not in (None, ""):
            table.add_row(cell(name), cell(value, _STYLES.get(str(value), "")))
    console().print(table)


def _fields(r: DeliveryRecord) -> Iterable[tuple[str, object]]:
    yield "invocation", r.invocation_id
    yield "run", r.run_id
    yield "delivery ref", r.delivery_ref
    yield "status", r.status
    yield "attempts", r.attempts
    if r.sending:
        yield "being sent by", f"{r.sending.owner}, until {moment(r.sending.expires_at)}"
    elif r.needs_attention:
        yield "next attempt", "when somebody asks for it"
    else:
        yield "next attempt", moment(r.next_attempt_at)
    yield "error", r.error
    if r.error is not None:
        yield "arrived", "no" if r.definite else "not known"
    yield "created", moment(r.created_at)
    yield "updated", moment(r.updated_at)
