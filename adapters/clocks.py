"""The process's clocks, ids and owner names."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from functools import partial

#: Seconds on a clock that never steps and goes on while the host sleeps. CLOCK_BOOTTIME does,
#: time.monotonic() on Linux does not, and a holder that woke up would go on trusting a lease that
#: ran out in its sleep (test_case_09).
ticks: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class RandomIds:
    """Ids of 128 random bits."""

    def new(self) -> str:
        return secrets.token_hex(16)


def default_owner() -> str:
    """The process id with a random suffix: process ids alone come back after a restart."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"
