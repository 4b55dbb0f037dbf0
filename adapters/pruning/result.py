"""What a prune is asked for, and what it comes to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ...domain.pruning import Held

#: Runs that are named in a result; beyond these only their number is known.
NAMED = 1000


class Wanted(NamedTuple):
    """What to remove at most in one batch, and what to put on record about it."""

    before: datetime
    limit: int
    ignored: tuple[str, ...] = ()
    actor: str | None = None
    reason: str | None = None


@dataclass(slots=True)
class Pruned:
    """What a prune came to.

    runs       how many runs were removed, or would be
    events     how many events went with them, those of their deliveries included
    run_ids    which they were: the first 1,000
    held       how many runs that ended before the cut were held back, by reason
    held_runs  which, and what exactly holds them: the first 1,000
    done       whether nothing is left that ended before the cut and may go
    torn       streams of an unfinished document that was taken out of the archive: their runs had
               not been removed
    """

    runs: int = 0
    events: int = 0
    run_ids: list[str] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    held_runs: list[Held] = field(default_factory=list)
    done: bool = False
    torn: tuple[str, ...] = ()

    def hold(self, held: Held) -> None:
        """Count a run that stays."""
        self.held[held.reason] = self.held.get(held.reason, 0) + 1
        if len(self.held_runs) < NAMED:
            self.held_runs.append(held)

    def take(self, run_id: str, events: int) -> None:
        """Count a run that went."""
        self.runs += 1
        self.events += events
        if len(self.run_ids) < NAMED:
            self.run_ids.append(run_id)

    def add(self, batch: Pruned) -> None:
        """Take in what the next batch came to."""
        self.runs += batch.runs
        self.events += batch.events
        self.run_ids += batch.run_ids[: NAMED - len(self.run_ids)]
        self.held = dict(Counter(self.held) + Counter(batch.held))
        self.held_runs += batch.held_runs[: NAMED - len(self.held_runs)]
        self.done = batch.done
