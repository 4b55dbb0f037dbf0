"""A Python clock that is wrong: to be installed before anything else is imported."""

from __future__ import annotations

import datetime as module
import time
from collections.abc import Callable
from typing import Any

_real_time, _real = time.time, module.datetime


def true_now() -> module.datetime:
    """What the host's clock says."""
    return _real.now(module.UTC)


def install(skew: Callable[[], float]) -> None:
    """Have every module that is loaded from now on read a clock that is off by `skew()` seconds."""

    class Kind(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, _real)

    class Skewed(_real, metaclass=Kind):
        """Makes datetimes, and its `now` is off."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return _real(*args, **kwargs)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return _real.now(tz) + module.timedelta(seconds=skew())

        @classmethod
        def utcnow(cls) -> Any:
            now = true_now() + module.timedelta(seconds=skew())
            return now.replace(tzinfo=None)

    time.time = lambda: _real_time() + skew()
    module.datetime = Skewed  # type: ignore[misc]
