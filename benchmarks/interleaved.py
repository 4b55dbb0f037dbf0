"""Measure contestants in turns, so that whatever else the machine does hits all of them."""

from __future__ import annotations

import gc
import json
import random
import string
import time
from collections.abc import Callable, Mapping
from typing import Any

#: Runs its operation so many times.
Contestant = Callable[[int], None]
#: Does its share of a round, and says the seconds of one operation.
Turn = Callable[[], float]


def payload(seed: int, size: int = 1024) -> dict[str, Any]:
    """A JSON object whose compact text has `size` bytes and does not compress well."""
    rng = random.Random(seed)
    value: dict[str, Any] = {
        "step": seed,
        "ok": True,
        "scores": [rng.randrange(1000) for _ in range(16)],
        "text": "",
    }
    room = size - len(json.dumps(value, separators=(",", ":")))
    value["text"] = "".join(rng.choices(string.ascii_letters + string.digits, k=room))
    return value


PAYLOADS = [payload(seed) for seed in range(64)]


def in_rounds(turns: Mapping[str, Turn], rounds: int) -> dict[str, list[float]]:
    """What each turn says in each round, after a warm-up; every other round backwards."""
    said: dict[str, list[float]] = {name: [] for name in turns}
    for turn in turns.values():
        turn()
    for number in range(rounds):
        order = list(turns.items())
        for name, turn in order if number % 2 == 0 else reversed(order):
            gc.collect()
            said[name].append(turn())
    return said


def timed(run: Contestant, count: int) -> Turn:
    """A turn of so many operations: the seconds of one."""

    def turn() -> float:
        begun = time.perf_counter()
        run(count)
        return (time.perf_counter() - begun) / count

    return turn


def per_operation(
    contestants: Mapping[str, Contestant], count: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds per operation of each contestant in each round."""
    return in_rounds({name: timed(run, count) for name, run in contestants.items()}, rounds)
