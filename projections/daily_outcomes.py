"""A projection: how many runs of each kind ended on each day, and how.

An end does not say which kind the run is of; its first event does. So a row has to remember the
runs that have not ended, and rows are shards: all events of a run fall into the same one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from zlib import crc32

from ..domain.events import TERMINAL_EVENTS, Event, RunEvent, RunQueued
from .projector import Row

SHARDS = 16

#: day -> kind -> outcome -> how many
Totals = dict[str, dict[str, dict[str, int]]]


class DailyOutcomes:
    """Rows {"open": {run id: kind}, "days": {day: {kind: {outcome: count}}}}; `totals` adds them.

    Days are those of UTC, outcomes "completed", "failed" and "cancelled". Counting is safe though
    it is no idempotent step, because the counts and the position are saved in one transaction.
    """

    name = "daily_outcomes"
    projection_version = 1
    topics = (RunQueued.topic, *(event.topic for event in TERMINAL_EVENTS))

    def key_of(self, event: Event) -> str | None:
        if not isinstance(event, RunEvent):
            return None
        return f"shard-{crc32(event.run_id.encode()) % SHARDS:02}"

    def project(self, row: Row | None, event: Event) -> Row | None:
        assert isinstance(event, RunEvent)  # others have no key
        row = row or {"open": {}, "days": {}}
        if isinstance(event, RunQueued):
            row["open"][event.run_id] = event.kind
            return row
        kind = row["open"].pop(event.run_id)
        day = event.timestamp.astimezone(UTC).date().isoformat()
        _add(row["days"], day, kind, event.topic.removeprefix("run."), 1)
        return row


def totals(rows: Iterable[Row]) -> Totals:
    """The counts of all shards together."""
    added: Totals = {}
    for row in rows:
        for day, kinds in row["days"].items():
            for kind, outcomes in kinds.items():
                for outcome, count in outcomes.items():
                    _add(added, day, kind, outcome, count)
    return added


def _add(days: Totals, day: str, kind: str, outcome: str, count: int) -> None:
    outcomes = days.setdefault(day, {}).setdefault(kind, {})
    outcomes[outcome] = outcomes.get(outcome, 0) + count
