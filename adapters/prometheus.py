"""The numbers of a journal in Prometheus's text format, for a textfile collector or a script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..projections.stats import JournalStats


class Family(NamedTuple):
    """A metric with one sample, or one for each set of labels."""

    name: str
    meaning: str
    samples: list[tuple[Mapping[str, str], float]]


def families(stats: JournalStats) -> list[Family]:
    """All gauges. An age is 0 where nothing is that old."""

    def one(name: str, meaning: str, value: float | None) -> Family:
        return Family(f"runjournal_{name}", meaning, [({}, value or 0)])

    def each(name: str, meaning: str, samples: list[tuple[Mapping[str, str], float]]) -> Family:
        return Family(f"runjournal_{name}", meaning, samples)

    projections = [({"projection": p.name}, p) for p in stats.projections]
    return [
        each(
            "runs",
            "Runs, by kind and status.",
            [({"kind": r.kind, "status": r.status.value}, r.count) for r in stats.runs],
        ),
        one("runs_ready", "Queued runs that are due.", stats.ready),
        one(
            "oldest_ready_age_seconds",
            "How long the longest due queued run has been due.",
            stats.oldest_ready_age,
        ),
        one("runs_held", "Runs whose lease has not expired.", stats.held),
        one("runs_abandoned", "Runs whose lease has expired.", stats.abandoned),
        one(
            "oldest_abandoned_age_seconds",
            "How long ago the first of them expired.",
            stats.oldest_abandoned_age,
        ),
        one("runs_set_aside", "Runs that were set aside.", stats.set_aside),
        one(
            "oldest_ended_age_seconds",
            "How long ago the run ended that ended first.",
            stats.oldest_ended_age,
        ),
        each(
            "deliveries",
            "Deliveries, by status.",
            [({"status": d.status.value}, d.count) for d in stats.deliveries],
        ),
        one(
            "deliveries_waiting",
            "Deliveries that wait for somebody's decision.",
            stats.deliveries_waiting,
        ),
        one("deliveries_set_aside", "Deliveries that were set aside.", stats.deliveries_set_aside),
        one(
            "oldest_undelivered_age_seconds",
            "How long ago the run ended whose result waits the longest.",
            stats.oldest_undelivered_age,
        ),
        one("events", "Events of the runs and deliveries that are there.", stats.events),
        one("size_bytes", "Bytes that the journal takes up.", stats.size_bytes),
        each(
            "projection_position",
            "Position up to which a projection has come.",
            [(labels, p.position) for labels, p in projections],
        ),
        each(
            "projection_lag",
            "Events that a projection has not come to yet, at most.",
            [(labels, p.lag) for labels, p in projections],
        ),
        each(
            "projection_parked",
            "1 where a projection is parked at an event.",
            [(labels, p.parked) for labels, p in projections],
        ),
    ]


def prometheus_text(stats: JournalStats) -> str:
    """The exposition format, version 0.0.4."""
    return "".join(f"{line}\n" for family in families(stats) for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    yield f"# HELP {family.name} {family.meaning}"
    yield f"# TYPE {family.name} gauge"
    for labels, value in family.samples:
        pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
        name = f"{family.name}{{{pairs}}}" if pairs else family.name
        yield f"{name} {_number(value)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
