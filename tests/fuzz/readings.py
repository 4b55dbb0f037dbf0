"""Every reading of a journal, and what each may end in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from runjournal import Journal, RunStoreError
from runjournal.domain.delivery import delivery_invocation_id


def readings(journal: Journal, run_ids: Sequence[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All that can be asked of the journal and of these runs."""
    yield "runs", journal.runs
    yield "deliveries", journal.deliveries
    yield "deliveries attention", lambda: journal.deliveries(attention=True)
    yield "attention", journal.attention
    yield "export", lambda: deque(journal.export())
    yield "anchor", lambda: deque(journal.anchor())
    yield "stats", journal.stats
    yield "subscribe", lambda: deque(journal.subscribe(follow=False))
    yield "projection_states", journal.projection_states
    if run_ids:
        yield "report", lambda: journal.report(run_ids)
    for run_id in run_ids:
        for name, ask in _of_run(journal, run_id):
            yield f"{name} {run_id}", ask


def _of_run(journal: Journal, run_id: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "get", lambda: journal.get(run_id)
    yield "get version 2", lambda: journal.get(run_id, version=2)
    yield "events", lambda: deque(journal.events(run_id))
    yield "input", lambda: journal.input(run_id)
    yield "checkpoint", lambda: journal.checkpoint(run_id)
    yield "result", lambda: journal.result(run_id)
    delivery = delivery_invocation_id(run_id, "inbox")
    yield "delivery", lambda: journal.delivery(delivery)
    yield "delivery_events", lambda: deque(journal.delivery_events(delivery))
    yield "timeline", lambda: journal.timeline(run_id)
    yield "export_run", lambda: journal.export_run(run_id)


def read_everything(journal: Journal, run_ids: Sequence[str]) -> list[str]:
    """Ask all of it; what was refused. Anything but a RunStoreError fails the test."""
    refused = []
    for name, ask in readings(journal, run_ids):
        try:
            ask()
        except RunStoreError as error:
            # There is no second version of a run that was only queued.
            if (error.code, error.reason) != ("RUN_NOT_FOUND", "version"):
                refused.append(f"{name}: {error.code}/{error.reason}")
    return refused
