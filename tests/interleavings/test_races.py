"""The races that decide who may write, in every order that their steps can have."""

from __future__ import annotations

import os
from math import comb

import pytest

from .playing import Verify, play
from .races import RACES
from .scheduler import Choice, Choose, Order, current, every_order
from .world import World

PROVE = bool(os.environ.get("RUNJOURNAL_PROVE"))
#: Orders of each race and fault that are played where not all of them are.
ORDERS = 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "name"),
    [(backend, name) for name, race in RACES.items() for backend in race.backends],
    indirect=["world"],
)
def test_race(name: str, world: World, verify_run: Verify, request: pytest.FixtureRequest) -> None:
    counts = play(
        RACES[name], world, verify_run, orders=None if PROVE else ORDERS, seed=request.node.name
    )
    print(f"{request.node.name}: orders {counts}")


def test_every_order_of_the_steps_is_played_once() -> None:
    """Of three steps and two, all ten; and of each the same steps."""
    seen: set[tuple[str, ...]] = set()

    def steps(count: int) -> None:
        for number in range(count):
            player = current()
            assert player is not None
            player.step(str(number))

    def one(choose: Choose) -> list[Choice]:
        order = Order({"a": lambda: steps(3), "b": lambda: steps(2)}, lambda _sessions: 0)
        order.play(choose)
        seen.add(tuple(c.taken for c in order.choices))
        return order.choices

    assert len(list(every_order(one))) == len(seen) == comb(5, 2)
    assert all(sorted(order) == ["a", "a", "a", "b", "b"] for order in seen)
