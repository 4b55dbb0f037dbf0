"""The process's clocks, ids and owner names."""

from __future__ import annotations

import os
import secrets
import time

# CLOCK_BOOTTIME goes on while the host sleeps; time.monotonic() does not on Linux, and a holder
# that woke up would go on trusting a lease that ran out in its sleep (case 09).
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", None)


def ticks() -> float:
    """Seconds on a clock that never steps and goes on while the host sleeps."""
    return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)


class RandomIds:
    """Ids of 128 random bits."""

    def new(self) -> str:
        return secrets.token_hex(16)


def default_owner() -> str:
    """The process id with a random suffix: process ids alone come back after a restart."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"
