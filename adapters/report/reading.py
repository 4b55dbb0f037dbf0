"""Reads all there is of a run for its audit page, and stops at no damage."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from ...domain.delivery import DeliveryRequested, delivery_invocation_id, delivery_stream
from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ...domain.events import Event, RunQueued, run_stream
from ...domain.history_store import Table
from ...domain.ports import JournalStore
from ...domain.record import RunRecord
from ...projections.streams import Stream
from ...projections.timeline import timeline
from ...projections.timeline_parts import Timeline
from ...projections.verify import Checker, Compared
from ..audit import AuditLog
from ..codec import OrjsonCodec, Validating
from ..time_travel import no_run
from .rows import Rows

#: Events read in one short transaction.
PAGE = 500
#: A row, read after its events, may be ahead of them: how often the rest of them is read.
TRIES = 3


class Chain(NamedTuple):
    """A stream's name for people, how many events it has, and its last hash."""

    name: str
    events: int
    head: str


@dataclass
class RunReading:
    """A run as far as it can be read.

    record    as stored; None where there is none, or where it cannot be read
    line      None where no event can be read, or where they do not fit together
    problems  what is not as it was written, as `verify` finds it
    """

    run_id: str
    now: datetime
    record: RunRecord | None = None
    line: Timeline | None = None
    chains: list[Chain] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class RunReader:
    """Reads runs of one journal, one after the other."""

    def __init__(self, store: JournalStore, codec: OrjsonCodec, rows: Rows) -> None:
        self._store = store
        self._codec = codec
        # What is shown is shown as it is read, before the next event vouches for it.
        self._validating = Validating(codec)
        self._rows = rows
        self._checker = Checker(store, codec)
        self._compared: list[Compared] = []

    def read(self, run_id: str) -> RunReading:
        """All there is of the run, however damaged. Raises RUN_NOT_FOUND / run."""
        found, unreadable = RunReading(run_id, self._store.now()), ""
        self._compared = []
        try:
            found.record, found.now = self._store.get(run_id)
        except RunStoreError as error:
            if error.code != RUN_INTEGRITY_ERROR:
                raise
            unreadable = error.message
        try:
            self._tell(found)
        except (ValueError, ArithmeticError, KeyError) as error:
            # Each event can be read, but they were never written in this order or so.
            problem = f"the events do not fit together: {type(error).__name__}: {error}"
            found.problems.append(problem)
        run = self._compared[0].stream
        if run.version:
            found.problems += self._findings()
        elif found.record is None and not unreadable:
            raise no_run(run_id)
        else:
            found.problems.append(f"{run.name} has a record and no events. {unreadable}")
        return found

    def _findings(self) -> Iterator[str]:
        each = [f for compared in self._compared for f in self._checker.findings(compared)]
        known = AuditLog(self._store, self._codec).acknowledged()
        for finding in [*each, *self._checker.pairs(self._compared)]:
            said = known.get(finding.fingerprint)
            yield finding.message + (f" (known to {said.actor}: {said.reason})" if said else "")

    def _tell(self, found: RunReading) -> None:
        """Read both streams, row by row, and put the timeline together on the way."""
        refs = set[str | None]() if found.record is None else {found.record.delivery_ref}

        def run_events() -> Iterator[Event]:
            for event in self._events(found, run_stream(found.run_id), "run_records"):
                if isinstance(event, RunQueued):
                    refs.add(event.delivery_ref)
                yield event

        def delivery_events() -> Iterator[Event]:
            for ref in sorted(ref for ref in refs if ref is not None):
                stream = delivery_stream(delivery_invocation_id(found.run_id, ref))
                yield from self._events(found, stream, "delivery_outbox")

        events, delivery = run_events(), _opened(delivery_events())
        try:
            found.line = timeline(events, delivery, now=found.now, stored=found.record)
        finally:
            # What the timeline did not come to is in the table all the same.
            for _ in itertools.chain(events, delivery):
                pass

    def _events(self, found: RunReading, name: str, table: Table) -> Iterator[Event]:
        """The events that can be read; all are checked, and put into the table."""
        stream, count, image = Stream(name), 0, None
        for _ in range(TRIES):
            while page := self._store.read(name, stream.version, PAGE):
                for stored in page:
                    count += 1
                    event = stream.take(stored, self._validating)
                    if event is None:
                        self._rows.add_unreadable(stored, stream.unread)
                    else:
                        self._rows.add(event)
                        yield event
            image = self._store.images_of(table, [stream.key]).get(stream.key)
            if image is None or image.version <= stream.version:
                break
        if count or table == "run_records":
            self._compared.append(Compared(stream, table, image))
        if count:
            title = "The run" if table == "run_records" else "The delivery"
            found.chains.append(Chain(title, count, stream.head))


def _opened(events: Iterable[Event]) -> Iterator[Event]:
    """A delivery's events from its request on: without that they say nothing."""
    requested = False
    for event in events:
        requested = requested or isinstance(event, DeliveryRequested)
        if requested:
            yield event
