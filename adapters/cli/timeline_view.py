"""A timeline drawn with characters, and the steps of a replay as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...projections.lanes import Bar, Drawing, Lane, drawing
from ...projections.replay import Step
from ...projections.time_scale import TimeScale, duration
from ...projections.timeline_parts import Timeline
from .exits import one_line
from .output import SHOWN, cell, console, moment

#: Columns of a drawing that is not for a terminal, and the most that one in a terminal takes.
PLAIN, WIDEST = 80, 160
#: The names of the lanes take no more than one column in so many.
NAMES = 4


class Sign(NamedTuple):
    """How something is drawn, also where only ASCII can be, and in which style."""

    sign: str
    ascii: str
    style: str
    meaning: str


_BARS = {
    "queued": Sign("·", ".", "dim", "queued"),
    "suspended": Sign("░", ":", "yellow", "suspended"),
    "held": Sign("━", "=", "blue", "holds the run (token first)"),
    "sending": Sign("━", "=", "magenta", "delivery attempt"),
    "lost": Sign("╌", "-", "red", "may have run out already"),
}
#: The later ones are drawn over the earlier ones.
_MARKS = {
    "checkpoint": Sign("•", "o", "bold blue", "checkpoint"),
    "started": Sign("○", "s", "", "started"),
    "takeover": Sign("▼", "v", "bold", "takeover"),
    "resumed": Sign("▶", ">", "yellow", "resumed"),
    "decision": Sign("◆", "d", "bold yellow", "decision"),
    "lost": Sign("✗", "x", "bold red", "the lease had run out"),
    "completed": Sign("✓", "c", "bold green", "completed"),
    "failed": Sign("✗", "x", "bold red", "failed"),
    "cancelled": Sign("⊘", "/", "bold", "cancelled"),
    "delivered": Sign("✓", "c", "bold green", "delivered"),
    "undelivered": Sign("✗", "x", "bold red", "not known to be delivered"),
}
_ORDER = list(_MARKS)


def print_timeline(line: Timeline, now: datetime) -> None:
    """The lanes, what the signs mean, and a table of the holders."""
    to = console()
    ascii_only = to.options.ascii_only
    columns = max(40, min(to.width if to.is_terminal else PLAIN, WIDEST))
    drawn = drawing(line, now)
    _print_head(line, to)
    room = min(max(len(one_line(lane.name)) for lane in drawn.lanes), columns // NAMES)
    width = columns - room - 1
    for lane in drawn.lanes:
        name = _shortened(one_line(lane.name), room, "~" if ascii_only else "…")
        to.print(Text(name.ljust(room + 1)) + _lane(lane, width, ascii_only), soft_wrap=True)
    to.print(Text(" " * (room + 1) + _axis(drawn.scale, width), style="dim"), soft_wrap=True)
    to.print()
    _print_legend(drawn, to, columns, ascii_only)
    if line.holdings:
        to.print()
        to.print(_holders(line))
    _print_asked(line, to)
    _print_delivery(line, to)


def _print_head(line: Timeline, to: Console) -> None:
    record = line.record
    took = duration(((record.ended_at or record.updated_at) - record.created_at).total_seconds())
    head = Text(one_line(record.run_id), style="bold")
    code = f" ({record.outcome.code})" if record.outcome else ""
    head.append(f"  {record.status}{one_line(code)}, {line.events:,} events in {took}", style="")
    to.print(head, soft_wrap=True)
    to.print()


def _shortened(name: str, room: int, dots: str) -> str:
    """The name without its middle: that of two workers often differs at the end only."""
    if len(name) <= room:
        return name
    tail = room // 2
    return name[: room - tail - 1] + dots + name[-tail:]


def _lane(lane: Lane, width: int, ascii_only: bool) -> Text:
    signs: list[tuple[str, str]] = [(" ", "")] * width
    for bar in lane.bars:
        begin, end = _columns(bar, width)
        for i in range(begin, end):
            signs[i] = _sign(_BARS[bar.kind], ascii_only)
        if bar.lost_from is not None:
            for i in range(min(_column(bar.lost_from, width), end - 1), end):
                signs[i] = _sign(_BARS["lost"], ascii_only)
    for mark in sorted(lane.marks, key=lambda m: _ORDER.index(m.kind)):
        signs[_column(mark.at, width)] = _sign(_MARKS[mark.kind], ascii_only)
    for bar in lane.bars:
        begin, end = _columns(bar, width)
        # A number that fills the bar would hide what happened in it.
        if bar.kind in ("held", "sending") and 0 < len(bar.label) <= (end - begin) // 2:
            skip = signs[begin][0] == _sign(_MARKS["takeover"], ascii_only)[0]
            for i, character in enumerate(bar.label, begin + skip):
                signs[i] = (character, f"bold {_BARS[bar.kind].style}")
    text = Text()
    for sign, style in signs:
        text.append(sign, style)
    text.rstrip()
    return text


def _sign(sign: Sign, ascii_only: bool) -> tuple[str, str]:
    return (sign.ascii if ascii_only else sign.sign, sign.style)


def _column(place: float, width: int) -> int:
    return min(int(place * width), width - 1)


def _columns(bar: Bar, width: int) -> tuple[int, int]:
    begin = _column(bar.begin, width)
    return begin, max(begin + 1, min(round(bar.end * width), width))


def _axis(scale: TimeScale, width: int) -> str:
    """The times at both ends, and in the middle where there is room."""
    first, middle, last = (scale.label(place) for place in (0, 0.5, 1))
    line = first.ljust(width - len(last)) + last
    at = (width - len(middle)) // 2
    if at <= len(first) + 1:
        return line
    return line[:at] + middle + line[at + len(middle) :]


def _print_legend(drawn: Drawing, to: Console, columns: int, ascii_only: bool) -> None:
    kinds = [bar.kind for lane in drawn.lanes for bar in lane.bars]
    lost = any(bar.lost_from is not None for lane in drawn.lanes for bar in lane.bars)
    used = {k: _BARS[k] for k in _BARS if k in kinds or (k == "lost" and lost)}
    marks = {mark.kind for lane in drawn.lanes for mark in lane.marks}
    line = Text()
    for item in [*used.values(), *(_MARKS[k] for k in _ORDER if k in marks)]:
        if line and len(line) + len(item.meaning) + 5 > columns:
            to.print(line, soft_wrap=True)
            line = Text()
        line.append("   " if line else "").append(*_sign(item, ascii_only))
        line.append(f" {item.meaning}", "dim")
    to.print(line, soft_wrap=True)
    if drawn.scale.shortened:
        quiet = sum((c.end - c.begin).total_seconds() for c in drawn.scale.shortened)
        told = f"Not to scale: {duration(quiet)} in which nobody worked on it are shortened."
        to.print(Text(told, style="dim"), soft_wrap=True)


def _holders(line: Timeline) -> Table:
    losses = {loss.fencing_token: loss for loss in line.losses}
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("TOKEN", "ATTEMPT", "HOLDER", "FROM", "HELD FOR", "SAVED", "ENDED"):
        right = title in ("TOKEN", "ATTEMPT", "HELD FOR", "SAVED")
        table.add_column(
            title,
            justify="right" if right else "left",
            no_wrap=title not in ("HOLDER", "ENDED"),
            overflow="fold",
        )
    for h in line.holdings:
        held = (h.until or line.record.updated_at) - h.since
        loss = losses.get(h.fencing_token)
        idle = f", idle up to {duration(loss.idle)}" if loss else ""
        table.add_row(
            cell(h.fencing_token),
            cell(h.attempt),
            cell(h.owner),
            cell(f"{h.since:%m-%d %H:%M:%S}"),
            cell(duration(held.total_seconds())),
            cell(f"{h.checkpoints.count:,}"),
            cell(f"{h.ended or 'holds it'}{idle}"),
        )
    return table


def _print_asked(line: Timeline, to: Console) -> None:
    asked: list[tuple[int, datetime, str | None, str, str | None]]
    asked = [(a.version, a.at, a.actor, a.what, a.message) for a in line.actions]
    asked += [
        (d.version, d.at, d.actor, f"decided {d.approval_id}: {d.decision}", None)
        for d in line.decisions
    ]
    to.print()
    for version, at, actor, what, message in sorted(asked, key=lambda one: one[0]):
        by = f" by {actor}" if actor else ""
        why = f": {message}" if message else ""
        to.print(cell(f"{version:>5}  {moment(at)}  {what}{by}{why}"), soft_wrap=True)


def _print_delivery(line: Timeline, to: Console) -> None:
    if line.delivery is None:
        return
    to.print()
    to.print(
        cell(f"Delivery to {line.delivery.delivery_ref}: {line.delivery.status}"), soft_wrap=True
    )
    for one in line.delivery.attempts:
        error = f": {one.error}" if one.error else ""
        told = f"{one.attempt:>5}  {moment(one.at)}  {one.result or 'under way'} ({one.owner})"
        to.print(cell(told + error), soft_wrap=True)


def step_json(step: Step) -> dict[str, Any]:
    """One step of a replay as JSON."""
    event = step.event
    return {
        "version": event.originator_version,
        "timestamp": event.timestamp.isoformat(),
        "topic": event.topic,
        "actor": event.actor,
        "commandId": event.command_id,
        "hash": event.hash,
        "changes": [changed._asdict() for changed in step.changes],
    }


def print_step(step: Step, to: Console) -> None:
    """An event, and below it what it changed."""
    event = step.event
    head = Text(f"{event.originator_version:>5}  {moment(event.timestamp)}  ")
    head.append(event.topic.removeprefix("run."), style="bold")
    if event.actor is not None:
        head.append("  by ", style="dim").append(one_line(event.actor))
    to.print(head, soft_wrap=True)
    for line in _changes(step):
        to.print(line, soft_wrap=True)


def _changes(step: Step) -> Iterator[Text]:
    for changed in step.changes:
        line = Text(f"       {one_line(changed.field)}: ")
        before, after = _value(changed.before), _value(changed.after)
        if changed.before is not None:
            line.append(before, style="red").append(" ")
        yield line.append("-> ", style="dim").append(after, style="green")


def _value(value: object) -> str:
    if value is None:
        return "nothing"
    text = one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
