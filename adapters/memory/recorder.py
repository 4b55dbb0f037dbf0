"""The eventsourcing library's recorders in memory, over one shared set of tables."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    IntegrityError,
    Notification,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    Tracking,
    TrackingRecorder,
)

from ..subscription import PollingSubscription


class Commit(NamedTuple):
    """Everything one transaction writes, complete before any of it is visible."""

    events: tuple[StoredEvent, ...] = ()
    tracking: Tracking | None = None
    rows: tuple[Callable[[], None], ...] = ()


class Tables:
    """What a journal in memory holds.

    A transaction is built aside and published by one append to `commits`; the tables below are
    indexes of it. An interrupt in between leaves an index behind, never half a transaction: the
    next one to enter catches up, and indexing twice does no harm.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.commits: list[tuple[int, Commit]] = []
        #: None where an event was pruned: its position is never handed out again.
        self.log: list[StoredEvent | None] = []
        self.streams: dict[str, dict[int, StoredEvent]] = {}
        self.versions: dict[str, list[int]] = {}
        self.tracking: dict[str, int] = {}
        #: Names that somebody holds (`MemoryExclusion`).
        self.held: set[str] = set()

    def __enter__(self) -> Tables:
        self.lock.acquire()
        self._catch_up()
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def publish(self, commit: Commit) -> list[int]:
        """Make the commit true; the positions of its events. Call within `with tables`."""
        taken = set()
        for e in commit.events:
            key = (str(e.originator_id), e.originator_version)
            if key in taken or e.originator_version in self.streams.get(key[0], {}):
                raise IntegrityError(f"event {key[1]} of stream {key[0]!r} exists already")
            taken.add(key)
        tracking = commit.tracking
        if tracking and self.tracking.get(tracking.application_name, 0) >= tracking.notification_id:
            raise IntegrityError(
                f"{tracking.application_name} is already at or past {tracking.notification_id}"
            )
        first = len(self.log)
        self.commits.append((first, commit))
        self._catch_up()
        return list(range(first + 1, first + 1 + len(commit.events)))

    def remove(self, streams: Collection[str]) -> None:
        """Take streams out of the indexes; doing it twice does no harm."""
        for position, e in enumerate(self.log):
            if e is not None and str(e.originator_id) in streams:
                self.log[position] = None
        for stream in streams:
            self.streams.pop(stream, None)
            self.versions.pop(stream, None)

    def _catch_up(self) -> None:
        # Only the last commit can be half indexed, so the others need not be kept.
        for first, commit in self.commits:
            self.log[first:] = commit.events
            for e in commit.events:
                stream = str(e.originator_id)
                events = self.streams.setdefault(stream, {})
                if e.originator_version not in events:
                    insort(self.versions.setdefault(stream, []), e.originator_version)
                    events[e.originator_version] = e
            if commit.tracking is not None:
                self.tracking[commit.tracking.application_name] = commit.tracking.notification_id
            for write in commit.rows:
                write()
        self.commits.clear()


class MemoryRecorder:
    """What all recorders share: the tables."""

    def __init__(self, tables: Tables | None = None) -> None:
        self.tables = tables or Tables()

    def close(self) -> None:
        """Nothing to let go of."""


class MemoryAggregateRecorder(MemoryRecorder, AggregateRecorder):
    """Events of streams, without positions."""

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        with self.tables as tables:
            tables.publish(Commit(tuple(stored_events)))
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        with self.tables as tables:
            stream = str(originator_id)
            versions = tables.versions.get(stream, [])
            begin = 0 if gt is None else bisect_right(versions, gt)
            end = len(versions) if lte is None else bisect_right(versions, lte)
            chosen = range(begin, end)
            ordered: Iterable[int] = reversed(chosen) if desc else chosen
            events = tables.streams.get(stream, {})
            found: list[StoredEvent] = []
            for i in ordered:
                if limit is not None and len(found) >= limit:
                    break
                found.append(events[versions[i]])
            return found


class MemoryApplicationRecorder(MemoryAggregateRecorder, ApplicationRecorder):
    """Events with their positions in the whole journal."""

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        with self.tables as tables:
            return tables.publish(Commit(tuple(stored_events)))

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        first = max(1, (start or 0) if inclusive_of_start else (start or 0) + 1)
        found: list[Notification] = []
        with self.tables as tables:
            last = len(tables.log) if stop is None else min(stop, len(tables.log))
            for position in range(first, last + 1):
                if len(found) >= limit:
                    break
                e = tables.log[position - 1]
                if e is not None and (not topics or e.topic in topics):
                    found.append(Notification(**e.__dict__, id=position))
        return found

    def max_notification_id(self) -> int | None:
        with self.tables as tables:
            return len(tables.log) or None

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        return PollingSubscription(self, gt, topics)


class MemoryTrackingRecorder(MemoryRecorder, TrackingRecorder):
    """How far a projection of another application's journal has come."""

    def insert_tracking(self, tracking: Tracking) -> None:
        with self.tables as tables:
            tables.publish(Commit(tracking=tracking))

    def max_tracking_id(self, application_name: str) -> int | None:
        with self.tables as tables:
            return tables.tracking.get(application_name)


class MemoryProcessRecorder(MemoryTrackingRecorder, MemoryApplicationRecorder, ProcessRecorder):
    """Events and the tracking they come from, in one transaction."""

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        with self.tables as tables:
            return tables.publish(Commit(tuple(stored_events), kwargs.get("tracking")))


def library_event(event: Sequence[Any]) -> StoredEvent:
    """One of our sealed events as the library keeps it."""
    return StoredEvent(*event[:4])
