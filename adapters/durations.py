"""Durations as people write them: 90s, 5m, 1h, 30d; and ages as they read them."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def seconds_of(text: object) -> object:
    """The seconds of a text such as "30d"; what is no text is given back, for others to judge.

    Raises ValueError for a text that is no duration.
    """
    if not isinstance(text, str):
        return text
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw]?)", text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no duration, such as 90s, 5m, 1h or 30d")
    return float(found[1]) * _UNITS[found[2] or "s"]


def age_of(seconds: float) -> str:
    """So many seconds, in the largest unit of which there are two at least."""
    unit = next((u for u in ("d", "h", "m") if seconds >= 2 * _UNITS[u]), "s")
    return f"{seconds / _UNITS[unit]:.0f} {unit}"
