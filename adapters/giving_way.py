"""Work that gives way: whoever else runs on this machine goes first (docs/decisions/0033)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..domain.events import Event
from ..domain.ports import PayloadCodec, StoredEvent

#: The lowest priority that there is.
NICENESS = 19


def give_way() -> None:
    """Lower this process's priority in each way the system has; what it lacks is left out.

    Only that of a process that leads a session of its own, as one that was started for a piece of
    work: a priority cannot be raised again, and in another session it is others' as well.
    """
    if not hasattr(os, "getsid") or os.getsid(0) != os.getpid():
        return
    os.nice(NICENESS)
    # Where Linux groups processes by session, that counts within the session only.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(NICENESS))


class YieldingCodec:
    """A codec that offers its core to others before each event that it opens.

    Linux lets a process keep its core for some milliseconds once it has it, whatever its priority.
    A writer and its server, who wait for one another, would wait for that at each step.
    """

    def __init__(self, codec: PayloadCodec) -> None:
        self.encode, self.seal, self.open = codec.encode, codec.seal, codec.open
        self._open_linked = codec.open_linked
        self._yield: Callable[[], None] = getattr(os, "sched_yield", lambda: None)

    def open_linked(self, stored: StoredEvent, previous: str) -> Event:
        self._yield()
        return self._open_linked(stored, previous)
