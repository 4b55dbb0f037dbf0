"""The units of an open journal, in order: what is exported and what is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ...domain.delivery import DELIVERY_STREAM, DeliveryRecord
from ...domain.errors import RUN_INTEGRITY_ERROR, RUN_NOT_FOUND, RunStoreError
from ...domain.events import run_stream
from ...domain.ports import JournalStore, PayloadCodec, StoredEvent
from ...domain.record import RunRecord
from ...domain.refusals import pruned
from ...domain.tombstone import Tombstone
from ...projections.whole import delivery_problem, expected_delivery, take_sound
from .units import Gathering, Strand, Unit

#: Events read at once: two pages of the largest ones (1 MiB by default) must fit into memory.
PAGE = 30
#: Tombstones read at once.
TOMBSTONES = 500
#: What sorts right after every delivery's stream.
_BEHIND_DELIVERIES = DELIVERY_STREAM[:-1] + chr(ord("/") + 1)

Progress = Callable[[int], object]


class Source:
    """Reads a journal unit by unit, in bounded memory and in short transactions."""

    def __init__(self, store: JournalStore, codec: PayloadCodec, progress: Progress) -> None:
        self._store = store
        self._codec = codec
        self._progress = progress

    def units(self, run_ids: Iterable[str] | None) -> Iterator[Unit]:
        """These runs in the order of their ids, or everything in the order of the streams' names.

        A delivery comes with its run. Each run is as it was at one moment, not all at the same.
        Raises RUN_INTEGRITY_ERROR / unreadable_event where the journal is not sound, and
        RUN_NOT_FOUND / run or pruned.
        """
        if run_ids is None:
            strands = self._walked()
        else:
            strands = (self._run(i) for i in sorted(set(run_ids), key=str.encode))
        for strand in strands:
            yield self._unit(strand)

    def tombstones(self) -> Iterator[Tombstone]:
        """What is left of all that was pruned, by the events of `journal/audit` that tell of it."""
        after = (0, "")
        while page := self._store.tombstones(after, TOMBSTONES):
            yield from page
            after = page[-1].audit_version, page[-1].stream

    def _unit(self, strand: Strand) -> Unit:
        run = strand.stream.record
        if not isinstance(run, RunRecord):
            return (strand,)
        name = expected_delivery(run)
        if name is None:
            return (strand,)
        delivery = self._read(name)
        record = delivery.stream.record
        if not isinstance(record, DeliveryRecord):
            raise _unsound(f"{strand.stream.name} has ended, and {name} is not there")
        problem = delivery_problem(run, record)
        if problem is not None:
            raise _unsound(problem)
        return (strand, delivery)

    def _walked(self) -> Iterator[Strand]:
        """Every stream but the deliveries'."""
        current: Gathering | None = None
        after = ("", 0)
        while page := self._store.walk(after, PAGE):
            after = page[-1].stream, page[-1].version
            for stored in page:
                if stored.stream.startswith(DELIVERY_STREAM):
                    after = max(after, (_BEHIND_DELIVERIES, 0))
                    continue
                if current is None or current.stream.name != stored.stream:
                    if current is not None:
                        yield current.strand()
                    current = self._gathering(stored.stream)
                self._take(current, stored)
        if current is not None:
            yield current.strand()

    def _run(self, run_id: str) -> Strand:
        strand = self._read(run_stream(run_id))
        if not strand.stream.version:
            if (left := self._store.buried(run_id)) is not None:
                raise pruned(left)
            raise RunStoreError(RUN_NOT_FOUND, "run", f"there is no run {run_id!r}")
        return strand

    def _read(self, name: str) -> Strand:
        gathering = self._gathering(name)
        for stored in self._pages(name):
            self._take(gathering, stored)
        return gathering.strand()

    def _gathering(self, name: str) -> Gathering:
        return Gathering(name, partial(self._pages, name))

    def _pages(self, name: str) -> Iterator[StoredEvent]:
        after = 0
        while page := self._store.read(name, after, PAGE):
            yield from page
            after = page[-1].version

    def _take(self, gathering: Gathering, stored: StoredEvent) -> None:
        problem = take_sound(gathering.stream, stored, self._codec)
        if problem is not None:
            if gathering.stream.locked:
                self._codec.open(stored)  # raises, naming the key
            raise _unsound(problem)
        gathering.keep(stored)
        self._progress(1)


def _unsound(problem: str) -> RunStoreError:
    return RunStoreError(
        RUN_INTEGRITY_ERROR, "unreadable_event", f"{problem}; `verify` names all that is wrong"
    )
