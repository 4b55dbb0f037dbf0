"""Reading everything in order and putting rows right, in a Space: the HistoryStore port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...domain.delivery import DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.history_store import Head, HistoryStore, Image, Publication, Repair, Table
from ...domain.ports import StoredEvent
from ...domain.record import RunRecord
from ...projections.run_records import due_at
from ..judging import image_of, ready_as_repaired
from .events import event_of, last_version, put_event
from .pruning import is_buried
from .rows import delivery_of, put_delivery, put_row, read_row, row_of
from .space import InSpace, Space, key_of, under

#: The first part of the keys of a table's rows.
_PREFIX: dict[Table, str] = {"run_records": "run", "delivery_outbox": "delivery"}
#: What a row says that cannot be read: it is at no version.
_UNREADABLE = (0, "", "")


class _LostGuardError(Exception):
    """Rolls a publication back."""


class KeyValueHistory(InSpace, HistoryStore):
    """What KeyValueStore does for checking and rebuilding."""

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        found: list[StoredEvent] = []
        with self._within() as space:
            for parts, value in under(space, "event", after=key_of("event", *after)):
                if len(found) >= limit:
                    break
                found.append(event_of(parts, value))
        return found

    def divide(self, events: int) -> list[str]:
        ends, passed = [], 0
        with self._within() as space:
            for parts, version in under(space, "last"):
                before, passed = passed, passed + int(version)
                if before // events != passed // events:
                    ends.append(parts[1])
        return ends

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        found: list[tuple[str, Image]] = []
        with self._within() as space:
            begin = key_of(_PREFIX[table], after)
            for (_, key), value in under(space, _PREFIX[table], after=begin):
                if len(found) >= limit or (upto is not None and key > upto):
                    break
                found.append((key, self._image(table, key, value)))
        return found

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        with self._within() as space:
            values = ((key, space.get(key_of(_PREFIX[table], key))) for key in keys)
            return {k: self._image(table, k, value) for k, value in values if value is not None}

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        return {key: Head(*image[:3]) for key, image in self.images_of(table, keys).items()}

    def image(self, record: RunRecord | DeliveryRecord) -> Image:
        return image_of(record)

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        with self._within() as space:
            return [self._repair(space, record, stored) for record, stored in rows]

    def recreate(self, table: Table) -> None:
        """There are no tables."""

    def publish(self, publications: Sequence[Publication]) -> bool:
        try:
            with self._within() as space:
                for publication in publications:
                    self._publish(space, publication)
        except _LostGuardError:
            return False
        return True

    def _publish(self, space: Space, publication: Publication) -> None:
        stream, stored, events, record, held = publication
        if last_version(space, stream) != stored:
            raise _LostGuardError
        if record is not None:
            if (self._version_of(space, record) or 0) != stored:
                raise _LostGuardError
            if isinstance(record, RunRecord):
                if not stored and is_buried(space, stream, unless=record):
                    raise _LostGuardError
                put_row(space, record, due_at(record))
            else:
                put_delivery(space, record, held)
        for event in _in_order(events(), stored):
            put_event(space, event)

    def _repair(self, space: Space, record: RunRecord | DeliveryRecord, stored: int | None) -> bool:
        if self._version_of(space, record) != stored:
            return False
        if isinstance(record, DeliveryRecord):
            put_delivery(space, record)
            return True
        try:
            row = read_row(space, record.run_id)
        except RunStoreError:
            row = None  # which is why it is repaired
        put_row(space, record, ready_as_repaired(row, record))
        return True

    def _version_of(self, space: Space, record: RunRecord | DeliveryRecord) -> int | None:
        table: Table = "run_records" if isinstance(record, RunRecord) else "delivery_outbox"
        key = record.run_id if isinstance(record, RunRecord) else record.invocation_id
        value = space.get(key_of(_PREFIX[table], key))
        return None if value is None else self._image(table, key, value).version

    def _image(self, table: Table, key: str, value: bytes) -> Image:
        try:
            if table == "run_records":
                return self.image(row_of(key, value).record)
            return self.image(delivery_of(key, value))
        except RunStoreError:
            return Image(*_UNREADABLE, value)


def _in_order(events: Iterator[StoredEvent], after: int) -> Iterator[StoredEvent]:
    """The events; each must be the next one of its stream."""
    for event in events:
        if event.version != after + 1:
            raise _LostGuardError
        after = event.version
        yield event
