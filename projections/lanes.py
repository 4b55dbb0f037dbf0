"""A timeline as lanes to be drawn: the run's own, one per owner, and the delivery's.

What is drawn is bounded: what cannot be told apart is put together, and says how much it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

from .time_scale import Span, TimeScale, duration
from .timeline_parts import DeliveryTry, Holding, Loss, Timeline

#: At most so many owners have a lane each; the rest share one.
OWNERS = 20
#: Bars shorter than this part of the whole are put together where they touch, and so are marks.
FINE = 0.004

BarKind = Literal["queued", "suspended", "held", "sending"]
MarkKind = Literal[
    "checkpoint",
    "takeover",
    "lost",
    "started",
    "decision",
    "resumed",
    "completed",
    "failed",
    "cancelled",
    "delivered",
    "undelivered",
]


class Bar(NamedTuple):
    """A stretch of a lane, from 0 to 1. `label` is short; `title` says it all."""

    begin: float
    end: float
    kind: BarKind
    label: str
    title: str
    lost_from: float | None = None


class Mark(NamedTuple):
    """A moment in a lane."""

    at: float
    kind: MarkKind
    title: str


class Lane(NamedTuple):
    """One line of the drawing. `note` says in a few words what is in it."""

    name: str
    kind: Literal["run", "owner", "delivery"]
    note: str
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


class Drawing(NamedTuple):
    scale: TimeScale
    lanes: tuple[Lane, ...]


def drawing(line: Timeline, now: datetime) -> Drawing:
    """The lanes of a timeline. `now` is where a run that has not ended ends in the drawing."""
    begin, record = line.record.created_at, line.record
    tries = line.delivery.attempts if line.delivery else ()
    last = [record.updated_at, *(t.until or now for t in tries)]
    last += [h.until or now for h in line.holdings]
    end = max(last) if record.is_terminal else max(*last, now)
    worked = [(h.since, h.until or end) for h in line.holdings]
    scale = TimeScale(begin, end, [*worked, *((t.at, t.until or end) for t in tries)])
    lanes = [_run_lane(line, scale), *_owner_lanes(line, scale)]
    if line.delivery is not None:
        lanes.append(_delivery_lane(line, scale))
    return Drawing(scale, tuple(lanes))


def _run_lane(line: Timeline, scale: TimeScale) -> Lane:
    record = line.record
    end = record.ended_at or scale.end
    waits = [(s.since, s.until or end) for s in line.suspensions]
    bars = [
        _bar(scale, s.since, s.until or end, "suspended", "suspended", _suspended(s.undecided))
        for s in line.suspensions
    ]
    held = [(h.since, h.until or end) for h in line.holdings]
    for first, last in _between([*waits, *held], record.created_at, end):
        bars.append(_bar(scale, first, last, "queued", "queued", "queued: nobody had it"))
    marks = [
        Mark(scale.place(d.at), "decision", f"{d.approval_id}: {d.decision}{_by(d.actor)}")
        for d in line.decisions
    ]
    marks += [Mark(scale.place(a.at), a.what, f"{a.what}{_by(a.actor)}") for a in line.actions]
    if record.ended_at and not any(m.kind == record.status for m in marks):
        title = f"{record.status}: {record.outcome.code if record.outcome else ''}"
        # The status of a run that has ended is the name of its mark.
        kind: MarkKind = "completed" if record.status == "completed" else "failed"
        marks.append(Mark(scale.place(record.ended_at), kind, title))
    return Lane("run", "run", str(record.status), _merged(bars), _thinned(marks))


def _owner_lanes(line: Timeline, scale: TimeScale) -> Iterator[Lane]:
    by_owner: dict[str, list[Holding]] = {}
    for holding in line.holdings:
        by_owner.setdefault(holding.owner, []).append(holding)
    names = list(by_owner)
    shown = names if len(names) <= OWNERS else names[: OWNERS - 1]
    losses = {loss.fencing_token: loss for loss in line.losses}
    for name in shown:
        yield _owner_lane(name, by_owner[name], losses, scale)
    rest = [h for name in names[len(shown) :] for h in by_owner[name]]
    if rest:
        yield _owner_lane(f"{len(names) - len(shown):,} other owners", rest, losses, scale)


def _owner_lane(
    name: str, holdings: list[Holding], losses: dict[int, Loss], scale: TimeScale
) -> Lane:
    bars, marks = list[Bar](), list[Mark]()
    for holding in holdings:
        until = holding.until or scale.end
        bar = _bar(scale, holding.since, until, "held", str(holding.fencing_token), told(holding))
        loss = losses.get(holding.fencing_token)
        if loss is not None:
            bar = bar._replace(lost_from=scale.place(min(loss.live_until, until)))
            marks.append(Mark(bar.end, "lost", f"token {holding.fencing_token}: the lease ran out"))
        if holding.after is not None:
            title = f"token {holding.fencing_token} takes over from token {holding.after}"
            marks.append(Mark(bar.begin, "takeover", title))
        bars.append(bar)
        saved = holding.checkpoints
        for at in {*saved.marks, *((saved.last_at,) if saved.last_at else ())}:
            marks.append(Mark(scale.place(at), "checkpoint", "checkpoint"))
    tokens = [h.fencing_token for h in holdings]
    count = sum(h.checkpoints.count for h in holdings)
    note = f"token {_few(tokens)}"
    if count:
        note += f" · {count:,} checkpoint{'s' * (count != 1)}"
    return Lane(name, "owner", note, _merged(bars), _thinned(marks))


def _delivery_lane(line: Timeline, scale: TimeScale) -> Lane:
    assert line.delivery is not None
    bars, marks = list[Bar](), list[Mark]()
    for one in line.delivery.attempts:
        until = one.until or scale.end
        bars.append(_bar(scale, one.at, until, "sending", str(one.attempt), _tried(one)))
        if one.result is not None:
            kind: MarkKind = "delivered" if one.result == "delivered" else "undelivered"
            marks.append(Mark(scale.place(until), kind, _tried(one)))
    tries = len(line.delivery.attempts)
    note = f"{line.delivery.status} · {tries:,} attempt{'s' * (tries != 1)}"
    return Lane("delivery", "delivery", note, _merged(bars), _thinned(marks))


def _bar(
    scale: TimeScale, first: datetime, last: datetime, kind: BarKind, label: str, title: str
) -> Bar:
    length = duration((last - first).total_seconds())
    return Bar(scale.place(first), scale.place(last), kind, label, f"{title} ({length})")


def told(holding: Holding) -> str:
    """One holding in one sentence."""
    count = holding.checkpoints.count
    return (
        f"{holding.owner}, token {holding.fencing_token}, attempt {holding.attempt}: "
        f"{holding.ended or 'holds the run'}, {count:,} checkpoint{'s' * (count != 1)}"
    )


def _suspended(undecided: tuple[str, ...]) -> str:
    return f"suspended; undecided: {', '.join(undecided)}" if undecided else "suspended"


def _tried(one: DeliveryTry) -> str:
    error = f": {one.error}" if one.error else ""
    return f"attempt {one.attempt} by {one.owner}, {one.result or 'under way'}{error}"


def _by(actor: str | None) -> str:
    return f" by {actor}" if actor is not None else ""


def _few(tokens: list[int]) -> str:
    if len(tokens) <= 3:
        return ", ".join(map(str, tokens))
    return f"{tokens[0]} … {tokens[-1]} ({len(tokens):,})"


def _between(spans: Iterable[Span], begin: datetime, end: datetime) -> Iterator[Span]:
    """What the spans leave free."""
    for first, last in sorted(spans):
        if first > begin:
            yield begin, first
        begin = max(begin, last)
    if end > begin:
        yield begin, end


def _merged(bars: Iterable[Bar]) -> tuple[Bar, ...]:
    """The bars in order; short ones of a kind that follow closely become one."""
    merged: list[Bar] = []
    counts: list[int] = []
    for bar in sorted(bars):
        near = merged and bar.kind == merged[-1].kind and bar.begin - merged[-1].end < FINE
        if near and bar.end - bar.begin < FINE and (counts[-1] > 1 or _short(merged[-1])):
            counts[-1] += 1
            title = f"{counts[-1]:,} stretches, the last: {bar.title}"
            end = max(bar.end, merged[-1].end)
            merged[-1] = merged[-1]._replace(end=end, label="", title=title, lost_from=None)
        else:
            merged.append(bar)
            counts.append(1)
    return tuple(merged)


def _short(bar: Bar) -> bool:
    return bar.end - bar.begin < FINE


def _thinned(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """The marks in order; of a kind that follow closely, the first, which says how many."""
    kept: list[Mark] = []
    last: dict[str, tuple[int, int]] = {}
    for mark in sorted(marks):
        index, count = last.get(mark.kind, (-1, 0))
        if count and mark.at - kept[index].at < FINE:
            last[mark.kind] = (index, count + 1)
            if mark.kind != "checkpoint":  # of those only some are marked at all
                first = kept[index].title.partition(" (and ")[0]
                kept[index] = kept[index]._replace(title=f"{first} (and {count:,} more)")
        else:
            last[mark.kind] = (len(kept), 1)
            kept.append(mark)
    return tuple(kept)
