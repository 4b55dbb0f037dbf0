"""The eventsourcing library's process recorder over a Space: positions, and tracking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    Notification,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    Tracking,
)

from ..subscription import PollingSubscription
from .events import event_of, event_there, last_position, put_event
from .space import InSpace, Space, key_of, number_in, under


class KeyValueRecorder(InSpace, ProcessRecorder):
    """What KeyValueStore is for a host that uses that library, and for a Journal."""

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        tracking: Tracking | None = kwargs.get("tracking")
        positions = []
        with self._within() as space:
            for e in stored_events:
                stream, version = str(e.originator_id), e.originator_version
                if event_there(space, stream, version):
                    raise IntegrityError(f"event {version} of stream {stream!r} exists already")
                positions.append(put_event(space, (stream, version, e.topic, e.state)))
            if tracking is not None:
                _track(space, tracking)
        return positions

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        stream = str(originator_id)
        found: list[StoredEvent] = []
        with self._within() as space:
            after = None if gt is None else key_of("event", stream, max(0, gt))
            for parts, value in under(space, "event", stream, after=after):
                event = event_of(parts, value)
                if lte is not None and event.version > lte:
                    break
                if not desc and limit is not None and len(found) >= limit:
                    break
                found.append(StoredEvent(*event))
        return found[::-1][:limit] if desc else found

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        after = (start or 0) - (1 if inclusive_of_start and start else 0)
        found: list[Notification] = []
        with self._within() as space:
            for parts, place in under(space, "position", after=key_of("position", max(0, after))):
                position = int(parts[1])
                if len(found) >= limit or (stop is not None and position > stop):
                    break
                key = place.decode()
                value = space.get(key)
                assert value is not None  # it goes with its position
                event = event_of(key.split("\x1f"), value)
                if not topics or event.topic in topics:
                    found.append(Notification(*event, id=position))
        return found

    def max_notification_id(self) -> int | None:
        with self._within() as space:
            return last_position(space) or None

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        return PollingSubscription(self, gt, topics)

    def insert_tracking(self, tracking: Tracking) -> None:
        with self._within() as space:
            _track(space, tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        with self._within() as space:
            found = space.get(key_of("tracking", application_name))
            return None if found is None else int(found)


def _track(space: Space, tracking: Tracking) -> None:
    key = key_of("tracking", tracking.application_name)
    if number_in(space, "tracking", tracking.application_name) >= tracking.notification_id:
        raise IntegrityError(
            f"{tracking.application_name} is already at or past {tracking.notification_id}"
        )
    space.put(key, b"%d" % tracking.notification_id)
