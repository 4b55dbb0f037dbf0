"""Reads all there is of a run for its audit page, and stops at no damage."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from ...domain.delivery import DeliveryRequested, delivery_invocation_id, delivery_stream
from ...domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ...domain.events import TERMINAL_EVENTS, Event, RunQueued, run_stream
from ...domain.ports import PayloadCodec, RunStore, StoredEvent
from ...domain.record import RunRecord
from ...projections.chain_state import ChainState
from ...projections.timeline import timeline
from ...projections.timeline_parts import Timeline
from ..time_travel import no_run
from .rows import Rows

if TYPE_CHECKING:
    from ..journal import Journal

#: Events read in one short transaction.
PAGE = 500


@dataclass
class RunReading:
    """A run as far as it can be read.

    record  as stored; None where there is none, or where it cannot be read
    line    None where no event can be read, or where they do not fit together
    """

    run_id: str
    now: datetime
    record: RunRecord | None
    line: Timeline | None
    chains: list[ChainState]
    rows: Rows
    problems: list[str] = field(default_factory=list)


def read_run(journal: Journal, codec: PayloadCodec, run_id: str, rows: Rows) -> RunReading:
    """All there is of the run, however damaged. Raises RUN_NOT_FOUND / run."""
    found = RunReading(run_id, journal.store.now(), None, None, [], rows)
    try:
        reading = journal.store.get(run_id)
        found.now, found.record = reading.now, reading.record
    except RunStoreError as error:
        if error.code != RUN_INTEGRITY_ERROR:
            raise
        found.problems.append(f"The run's record cannot be read: {error.message}")
    chain = ChainState("The run")
    try:
        _tell(found, journal.store, codec, chain)
    except (ValueError, ArithmeticError, KeyError) as error:
        # Each event can be read, but they were never written in this order or with these values.
        found.problems.append(f"The events do not fit together: {type(error).__name__}: {error}")
    if found.record is not None:
        chain.compare(found.record.version, found.record.head)
    elif chain.events == 0 and not found.problems:
        raise no_run(run_id)
    elif not found.problems:
        found.problems.append("There are events of the run, and no record.")
    return found


def _tell(found: RunReading, store: RunStore, codec: PayloadCodec, chain: ChainState) -> None:
    """Read both streams, row by row, and put the timeline together on the way."""
    found.chains.append(chain)
    ends: list[Event] = []
    refs = {found.record.delivery_ref} if found.record else set()

    def run_events() -> Iterator[Event]:
        for event in _events(store, codec, run_stream(found.run_id), chain, found.rows):
            if isinstance(event, RunQueued):
                refs.add(event.delivery_ref)
            if isinstance(event, TERMINAL_EVENTS):
                ends.append(event)
            yield event

    def delivery_events() -> Iterator[Event]:
        for ref in sorted(ref for ref in refs if ref is not None):
            invocation_id = delivery_invocation_id(found.run_id, ref)
            yield from _delivery(store, codec, invocation_id, found, ends)

    events, delivery = run_events(), _opened(delivery_events())
    try:
        found.line = timeline(events, delivery, now=found.now, stored=found.record)
    finally:
        # What the timeline did not come to is in the table all the same.
        for _ in itertools.chain(events, delivery):
            pass


def _opened(events: Iterable[Event]) -> Iterator[Event]:
    """A delivery's events from its request on: without that they say nothing."""
    requested = False
    for event in events:
        requested = requested or isinstance(event, DeliveryRequested)
        if requested:
            yield event


def _delivery(
    store: RunStore, codec: PayloadCodec, invocation_id: str, found: RunReading, ends: list[Event]
) -> Iterator[Event]:
    chain = ChainState("The delivery")
    for event in _events(store, codec, delivery_stream(invocation_id), chain, found.rows):
        if isinstance(event, DeliveryRequested):
            named = (event.terminal_version, event.terminal_hash)
            if named not in [(end.originator_version, end.hash) for end in ends]:
                chain.wrong("The delivery names an end that the run does not have.")
        yield event
    if chain.events == 0 and not ends:
        return  # it is requested when the run ends
    found.chains.append(chain)
    try:
        record = store.get_delivery(invocation_id).record
    except RunStoreError as error:
        if error.code != RUN_INTEGRITY_ERROR:
            raise
        chain.wrong(f"The delivery's record cannot be read: {error.message}")
        return
    if record is None:
        chain.wrong("The delivery has no record.")
    else:
        chain.compare(record.version, record.head)


def _events(
    store: RunStore, codec: PayloadCodec, stream: str, chain: ChainState, rows: Rows
) -> Iterator[Event]:
    """The events that can be read; every one is counted, chained and put into the table."""
    for stored in _stored(store, stream):
        try:
            event = codec.open(stored)
        except RunStoreError as error:
            chain.see(stored, None, error.message)
            rows.add_unreadable(stored, error.message)
        else:
            chain.see(stored, event.prev_hash)
            rows.add(event, chain.head)
            yield event


def _stored(store: RunStore, stream: str) -> Iterator[StoredEvent]:
    after = 0
    while page := store.read(stream, after, PAGE):
        yield from page
        after = page[-1].version
