"""Measure contestants in turns, so that whatever else the machine does hits all of them."""

from __future__ import annotations

import gc
import json
import random
import statistics
import string
import time
from collections.abc import Callable
from typing import Any

#: Runs its operation so many times.
Contestant = Callable[[int], None]


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


def per_operation(contestants: dict[str, Contestant], count: int, rounds: int) -> dict[str, Any]:
    """Seconds per operation of each contestant in each round, taken in turns after a warm-up."""
    took: dict[str, list[float]] = {name: [] for name in contestants}
    for run in contestants.values():
        run(max(1, count // 4))
    for _ in range(rounds):
        for name, run in contestants.items():
            gc.collect()
            begun = time.perf_counter()
            run(count)
            took[name].append((time.perf_counter() - begun) / count)
    return took


def ratios(took: dict[str, list[float]], base: str) -> dict[str, float]:
    """How fast each is, with `base` = 1: the median of the rounds' own ratios."""
    return {
        name: statistics.median(b / t for b, t in zip(took[base], times, strict=True))
        for name, times in took.items()
    }


def spread(took: dict[str, list[float]], base: str, name: str) -> tuple[float, float]:
    """The lowest and the highest ratio of any round."""
    each = [b / t for b, t in zip(took[base], took[name], strict=True)]
    return min(each), max(each)
