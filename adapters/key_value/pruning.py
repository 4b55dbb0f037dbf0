"""Removing ended runs from a Space: the PruneStore port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ...domain.delivery import DELIVERY_STREAM, DeliveryRecord
from ...domain.errors import RunStoreError
from ...domain.events import RUN_STREAM, run_stream
from ...domain.prune_store import Burying, PruneStore
from ...domain.pruning import Ended
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone
from ...projections.whole import expected_delivery
from ..rows import from_microseconds
from .events import last_place, last_version, put_event, remove_stream
from .rows import live_child, place_in, read_delivery, read_row, remove_delivery, remove_row
from .space import InSpace, Space, key_of, since_epoch, under


class KeyValuePruning(InSpace, PruneStore):
    """What KeyValueStore does for pruning."""

    def buried(self, run_id: str) -> RunRecord | None:
        """What is left of a run that was pruned, with `pruned_at`; None if it was not."""
        found = self.tombstones_of([run_stream(run_id)]).get(run_stream(run_id))
        return None if found is None else found.record

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        begin = None if after is None else key_of("ended", since_epoch(after[0]), after[1])
        end = key_of("ended", since_epoch(before))
        found: list[Ended] = []
        with self._within() as space:
            for parts, _ in under(space, "ended", after=begin, before=end):
                if len(found) >= limit:
                    break
                found.append(_facts(space, int(parts[1]), parts[2]))
        return found

    def prune(self, run_ids: Sequence[str], bury: Burying) -> bool:
        with self._within() as space:
            places = [place_in(space, "ended", run_id) for run_id in sorted(set(run_ids))]
            parts = [place.split("\x1f") for place in places if place is not None]
            burial = bury([_facts(space, int(at), run_id) for _, at, run_id in parts])
            if burial is None:
                return True
            if last_version(space, burial.audit.stream) != burial.audit.version - 1:
                return False
            for tombstone in burial.tombstones:
                _remove(space, tombstone.stream)
                _put(space, tombstone)
            put_event(space, burial.audit)
        return True

    def tombstones_of(self, streams: Sequence[str]) -> dict[str, Tombstone]:
        with self._within() as space:
            # In the order of their audit versions, so the last one of a stream stays.
            return {s: t for s in streams for t in _of(space, s)}

    def tombstones(self, after: tuple[int, str], limit: int) -> list[Tombstone]:
        found: list[Tombstone] = []
        with self._within() as space:
            for parts, value in under(space, "grave", after=key_of("grave", *after)):
                if len(found) >= limit:
                    break
                found.append(_tombstone(parts[2], int(parts[1]), value))
        return found

    def add_tombstones(self, tombstones: Sequence[Tombstone]) -> int:
        with self._within() as space:
            new = [t for t in tombstones if space.get(_grave(t)) is None]
            for tombstone in new:
                _put(space, tombstone)
        return len(new)


def is_buried(space: Space, stream: str, unless: RunRecord | None = None) -> bool:
    """Whether a stream of this name was pruned; `unless`: another one than led to this record."""
    one = None if unless is None else (unless.version, unless.head)
    return any((t.version, t.head) != one for t in _of(space, stream))


def _facts(space: Space, ended_at: int, run_id: str) -> Ended:
    moment, child = from_microseconds(ended_at), live_child(space, run_id)
    try:
        row = read_row(space, run_id)
    except RunStoreError:
        row = None
    if row is None:
        return Ended(run_id, moment, None, None, child, None)
    position, delivery = last_place(space, run_stream(run_id)), None
    name = expected_delivery(row.record)
    if name is not None and position is not None:
        position = max(position, last_place(space, name) or position)
    if name is not None:
        delivery = _delivery(space, name.removeprefix(DELIVERY_STREAM))
    return Ended(run_id, row.record.updated_at, row.record, delivery, child, position)


def _delivery(space: Space, invocation_id: str) -> DeliveryRecord | None:
    try:
        return read_delivery(space, invocation_id)
    except RunStoreError:
        return None


def _remove(space: Space, stream: str) -> None:
    remove_stream(space, stream)
    if stream.startswith(RUN_STREAM):
        remove_row(space, stream.removeprefix(RUN_STREAM))
    else:
        remove_delivery(space, stream.removeprefix(DELIVERY_STREAM))


def _grave(tombstone: Tombstone) -> str:
    return key_of("grave", tombstone.audit_version, tombstone.stream)


def _put(space: Space, tombstone: Tombstone) -> None:
    body = b"" if tombstone.body is None else b"\n" + tombstone.body
    value = b"%d %b%b" % (tombstone.version, tombstone.head.encode(), body)
    space.put(_grave(tombstone), value)
    space.put(key_of("grave_of", tombstone.stream, tombstone.audit_version), value)


def _of(space: Space, stream: str) -> Iterator[Tombstone]:
    for parts, value in under(space, "grave_of", stream):
        yield _tombstone(stream, int(parts[2]), value)


def _tombstone(stream: str, audit_version: int, value: bytes) -> Tombstone:
    fields, body, rest = value.partition(b"\n")
    version, _, head = fields.decode().partition(" ")
    return Tombstone(stream, audit_version, int(version), head, rest if body else None)
