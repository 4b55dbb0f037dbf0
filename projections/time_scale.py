"""Where a moment of a run's life is drawn: from 0 at its beginning to 1 at its end.

True to scale, but for long stretches in which nobody worked on it: a job of two minutes that
waited three days for an approval is still to be seen. Those stretches are shortened, and told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

Span = tuple[datetime, datetime]

#: A quiet stretch longer than this part of the time worked is shortened…
LONG = 0.5
#: … to this part of it, and all together to no more than half of it.
SHORTENED = 0.08
ALL_SHORTENED = 0.5


class Shortened(NamedTuple):
    """A stretch that is drawn shorter than it was."""

    begin: datetime
    end: datetime


class TimeScale:
    """Places the moments from `begin` to `end`.

    busy  spans in which somebody worked, in any order; they may overlap
    """

    def __init__(self, begin: datetime, end: datetime, busy: Iterable[Span] = ()) -> None:
        self.begin, self.end = begin, max(begin, end)
        joined = _joined(busy, begin, self.end)
        worked = sum(((b - a).total_seconds() for a, b in joined), 0.0)
        edges = [begin, *(moment for span in joined for moment in span), self.end]
        # Every other stretch between the edges is a quiet one.
        quiet = [s for s in list(pairwise(edges))[::2] if _seconds(s) > LONG * worked > 0]
        cut = frozenset(quiet)
        width = min(SHORTENED, ALL_SHORTENED / len(quiet)) * worked if quiet else 0.0
        self.shortened = tuple(Shortened(*stretch) for stretch in quiet)
        self._times, self._places = [begin], [0.0]
        for stretch in pairwise(edges):
            seconds = width if stretch in cut else _seconds(stretch)
            self._times.append(stretch[1])
            self._places.append(self._places[-1] + seconds)

    def place(self, at: datetime) -> float:
        """From 0 to 1; what lies outside is put at the nearer end."""
        total = self._places[-1]
        if total == 0:
            return 0.0
        i = min(max(bisect_right(self._times, at), 1), len(self._times) - 1)
        begin, end = self._times[i - 1], self._times[i]
        part = _seconds((begin, at)) / (_seconds((begin, end)) or 1.0)
        low, high = self._places[i - 1], self._places[i]
        return (low + min(max(part, 0.0), 1.0) * (high - low)) / total

    def moment(self, place: float) -> datetime:
        """The time that is drawn there."""
        wanted = place * self._places[-1]
        i = min(max(bisect_right(self._places, wanted), 1), len(self._places) - 1)
        low, high = self._places[i - 1], self._places[i]
        part = (wanted - low) / ((high - low) or 1.0)
        seconds = _seconds((self._times[i - 1], self._times[i])) * min(max(part, 0.0), 1.0)
        return self._times[i - 1] + timedelta(seconds=seconds)

    def label(self, place: float) -> str:
        """The time that is drawn there, as exactly as the whole deserves."""
        at, whole = self.moment(place), _seconds((self.begin, self.end))
        if whole > 86_400:
            # Where days are shortened away, what is left may be minutes apart.
            return f"{at:%m-%d %H:%M:%S}" if self.shortened else f"{at:%m-%d %H:%M}"
        fraction = f".{at.microsecond // 1000:03}" if whole < 30 else ""
        return f"{at:%H:%M:%S}{fraction}"


def _seconds(span: Span) -> float:
    return (span[1] - span[0]).total_seconds()


def _joined(spans: Iterable[Span], begin: datetime, end: datetime) -> list[Span]:
    """The spans in order, within bounds, overlapping ones as one."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        first, last = max(first, begin), min(last, end)
        if last <= first:
            continue
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def duration(seconds: float) -> str:
    """A length of time for people: 20 ms, 4.2 s, 3 min 12 s, 4 h 5 min, 3 d 4 h."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days:,} d {hours} h"
