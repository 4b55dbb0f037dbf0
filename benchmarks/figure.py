"""The one shape of what a benchmark says, and the one way to say it.

A module has `SETTINGS` and `figures(options)`, and prints its figures when it is run. So
`benchmarks.table` can run several and put what they say into one table.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

#: Each option's value, and its value with --quick.
Settings = dict[str, tuple[Any, Any]]
Better = Literal["more", "less"]


class Figure(NamedTuple):
    """How one way of doing a work compares with another, measured side by side.

    what     what was measured
    against  what it was divided by
    rounds   the ratio of each round
    better   whether more is better (rates) or less (times and shares)
    aside    printed by its module alone: the common table has a figure that says more
    note     what else a reader of the line should know
    """

    what: str
    against: str
    rounds: Sequence[float]
    better: Better
    aside: bool = False
    note: str = ""

    @property
    def ratio(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> str:
        """The lowest and the highest round."""
        return f"{number(min(self.rounds))} to {number(max(self.rounds))}"

    def line(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return (
            f"{self.what}: {number(self.ratio)} x {self.against} "
            f"(rounds {self.spread}; {self.better} is better{note})"
        )


def number(value: float) -> str:
    """A ratio in about three digits."""
    digits = 3 if value < 0.1 else 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"


def rates(took: dict[str, list[float]], name: str, base: str) -> list[float]:
    """How fast `name` is with `base` = 1, in each round, of their seconds per operation."""
    return [b / t for b, t in zip(took[base], took[name], strict=True)]


def times(took: dict[str, list[float]], name: str, base: str) -> list[float]:
    """How long `name` takes with `base` = 1, in each round."""
    return [t / b for b, t in zip(took[base], took[name], strict=True)]


def chosen(settings: Settings, quick: bool, **given: Any) -> argparse.Namespace:
    """Each option's value, but for those that are given (None: not given)."""
    values = {name: short if quick else usual for name, (usual, short) in settings.items()}
    values |= {name: value for name, value in given.items() if value is not None}
    return argparse.Namespace(quick=quick, **values)


def parser(doc: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    made.add_argument("--quick", action="store_true", help="to see that it works, not to quote")
    return made


def parsed(own: argparse.ArgumentParser, settings: Settings) -> argparse.Namespace:
    """The options of the command line: those of the parser, and the settings."""
    for name, (usual, _) in settings.items():
        kind = str if usual is None else type(usual)
        own.add_argument(f"--{name.replace('_', '-')}", type=kind, help=f"otherwise {usual}")
    return chosen(settings, **vars(own.parse_args()))


def run(
    doc: str | None,
    figures: Callable[[argparse.Namespace], Iterable[Figure]],
    settings: Settings,
) -> None:
    """The command line of a module: print each figure as soon as it is there."""
    for figure in figures(parsed(parser(doc), settings)):
        print(figure.line(), flush=True)
