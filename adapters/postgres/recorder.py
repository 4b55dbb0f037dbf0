"""The eventsourcing library's recorders on one Postgres schema.

They serve the library's contract and host extensions; the journal's own appends go through
`PostgresStore.append`, which also writes the record. No table lock anywhere: what the library's own
recorder gets from one, the reader gets from GapWatch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
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

from ...domain.errors import RunStoreError
from ..subscription import PollingSubscription
from . import log_statements as log
from .database import Database
from .gaps import GapWatch
from .session import Session
from .statements import BEGIN, COMMIT

_NO_BOUND = 2**62
_TABLES = {
    "events": (log.INSERT_EVENTS, log.SELECT_EVENTS),
    "snapshots": (log.INSERT_SNAPSHOTS, log.SELECT_SNAPSHOTS),
}


class PostgresRecorder:
    """What all recorders share: the connections."""

    def __init__(self, database: Database | str) -> None:
        self.database = database if isinstance(database, Database) else Database(database)

    def close(self) -> None:
        self.database.close()


class PostgresAggregateRecorder(PostgresRecorder, AggregateRecorder):
    """Events of streams, without positions."""

    def __init__(self, database: Database | str, table: str = "events") -> None:
        super().__init__(database)
        if table not in _TABLES:
            raise ValueError(f"no table for {table!r}: there are {sorted(_TABLES)}")
        self._insert, self._select = _TABLES[table]

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        if stored_events:
            self._write(lambda session: self._insert_events(session, stored_events))
        return None

    def _write(self, work: Any) -> Any:
        try:
            return self.database.transaction(work)
        except RunStoreError as e:
            if isinstance(e.__cause__, psycopg.errors.UniqueViolation):
                raise IntegrityError(str(e.__cause__)) from e
            raise

    def _insert_events(self, session: Session, events: Sequence[StoredEvent]) -> list[int]:
        rows = session.run(
            self._insert,
            [str(e.originator_id) for e in events],
            [e.originator_version for e in events],
            [e.topic for e in events],
            [e.state for e in events],
        )
        return [position for (position,) in rows]

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        rows = self.database.read(
            self._select,
            str(originator_id),
            -_NO_BOUND if gt is None else gt,
            _NO_BOUND if lte is None else lte,
            _NO_BOUND if limit is None else limit,
            desc,
        )
        return [StoredEvent(*row) for row in rows]


class PostgresApplicationRecorder(PostgresAggregateRecorder, ApplicationRecorder):
    """Events with their positions in the whole journal."""

    def __init__(self, database: Database | str) -> None:
        super().__init__(database)
        self.gaps = GapWatch(self.database)

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        if not stored_events:
            return []
        positions: list[int] = self._write(
            lambda session: self._insert_events(session, stored_events)
        )
        return positions

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        first = (start or 0) if inclusive_of_start else (start or 0) + 1
        # The topics are filtered after the gaps are judged: a hole has no topic yet.
        last = self.gaps.limit()
        last = last if stop is None else min(last, stop)
        rows = self.database.read(log.NOTIFICATIONS, first, last, list(topics) or None, limit)
        return [
            Notification(
                id=position,
                originator_id=stream,
                originator_version=version,
                topic=topic,
                state=state,
            )
            for position, stream, version, topic, state in rows
        ]

    def max_notification_id(self) -> int | None:
        return self.gaps.limit() or None

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        return PollingSubscription(self, gt, topics)


class PostgresTrackingRecorder(PostgresRecorder, TrackingRecorder):
    """How far a projection of another application's journal has come."""

    def insert_tracking(self, tracking: Tracking) -> None:
        self.database.transaction(lambda session: self._insert_tracking(session, tracking))

    def _insert_tracking(self, session: Session, tracking: Tracking) -> None:
        row = (tracking.application_name, tracking.notification_id)
        if not session.run(log.INSERT_TRACKING, *row):
            raise IntegrityError(
                f"{tracking.application_name} is already at or past {tracking.notification_id}"
            )

    def max_tracking_id(self, application_name: str) -> int | None:
        rows = self.database.read(log.MAX_TRACKING, application_name)
        return rows[0][0] if rows else None


class PostgresProcessRecorder(
    PostgresTrackingRecorder, PostgresApplicationRecorder, ProcessRecorder
):
    """Events and the tracking they come from, in one transaction."""

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        tracking: Tracking | None = kwargs.get("tracking")
        if tracking is None:
            return super().insert_events(stored_events)
        positions: list[int] = self._write(
            lambda session: self._insert_tracked(session, stored_events, tracking)
        )
        return positions

    def _insert_tracked(
        self, session: Session, events: Sequence[StoredEvent], tracking: Tracking
    ) -> list[int]:
        session.run(BEGIN)
        positions = self._insert_events(session, events) if events else []
        self._insert_tracking(session, tracking)
        session.run(COMMIT)
        return positions
