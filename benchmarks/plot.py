"""A plot as SVG: ratios at growing sizes, one line for each work, the range of the rounds as a bar.

The same numbers make the same bytes. Its colours follow the reader's light or dark scheme, and the
lines differ in their dashes too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

#: Pairs for a light and a dark page, which differ for the colour-blind as well (Okabe and Ito).
COLOURS = (
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#e69f00"),
    ("#009e73", "#2fcb9b"),
    ("#aa3377", "#f0a6cf"),
    ("#7a6500", "#f0e442"),
    ("#555555", "#bbbbbb"),
)
DASHES = ("none", "8 3", "2 3", "8 3 2 3", "12 4", "1 4")
WIDTH, HEIGHT = 760, 350
LEFT, RIGHT, TOP, BOTTOM = 76, 500, 36, 296

#: Median, lowest and highest ratio.
Point = tuple[float, float, float]


def svg(
    title: str, x_label: str, y_label: str, first: int, series: Mapping[str, dict[int, Point]]
) -> str:
    """At the size `first` every ratio is 1, by definition."""
    sizes = sorted({first, *(size for points in series.values() for size in points)})
    most = max(point[0] for points in series.values() for point in points.values())
    step = _step(max(2.0, most * 1.1))
    most = step * math.ceil(max(2.0, most * 1.1) / step)

    def x(size: int, beside: float = 0) -> float:
        share = math.log(size / sizes[0]) / math.log(sizes[-1] / sizes[0])
        return round(LEFT + 16 + share * (RIGHT - LEFT - 32) + beside, 1)

    def y(ratio: float) -> float:
        return round(BOTTOM - min(ratio, most) / most * (BOTTOM - TOP), 1)

    lines: list[dict[str, Any]] = []
    middle = (len(series) - 1) / 2
    for number, (name, points) in enumerate(series.items()):
        beside = 3 * (number - middle)  # so that bars do not hide one another
        lines.append(
            {
                "name": name.replace("`", ""),
                "number": number,
                "dashes": DASHES[number],
                "legend": TOP + 16 + 24 * number,
                "points": [
                    (x(size, beside), y(ratio))
                    for size, (ratio, _, _) in ({first: (1, 1, 1)} | points).items()
                ],
                "ranges": [
                    (x(size, beside), y(low), y(high)) for size, (_, low, high) in points.items()
                ],
            }
        )
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    return environment.get_template("plot.svg.j2").render(
        title=title,
        x_label=x_label,
        y_label=y_label,
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=RIGHT,
        top=TOP,
        bottom=BOTTOM,
        colours=COLOURS,
        rows=[(y(step * n), f"{step * n:g}") for n in range(round(most / step) + 1)],
        columns=[(x(size), f"{size:,}") for size in sizes],
        lines=lines,
    )


def _step(most: float) -> float:
    """The round distance of about five lines up to `most`."""
    power = 10.0 ** math.floor(math.log10(most / 5))
    return next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit * 6 >= most)
