"""The scale that a run's life is drawn on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runjournal.projections.time_scale import TimeScale, duration

START = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = st.floats(0, 1e7)


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


@given(SECONDS, st.lists(st.tuples(SECONDS, SECONDS)), SECONDS, SECONDS)
def test_order_is_kept(
    end: float, busy: list[tuple[float, float]], one: float, other: float
) -> None:
    spans = [(after(a), after(b)) for a, b in busy]
    scale = TimeScale(START, after(end), spans)
    early, late = sorted((one, other))
    assert 0 <= scale.place(after(early)) <= scale.place(after(late)) <= 1
    assert scale.place(START) == 0
    assert scale.place(after(end)) == (1 if after(end) > START else 0)
    place = one / 1e7
    assert START <= scale.moment(place) <= after(end)


def test_it_is_true_to_scale_where_somebody_worked() -> None:
    scale = TimeScale(START, after(100), [(START, after(100))])
    assert scale.shortened == ()
    assert [scale.place(after(s)) for s in (0, 25, 50, 100)] == [0, 0.25, 0.5, 1]
    assert scale.moment(0.25) == after(25)


def test_days_of_waiting_do_not_hide_two_minutes_of_work() -> None:
    days = 3 * 86_400
    scale = TimeScale(
        START, after(days + 120), [(START, after(60)), (after(days + 60), after(days + 120))]
    )
    ((begin, end),) = scale.shortened
    assert (begin, end) == (after(60), after(days + 60))
    assert scale.place(after(60)) > 0.45
    assert scale.place(after(days + 60)) - scale.place(after(60)) < 0.1
    middle = scale.moment((scale.place(begin) + scale.place(end)) / 2)
    assert abs(middle - after(60 + days / 2)) < timedelta(seconds=1)


def test_what_lies_outside_is_at_the_ends() -> None:
    scale = TimeScale(after(10), after(20))
    assert (scale.place(START), scale.place(after(99))) == (0, 1)
    # Stamps of a damaged run may run backwards.
    assert TimeScale(after(10), START).place(after(10)) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0204, "20 ms"),
        (4.24, "4.2 s"),
        (59.99, "1 min 0 s"),
        (192, "3 min 12 s"),
        (14_700, "4 h 5 min"),
        (86_400 * 3 + 4 * 3600, "3 d 4 h"),
    ],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
