"""Stores that break one rule each of histories and of exclusion, as `broken_stores` does.

Not collected by itself: these classes are meant to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Barrier
from typing import Any, ClassVar

from runjournal.adapters.contract import Between, ExclusionContract, RunStoreContract
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain import RunRecord, RunStoreError
from runjournal.domain.delivery import DeliveryRecord
from runjournal.domain.history_store import Head, Image, Publication, Repair, Table
from runjournal.domain.ports import StoredEvent

from .enrolling import enrol


class SoundHistory(Between):
    """Breaks nothing. What is around it is a MemoryStore."""

    store: Any

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        return self.store.walk(after, limit)

    def divide(self, events: int) -> list[str]:
        return self.store.divide(events)

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        return self.store.images(table, after, upto, limit)

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        return self.store.images_of(table, keys)

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        return self.store.heads_of(table, keys)

    def image(self, record: RunRecord | DeliveryRecord) -> Image:
        return self.store.image(record)

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        return self.store.repair(rows)

    def recreate(self, table: Table) -> None:
        self.store.recreate(table)

    def publish(self, publications: Sequence[Publication]) -> bool:
        return self.store.publish(publications)


class WalksByLength(SoundHistory):
    """Orders streams as nobody else does."""

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        def place(stream: str, version: int) -> tuple[int, str, int]:
            return len(stream), stream, version

        events = self.store.walk(("", 0), 10_000)
        ordered = sorted(events, key=lambda e: place(e.stream, e.version))
        return [e for e in ordered if place(e.stream, e.version) > place(*after)][:limit]


class WalksOnWithTheNextStream(SoundHistory):
    """Takes a place in a stream for its end."""

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        return super().walk((after[0], 2**63 - 1 if after[0] else 0), limit)


class DividesNothing(SoundHistory):
    """Says that the journal is too small to be divided."""

    def divide(self, events: int) -> list[str]:
        return []


class ImagesTellDeadlines(SoundHistory):
    """Takes a renewal for a change of the row."""

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        found = super().images(table, after, upto, limit)
        rows = self.store.rows
        return [
            (key, image._replace(rest=(image.rest, rows[key].ready_at if key in rows else None)))
            for key, image in found
        ]


class ImagesOverlookTheRest(SoundHistory):
    """Compares version, head and status, and nothing else."""

    def image(self, record: RunRecord | DeliveryRecord) -> Image:
        return super().image(record)._replace(rest=None)

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        found = super().images_of(table, keys)
        return {key: image._replace(rest=None) for key, image in found.items()}


class ImagesGoTooFar(SoundHistory):
    """Goes on behind the last key that was asked for."""

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        return super().images(table, after, None, limit)


class TellsNoHeads(SoundHistory):
    """Takes what it is asked for heads for what is not there."""

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        return {}


class RepairsWhatMovedOn(SoundHistory):
    """Writes a row whatever version it is at by now."""

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        done = []
        for record, _ in rows:
            table: Table = "run_records" if isinstance(record, RunRecord) else "delivery_outbox"
            key = record.run_id if isinstance(record, RunRecord) else record.invocation_id
            image = self.store.images_of(table, [key]).get(key)
            done += super().repair([Repair(record, image and image.version)])
        return done


class RepairsNothing(SoundHistory):
    """Says that it is done."""

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        return [True for _ in rows]


class RepairsOverDeadlines(SoundHistory):
    """Takes the deadline of the events for the one that counts."""

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        done = super().repair(rows)
        for record, _ in rows:
            if isinstance(record, RunRecord) and record.lease is not None:
                self.store.rows[record.run_id].ready_at = record.lease.expires_at
        return done


class RepairsAreNotDue(SoundHistory):
    """Makes the row of a queued run, and nobody ever claims it."""

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        done = super().repair(rows)
        for record, stored in rows:
            if isinstance(record, RunRecord) and stored is None:
                self.store.rows[record.run_id].ready_at = None
        return done


class RecreatesWhatIsThere(SoundHistory):
    """Makes a table anew that is there."""

    def recreate(self, table: Table) -> None:
        self.store._table(table).clear()


class SaysItPublished(SoundHistory):
    """Takes a lost guard for a stream that is here already."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        super().publish(publications)
        return True


class PublishesByHalves(SoundHistory):
    """Writes the streams of one publication one after the other."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        done = [self.store.publish([each]) for each in publications]
        return all(done)


class PublishesNoRows(SoundHistory):
    """Writes the events and leaves the rows to a rebuild."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        return super().publish([each._replace(record=None) for each in publications])


class PublishesNothingDue(SoundHistory):
    """Writes runs that nobody ever claims."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        done = super().publish(publications)
        for each in publications:
            if done and isinstance(each.record, RunRecord):
                self.store.rows[each.record.run_id].ready_at = None
        return done


class PublishesWhatItCouldRead(SoundHistory):
    """Takes a source that breaks off for one that has ended."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        def read(each: Publication) -> Iterator[StoredEvent]:
            try:
                yield from each.events()
            except ZeroDivisionError:
                return

        return super().publish([p._replace(events=lambda each=p: read(each)) for p in publications])


class SendsWhatIsHeld(SoundHistory):
    """Sends by itself what somebody else may have sent already."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        return super().publish([each._replace(held=None) for each in publications])


class PublishesRunsOnly(SoundHistory):
    """Leaves out the streams that have no row."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        return super().publish([p for p in publications if p.record is not None])


# Exclusion.


class HoldsNothing(SoundHistory):
    """Lets everybody in."""

    def exclusive(self, name: str) -> AbstractContextManager[Any]:
        self.store.exclusive(name)
        return nullcontext(_Hold())


class LooksBeforeItHolds(SoundHistory):
    """Sees that a name is free, and takes it a moment later: so two who come at once have it."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.seen, self.inside = Barrier(2, timeout=60), Barrier(2, timeout=60)

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Any]:
        self.seen.wait()
        yield _Hold(self.inside.wait)


class HoldsForEver(SoundHistory):
    """Never gives a name back."""

    kept: ClassVar[list[Any]] = []

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Any]:
        inside = self.store.exclusive(name)
        self.kept.append(inside)  # or it would end when nobody knows it any more
        yield inside.__enter__()


class HoldsOneForAll(SoundHistory):
    """Has one lock, whatever the name."""

    def exclusive(self, name: str) -> AbstractContextManager[Any]:
        return self.store.exclusive("job" if name.startswith("j") else name)


class HoldsAnyName(SoundHistory):
    """Looks at no name."""

    @contextmanager
    def exclusive(self, name: str) -> Iterator[Any]:
        try:
            inside = self.store.exclusive(name)
            hold = inside.__enter__()
        except RunStoreError as error:
            if error.reason != "identifier":
                raise
            yield _Hold()
            return
        try:
            yield hold
        finally:
            inside.__exit__(None, None, None)


class HoldsOnceClosed(SoundHistory):
    """Goes on handing out names after the end."""

    def exclusive(self, name: str) -> AbstractContextManager[Any]:
        self.store._gone = ""
        return self.store.exclusive(name)


class _Hold:
    def __init__(self, check: Callable[[], object] = lambda: None) -> None:
        self._check = check

    def check(self) -> None:
        self._check()


class BrokenContract(RunStoreContract, ExclusionContract):
    """The contract on one of the stores above, around a sound one."""

    store_class: ClassVar[type[Between]]

    def make_store(self, tmp_path: Path) -> Any:
        return self.store_class(MemoryStore())


enrol(globals(), BrokenContract, SoundHistory)
