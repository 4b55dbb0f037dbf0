"""Cost as work grows: events of a run, runs and events of a journal, workers.

Each work is measured at several sizes, in turns, and compared with the smallest size.

    python -m benchmarks.growing                 # prints the ratios
    python -m benchmarks.growing --write         # and puts them and their plots into docs/
    python -m benchmarks.growing --axes events   # one or more of events,runs,size,workers
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from . import plot
from .figure import Better, Figure, Settings, number, parsed, parser, rates, times
from .growing_sqlite import Measured, by_events, by_runs, by_size
from .growing_workers import by_workers
from .machine import machine
from .pages import PERFORMANCE, PLOTS, put, table
from .postgres_server import DSN, server

SETTINGS: Settings = DSN | {
    "axes": ("events,runs,size,workers", "events,runs,size,workers"),
    "rounds": (15, 3),
    "long_rounds": (3, 1),
    "count": (100, 10),
    "seconds": (0.5, 0.2),
}

#: The works that the common table shows, at the largest size.
TELLING = frozenset({"get", "acquire", "checkpoint"})
#: The figures of a work at each size but the smallest.
Curves = dict[str, dict[int, Figure]]


class Axis(NamedTuple):
    """What grows: its unit, how it is measured, the sizes, and those of a quick run."""

    title: str
    unit: str
    better: Better
    measure: Callable[[Namespace, Sequence[int]], Measured]
    sizes: Sequence[int]
    quick: Sequence[int]


AXES = {
    "events": Axis(
        "Events in a run",
        "events in the run",
        "less",
        by_events,
        (10, 100, 1_000, 10_000, 50_000),
        (10, 100, 1_000),
    ),
    "runs": Axis(
        "Runs in the journal",
        "runs in the journal",
        "less",
        by_runs,
        (10, 100, 1_000, 10_000, 100_000),
        (10, 100, 1_000),
    ),
    "size": Axis(
        "Events in the journal",
        "events in the journal",
        "less",
        by_size,
        (1_000, 10_000, 100_000, 300_000),
        (1_000, 5_000),
    ),
    "workers": Axis("Workers", "workers", "more", by_workers, (1, 2, 4, 8), (1, 2)),
}


def curves(axis: Axis, options: Namespace, quick: bool) -> Curves:
    made: Curves = {}
    for work, sizes in axis.measure(options, axis.quick if quick else axis.sizes).items():
        took = {str(size): rounds for size, rounds in sizes.items()}
        smallest, *others = sizes
        compare = times if axis.better == "less" else rates
        made[work] = {
            size: Figure(
                f"{work}, {size:,} {axis.unit}",
                f"with {smallest:,}",
                compare(took, str(size), str(smallest)),
                axis.better,
                aside=size != max(sizes) or work not in TELLING,
            )
            for size in others
        }
    return made


def figures(options: Namespace) -> Iterator[Figure]:
    for name in options.axes.split(","):
        for sizes in curves(AXES[name], options, options.quick).values():
            yield from sizes.values()


def body(name: str, made: Curves) -> str:
    """The part of the page for one axis: the plot, and its numbers in a table."""
    sizes = list(next(iter(made.values())))
    rows = [
        [work, *(f"{number(made[work][size].ratio)} ({made[work][size].spread})" for size in sizes)]
        for work in made
    ]
    return f"![{AXES[name].title}](plots/{name}.svg)\n\n" + table(
        ["Ratio (rounds)", *(f"{size:,}" for size in sizes)], rows
    )


def picture(name: str, made: Curves) -> str:
    axis = AXES[name]
    smallest = axis.sizes[0]
    of = "time of one" if axis.better == "less" else "work done in a second"
    return plot.svg(
        title=f"{axis.title}: {axis.better} is better",
        x_label=axis.unit,
        y_label=f"ratio: {of}, against that with {smallest:,}",
        first=smallest,
        series={
            work: {size: (f.ratio, min(f.rounds), max(f.rounds)) for size, f in sizes.items()}
            for work, sizes in made.items()
        },
    )


def main() -> None:
    own = parser(__doc__)
    own.add_argument("--write", action="store_true", help="into docs/performance.md and docs/plots")
    options = parsed(own, SETTINGS)
    with server(options.dsn) as postgres:
        options.dsn = postgres.url
        where = machine(postgres, options.quick)
        for name in options.axes.split(","):
            made = curves(AXES[name], options, options.quick)
            for sizes in made.values():
                for figure in sizes.values():
                    print(figure.line(), flush=True)
            if options.write:
                put(PERFORMANCE, name, f"{body(name, made)}\n\n{where}")
                PLOTS.mkdir(exist_ok=True)
                (PLOTS / f"{name}.svg").write_text(picture(name, made), encoding="utf-8")


if __name__ == "__main__":
    main()
