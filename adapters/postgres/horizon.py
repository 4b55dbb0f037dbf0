"""Horizon: from which due time on a claim has to look, most of the time.

Finished runs leave their entries at the front of the index of due runs, and while an old snapshot
is open nobody can remove them: each claim would walk all of them. So a claim first looks from the
least due time that the last one saw. What lies below that (a due time in the past, a lease that
expired while newer work was found) is found by looking from the start: whenever the short look was
not enough, and once a second in any case.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

#: Seconds between two looks from the start while the short look finds enough.
WHOLE_EVERY = 1.0
BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)


class Probe(NamedTuple):
    """One look for due runs: from the start (`whole`), or from what was last seen per kind."""

    whole: bool
    lowest: dict[str, datetime]

    def since(self, kind: str) -> datetime:
        return BEGINNING if self.whole else self.lowest.get(kind, BEGINNING)


class Horizon:
    """What the claims of one process have seen. Threads may share it: it is only ever a hint."""

    def __init__(self) -> None:
        self.kinds: Sequence[str] = ()
        self._lowest: dict[str, datetime] = {}
        self._whole_at = 0.0

    def probes(self, *, whole_only: bool) -> Iterator[Probe]:
        """The looks to take, until one has found enough."""
        now = time.monotonic()
        if not whole_only and now - self._whole_at < WHOLE_EVERY:
            yield Probe(False, self._lowest)
        self._whole_at = now
        yield Probe(True, {})

    def seen(self, kind: str, lowest: datetime | None) -> None:
        """Note the least due time that a look at this kind has found."""
        if lowest is not None:
            self._lowest[kind] = lowest
