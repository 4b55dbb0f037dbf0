"""Units written into a journal: those that are new, and those that go on with what is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, takewhile
from typing import NamedTuple

from ...domain.audit import AUDIT_STREAM
from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.errors import RUN_CONFLICT, RUN_OUTCOME_UNKNOWN, RunStoreError
from ...domain.events import RUN_STREAM
from ...domain.history_store import Image, Publication, Repair, Table
from ...domain.ports import JournalStore, PayloadCodec
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone
from ...projections.streams import Stream, is_run
from .units import KEPT, Strand, Unit

#: Units written in one transaction, at most.
BATCH = 100
#: How often a unit that others write to meanwhile is looked at again.
TRIES = 10
#: The mark of a delivery that came with an import and is not sent by itself.
HELD = "imported: it is not sent before somebody asks for it"


class Conflict(NamedTuple):
    """A stream that is another one here: nothing of its run was written."""

    stream: str
    message: str


@dataclass(slots=True)
class Imported:
    """What an import or a copy came to.

    new        runs, and streams of the journal's own, that were not there
    extended   those that were there as far as an earlier version
    unchanged  those that were there, or are further here
    events     how many events were written
    held       undelivered deliveries that were written and are not sent by themselves
    pruned     runs that were pruned here, and stay so
    buried     tombstones that were written: of runs that were pruned there
    conflicts  what was left out because it is something else here
    torn       streams of an archive's last document that is cut short: all of it was left out
    """

    new: int = 0
    extended: int = 0
    unchanged: int = 0
    events: int = 0
    held: int = 0
    pruned: int = 0
    buried: int = 0
    conflicts: list[Conflict] = field(default_factory=list)
    torn: tuple[str, ...] = ()


class _ConflictError(Exception):
    """Ends the plan of one unit."""


class Publisher:
    """Writes units into a journal. Each is written whole or not at all; repeating does no harm.

    send  whether undelivered deliveries are due here as their events say, and not set aside
    """

    def __init__(self, store: JournalStore, codec: PayloadCodec, *, send: bool) -> None:
        self._store = store
        self._codec = codec
        self._send = send
        #: As far as this the journal's own stream is the same there and here.
        self._audited = 0
        self.done = Imported()

    def publish(self, units: Iterable[Unit]) -> Imported:
        """Write all of them. Raises RUN_CONFLICT / contended if others always were first."""
        batch: list[Unit] = []
        size = 0
        for unit in units:
            batch.append(unit)
            size += sum(strand.size for strand in unit)
            if len(batch) >= BATCH or size >= KEPT:
                self._publish(batch)
                batch, size = [], 0
        self._publish(batch)
        return self.done

    def bury(self, tombstones: Iterable[Tombstone]) -> None:
        """Write what is left of streams that were pruned there, after the units."""
        mine = takewhile(lambda t: t.audit_version <= self._audited, tombstones)
        while page := list(islice(mine, BATCH)):
            runs = {t.stream: t for t in page if t.body is not None}
            keys = [stream.removeprefix(RUN_STREAM) for stream in runs]
            here = self._store.heads_of("run_records", keys)
            for stream, tombstone in runs.items():
                there = here.get(stream.removeprefix(RUN_STREAM))
                if there is not None and (there.version, there.head) != tombstone[2:4]:
                    told = f"{stream} was pruned there, and is another run here"
                    self.done.conflicts.append(Conflict(stream, told))
                    page.remove(tombstone)
            self.done.buried += self._store.add_tombstones(page)

    def _publish(self, batch: Sequence[Unit]) -> None:
        """All in one transaction; if one of them has moved meanwhile, each in its own."""
        if not self._settled(batch):
            for unit in batch:
                if not any(self._settled([unit]) for _ in range(TRIES)):
                    raise RunStoreError(
                        RUN_CONFLICT,
                        "contended",
                        f"{unit[0].stream.name}: other writers were first {TRIES} times, or its "
                        "record is missing",
                    )

    def _settled(self, batch: Sequence[Unit]) -> bool:
        """Write what is to be written; False if somebody was first, or a reply was lost."""
        images = self._images([strand for unit in batch for strand in unit])
        gone = self._store.tombstones_of([u[0].stream.name for u in batch if is_run(u[0].stream)])
        result = Imported()
        writes: list[Publication] = []
        released: list[Repair] = []
        for unit in batch:
            name = unit[0].stream.name
            try:
                if name in gone and name not in images:
                    _check_pruned(unit[0].stream, gone[name])
                    result.pruned += 1
                    continue
                planned = [self._plan(strand, images.get(strand.stream.name)) for strand in unit]
            except _ConflictError as e:
                result.conflicts.append(Conflict(name, str(e)))
                continue
            if name == AUDIT_STREAM:
                self._audited = unit[0].stream.version
            mine = [p for p in planned if p is not None]
            self._count(result, unit, mine)
            writes += mine
            released += self._released(unit, planned)
        try:
            if writes and not self._store.publish(writes):
                return False
            if released:
                self._store.repair(released)  # a row that has moved on is due by itself
        except RunStoreError as e:
            if e.code != RUN_OUTCOME_UNKNOWN:
                raise
            return False  # the next look finds it written, or not
        self._add(result)
        return True

    def _plan(self, strand: Strand, image: Image | None) -> Publication | None:
        """What has to be written of a stream; None if nothing has."""
        stream = strand.stream
        stored = 0 if image is None else image.version
        if image is not None and stored >= stream.version:
            if self._hash_here(stream, stored, image) != stream.head:
                raise _ConflictError(_differs(stream, stored))
            return None
        if image is not None:
            last = next(strand.events(stored - 1))
            if self._codec.open(last).hash != image.head:
                raise _ConflictError(_differs(stream, stored))
        held = HELD if self._is_held(stream) else None
        return Publication(stream.name, stored, partial(strand.events, stored), stream.record, held)

    def _hash_here(self, stream: Stream, stored: int, image: Image) -> str | None:
        """The hash of the event that is stored at the stream's last version."""
        if stored == stream.version:
            return image.head
        found = self._store.read(stream.name, stream.version - 1, 1)
        return self._codec.open(found[0]).hash if found else None

    def _is_held(self, stream: Stream) -> bool:
        return not self._send and _is_due(stream)

    def _released(self, unit: Unit, planned: Sequence[Publication | None]) -> list[Repair]:
        """Deliveries that an earlier import may have set aside, and that shall be sent now."""
        if not self._send:
            return []
        return [
            Repair(strand.stream.record, strand.stream.version)
            for strand, publication in zip(unit, planned, strict=True)
            if publication is None and strand.stream.record and _is_due(strand.stream)
        ]

    def _images(self, strands: Sequence[Strand]) -> dict[str, Image]:
        """How far each of these streams is here, by name."""
        found: dict[str, Image] = {}
        by_table: dict[Table, list[Stream]] = {"run_records": [], "delivery_outbox": []}
        for strand in strands:
            stream = strand.stream
            if stream.record is not None:
                by_table["run_records" if is_run(stream) else "delivery_outbox"].append(stream)
            elif (image := self._last_event(stream.name)) is not None:
                found[stream.name] = image
        for table, streams in by_table.items():
            images = self._store.images_of(table, [s.key for s in streams])
            found |= {s.name: images[s.key] for s in streams if s.key in images}
        return found

    def _last_event(self, name: str) -> Image | None:
        """How far a stream without a row is: its last event says it."""
        after, last = 0, None
        while page := self._store.read(name, after, BATCH):
            after, last = page[-1].version, page[-1]
        return None if last is None else Image(after, self._codec.open(last).hash, "", None)

    def _count(self, result: Imported, unit: Unit, mine: Sequence[Publication]) -> None:
        if not mine:
            result.unchanged += 1
        elif mine[0].stream == unit[0].stream.name and mine[0].stored == 0:
            result.new += 1
        else:
            result.extended += 1
        versions = {strand.stream.name: strand.stream.version for strand in unit}
        result.events += sum(versions[p.stream] - p.stored for p in mine)
        result.held += sum(p.held is not None for p in mine)

    def _add(self, result: Imported) -> None:
        for name in ("new", "extended", "unchanged", "events", "held", "pruned"):
            setattr(self.done, name, getattr(self.done, name) + getattr(result, name))
        self.done.conflicts += result.conflicts


def _is_due(stream: Stream) -> bool:
    """Whether it is a delivery that somebody would send by itself."""
    record = stream.record
    return (
        isinstance(record, DeliveryRecord)
        and record.status is not DeliveryStatus.DELIVERED
        and record.next_attempt_at is not None
    )


def _check_pruned(stream: Stream, left: Tombstone) -> None:
    """That this run is the one that was pruned here, or what it was before its end."""
    record, before = stream.record, left.record
    assert before is not None  # a run's tombstone
    same = (stream.version, stream.head) == (left.version, left.head)
    earlier = isinstance(record, RunRecord) and stream.version < left.version
    if earlier and isinstance(record, RunRecord):
        same = (record.start_digest, record.created_at) == (before.start_digest, before.created_at)
    if not same:
        raise _ConflictError(f"{stream.name} is another run than the one that was pruned here")


def _differs(stream: Stream, stored: int) -> str:
    return (
        f"{stream.name} is another stream here: at version {stored} here and {stream.version} "
        f"there, and not the same up to version {min(stored, stream.version)}"
    )
