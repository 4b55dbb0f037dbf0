"""The audit page: what was read, put into the template, under a policy that admits nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from ... import __version__
from ...projections.lanes import Drawing, drawing
from ...projections.time_scale import duration
from ...projections.timeline_parts import Timeline
from ..cli.exits import one_line
from ..codec import OrjsonCodec
from .reading import RunReader, RunReading
from .rows import Rows

#: Of a table that is not filtered, at most so many rows; the first and the last ones.
ROWS_SHOWN = 100
#: Of what is wrong, so much is told.
PROBLEMS_SHOWN = 20
#: Places of the time axis that are labelled.
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def render(store: Any, codec: OrjsonCodec, run_ids: Sequence[str], payloads: bool) -> str:
    """The page for these runs of a JournalStore. Raises RUN_NOT_FOUND / run."""
    rows = Rows(payloads)
    reader, runs = RunReader(store, codec, rows), []
    for run_id in run_ids:
        own = rows.begin()
        runs.append({**_told(reader.read(run_id)), "rows": own})
    style, script = _text("page.css"), _text("page.js")
    return _template().render(
        runs=runs,
        style=Markup(style),
        script=Markup(script),
        policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'",
        made=_moment(datetime.now(UTC)),
        version=__version__,
        payloads=payloads,
    )


def _template() -> Template:
    env = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    env.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    env.filters |= {
        "plain": one_line,
        "percent": lambda place: f"{100 * place:.3f}%",
        "moment": _moment,
        "clock": lambda at: _moment(at).removesuffix(" UTC"),
        "duration": duration,
        "count": lambda n, word: f"{n:,} {word}{'s' * (n != 1)}",
    }
    return env.from_string(_text("page.html.j2"))


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _told(found: RunReading) -> dict[str, Any]:
    """What the template shows of one run."""
    line = found.line
    record = found.record or (line.record if line else None)
    problems = found.problems[:PROBLEMS_SHOWN]
    if len(found.problems) > PROBLEMS_SHOWN:
        problems.append(f"and {len(found.problems) - PROBLEMS_SHOWN:,} more")
    return {
        "id": found.run_id,
        "record": record,
        "status": str(record.status) if record else "unreadable",
        "line": line,
        "summary": _summary(line, found.now) if line else "None of its events can be read.",
        "drawing": _drawn(line, found.now) if line else None,
        "holdings": _bounded(line.holdings) if line else [],
        "asked": _bounded(_asked(line)) if line else [],
        "attempts": _bounded(line.delivery.attempts) if line and line.delivery else [],
        "losses": {loss.fencing_token: loss for loss in line.losses} if line else {},
        "problems": problems,
        "chains": found.chains,
        "events": sum(chain.events for chain in found.chains),
    }


def _summary(line: Timeline, now: datetime) -> str:
    """What became of the run, in two sentences."""
    record = line.record
    if record.ended_at is not None:
        took = duration((record.ended_at - record.created_at).total_seconds())
        code = f" with outcome “{record.outcome.code}”" if record.outcome else ""
        first = f"{record.status.capitalize()} after {took}{code}."
    elif record.lease is not None and line.holdings[-1].ended == "expired":
        first = f"The lease of {record.lease.owner} has run out, and nobody has taken it over."
    elif record.lease is not None:
        first = f"Held by {record.lease.owner} until {_moment(record.lease.expires_at)}."
    elif record.status == "suspended" and line.suspensions:
        since = duration((now - line.suspensions[-1].since).total_seconds())
        waits = ", ".join(line.suspensions[-1].undecided) or "somebody to resume it"
        first = f"Suspended for {since}, waiting for {waits}."
    else:
        first = "Queued: the next worker may take it."
    owners = len({h.owner for h in line.holdings})
    takeovers = sum(h.ended == "taken over" for h in line.holdings)
    saved = sum(h.checkpoints.count for h in line.holdings)
    parts = [(owners, "owner"), (takeovers, "takeover"), (saved, "checkpoint")]
    parts += [(len(line.suspensions), "suspension"), (len(line.decisions), "decision")]
    said = [f"{n:,} {word}{'s' * (n != 1)}" for n, word in parts if n]
    return one_line(f"{first} {', '.join(said)}{'.' if said else ''}")


def _drawn(line: Timeline, now: datetime) -> dict[str, Any]:
    drawn = drawing(line, now)
    scale = drawn.scale
    return {
        "lanes": drawn.lanes,
        "ticks": [(place, scale.label(place)) for place in TICKS],
        "cuts": [
            (
                scale.place(cut.begin),
                scale.place(cut.end),
                duration((cut.end - cut.begin).total_seconds()),
            )
            for cut in scale.shortened
        ],
        "takeovers": list(_takeovers(drawn)),
        "has": {m.kind for lane in drawn.lanes for m in lane.marks}
        | {b.kind for lane in drawn.lanes for b in lane.bars},
    }


def _takeovers(drawn: Drawing) -> Iterator[float]:
    for lane in drawn.lanes:
        yield from (mark.at for mark in lane.marks if mark.kind == "takeover")


def _bounded(rows: Sequence[Any]) -> list[Any]:
    """The rows of a table; a number stands for so many that are not shown."""
    if len(rows) <= ROWS_SHOWN:
        return list(rows)
    half = ROWS_SHOWN // 2
    return [*rows[:half], len(rows) - ROWS_SHOWN, *rows[-half:]]


def _asked(line: Timeline) -> list[dict[str, Any]]:
    """Actions and decisions in their order: who asked for what."""
    asked = [
        {
            "version": act.version,
            "at": act.at,
            "who": act.actor,
            "what": act.what,
            "more": act.message,
            "kind": act.what,
        }
        for act in line.actions
    ]
    asked += [
        {
            "version": d.version,
            "at": d.at,
            "who": d.actor,
            "what": f"decided {d.approval_id}: {d.decision}",
            "more": None,
            "kind": "decision",
        }
        for d in line.decisions
    ]
    return sorted(asked, key=lambda one: one["version"])


def _moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03} UTC"
