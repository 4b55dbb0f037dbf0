"""Records and events on stdout: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...domain.events import Event
from ...domain.record import RunRecord
from .exits import one_line

#: Of a field of an event, people see so many characters; --json has it whole.
SHOWN = 60

_STYLES = {
    "queued": "cyan",
    "running": "blue",
    "suspended": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
}
#: What a line of the log leaves out: it is either in front of it or only of use to programs.
_NOT_SHOWN = frozenset(Event.model_fields) | {"digest", "start_digest"}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        # Rich would exit with a code of its own.
        raise BrokenPipeError


def console() -> Console:
    """The terminal as it is; into a pipe or a file, lines of any length."""
    return _Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)


def print_json(document: Any) -> None:
    """One JSON document on one line, in ASCII so that any terminal and pipe can carry it."""
    print(json.dumps(document, allow_nan=False), flush=True)


def record_json(record: RunRecord) -> dict[str, Any]:
    """The record's JSON form."""
    return record.model_dump(mode="json", by_alias=True)


def event_json(event: Event) -> dict[str, Any]:
    """An event's JSON form: its topic and all its fields."""
    return {"topic": event.topic, **event.model_dump(mode="json")}


def cell(value: object, style: str = "") -> Text:
    """A value as text that is never taken for markup and never leaves its line."""
    return Text("" if value is None else one_line(str(value)), style=style)


def moment(at: datetime | None) -> str:
    """A time to the millisecond, in UTC."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}Z"


def print_records(records: Sequence[RunRecord]) -> None:
    """One row per run; if any is suspended, with what it waits for."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    some_wait = any(r.suspension for r in records)
    for title in ("RUN", "KIND", "STATUS", "VERSION", "ATTEMPT", "TOKEN", "HOLDER"):
        table.add_column(title)
    if some_wait:
        table.add_column("WAITS FOR")
    table.add_column("UPDATED", no_wrap=True)
    for r in records:
        table.add_row(
            cell(r.run_id),
            cell(r.kind),
            cell(r.status, _STYLES[r.status]),
            cell(r.version),
            cell(r.attempt),
            cell(r.fencing_token),
            cell(r.lease.owner if r.lease else None),
            *([cell(_waits_for(r))] if some_wait else []),
            cell(moment(r.updated_at)),
        )
    console().print(table)


def print_record(record: RunRecord, payloads: Mapping[str, Any] | None = None) -> None:
    """One row per field that says something, and one per payload that there is, whole."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _fields(record):
        if value not in (None, "", {}, ()):
            table.add_row(cell(name), cell(value, _STYLES.get(str(value), "")))
    for name, value in (payloads or {}).items():
        if value is not None:
            table.add_row(cell(name), cell(json.dumps(value, ensure_ascii=False)))
    console().print(table)


def _fields(r: RunRecord) -> Iterable[tuple[str, object]]:
    yield "run", r.run_id
    yield "kind", r.kind
    yield "status", r.status
    yield "version", r.version
    yield "attempt", r.attempt
    yield "fencing token", r.fencing_token
    if r.lease:
        yield "lease", f"{r.lease.owner}, until {moment(r.lease.expires_at)}"
    if r.checkpoint_ref:
        ref = r.checkpoint_ref
        yield (
            "checkpoint",
            f"{ref.key}, version {ref.version}, {ref.size:,} bytes, {moment(ref.saved_at)}",
        )
    if r.outcome:
        yield "outcome", r.outcome.code + (f": {r.outcome.message}" if r.outcome.message else "")
    if r.suspension:
        yield "suspended", moment(r.suspension.suspended_at)
        yield "waits for", _waits_for(r)
    yield "approvals", _pairs(r.approvals)
    yield "labels", _pairs(r.labels)
    yield "delivery ref", r.delivery_ref
    yield "authority ref", r.authority_ref
    yield "parent run", r.parent_run_id
    yield "available", moment(r.available_at)
    yield "failures", r.failures or None
    yield "last error", r.last_error
    yield "created", moment(r.created_at)
    yield "updated", moment(r.updated_at)
    yield "ended", moment(r.ended_at)


def _waits_for(record: RunRecord) -> str | None:
    if record.suspension is None:
        return None
    return ", ".join(record.suspension.pending_approval_ids) or "a resume"


def _pairs(pairs: dict[str, Any]) -> str:
    return ", ".join(f"{k}={'undecided' if v is None else v}" for k, v in pairs.items())


def print_event(event: Event, to: Console) -> None:
    """One line: version, time, topic, what the event says, and who asked for it."""
    line = Text(f"{event.originator_version:>5}  {moment(event.timestamp)}  ")
    line.append(f"{event.topic.removeprefix('run.'):<18}", style="bold")
    for name, value in event.model_dump(mode="json", exclude=set(_NOT_SHOWN)).items():
        if value not in (None, "", {}, []):
            line.append(f"  {name}=", style="dim")
            line.append(one_line(_short(value)))
    if event.actor is not None:
        line.append("  by ", style="dim").append(one_line(event.actor))
    to.print(line, soft_wrap=True)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
