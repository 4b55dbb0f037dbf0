"""Fills a journal quickly: through the store's port, each run's whole history in one append. What
is stored is what the rules would have written one by one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Literal

from runjournal import Journal
from runjournal.adapters.contract.scribe import START, Scribe, record_of
from runjournal.domain.ports import Change

from .interleaved import PAYLOADS

KIND = "bench"
End = Literal["completed", "released"]


def fill(
    journal: Journal,
    run_ids: Iterable[str],
    events: int,
    end: End = "completed",
    ref: str | None = None,
) -> None:
    """Runs of so many events each. With 1 they wait in the queue; else at least 3, and their end.

    ref  who waits for the result of a completed run: it has a delivery, of one event more
    """
    scribe = Scribe()
    for number, run_id in enumerate(run_ids):
        at = START + number * timedelta(milliseconds=1)
        start = scribe.start(run_id, at, kind=KIND, delivery_ref=ref)
        changes = _history(scribe, start, events, end)
        assert journal.store.append(changes, None, at) is not None


def _history(scribe: Scribe, start: Change, events: int, end: End) -> list[Change]:
    steps = [start]
    delivery: list[Change] = []
    if events > 1:
        steps.append(scribe.grant(record_of(steps[-1])))
        for step in range(events - 3):
            steps.append(scribe.checkpoint(record_of(steps[-1]), PAYLOADS[step % 64]))
        if end == "released":
            steps.append(scribe.release(record_of(steps[-1])))
        else:
            last, *delivery = scribe.complete(record_of(steps[-1]))
            steps.append(last)
    told = tuple(event for change in steps for event in change.events)
    assert len(told) == events
    return [Change(start.stream, 0, told, steps[-1].record), *delivery]
