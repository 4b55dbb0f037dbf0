"""The eventsourcing library's recorders on one SQLite file.

They serve the library's contract and host extensions; the journal's own appends go through
`SQLiteStore.append`, which also writes the record.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any
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
from .database import Database
from .records import event_of
from .shapes import Shape
from .statements import INSERT_EVENT

_TABLES = {"events", "snapshots"}
_TRACKING = Shape("notification_id INTEGER")
#: One bound above all versions and positions stands for "no bound", and -1 for "no limit".
_NO_BOUND = 2**63 - 1

_INSERT_TRACKING = (
    "INSERT INTO tracking (application_name, notification_id) VALUES (?, ?)"
    " ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id"
    " WHERE notification_id < excluded.notification_id"
)


class SQLiteRecorder:
    """What all recorders share: the file's database."""

    def __init__(self, database: Database | str | Path) -> None:
        self.database = database if isinstance(database, Database) else Database(database)

    def close(self) -> None:
        self.database.close()


class SQLiteAggregateRecorder(SQLiteRecorder, AggregateRecorder):
    """Events of streams, without positions."""

    def __init__(self, database: Database | str | Path, table: str = "events") -> None:
        super().__init__(database)
        if table not in _TABLES:
            raise ValueError(f"no table for {table!r}: there are {sorted(_TABLES)}")
        columns = "(stream, version, topic, state) VALUES (?, ?, ?, ?)"
        self._insert = f"INSERT INTO {table} {columns}"  # the name is from _TABLES
        self._select = (
            f"SELECT stream, version, topic, state FROM {table}"  # likewise
            " WHERE stream = ? AND version > ? AND version <= ? ORDER BY version"
        )

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        with self.database.writing() as conn:
            self._insert_events(conn, stored_events)
        return None

    def _insert_events(
        self, conn: sqlite3.Connection, stored_events: Sequence[StoredEvent]
    ) -> list[int]:
        positions = []
        try:
            for e in stored_events:
                row = (str(e.originator_id), e.originator_version, e.topic, e.state)
                positions.append(conn.execute(self._insert, row).lastrowid or 0)
        except sqlite3.IntegrityError as error:
            raise IntegrityError(str(error)) from error
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
        statement = self._select + (" DESC LIMIT ?" if desc else " LIMIT ?")
        bounds = (-_NO_BOUND if gt is None else gt, _NO_BOUND if lte is None else lte)
        with self.database.reading() as conn:
            rows = conn.execute(
                statement, (str(originator_id), *bounds, -1 if limit is None else limit)
            ).fetchall()
        return [StoredEvent(*event_of(row)) for row in rows]


class SQLiteApplicationRecorder(SQLiteAggregateRecorder, ApplicationRecorder):
    """Events with their positions in the whole journal."""

    def __init__(self, database: Database | str | Path) -> None:
        super().__init__(database)
        self._insert = INSERT_EVENT

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        with self.database.writing() as conn:
            return self._insert_events(conn, stored_events)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        # One writer at a time: positions are committed in order, so nothing can fill a gap later.
        first = (start or 0) if inclusive_of_start else (start or 0) + 1
        among = f" AND topic IN ({', '.join('?' * len(topics))})" if topics else ""
        statement = (
            "SELECT position, stream, version, topic, state FROM events"
            f" WHERE position >= ? AND position <= ?{among} ORDER BY position LIMIT ?"
        )
        bounds = (first, _NO_BOUND if stop is None else stop)
        with self.database.reading() as conn:
            rows = conn.execute(statement, (*bounds, *topics, limit)).fetchall()
        return [
            Notification(
                id=position,
                originator_id=event.stream,
                originator_version=event.version,
                topic=event.topic,
                state=event.data,
            )
            for position, *row in rows
            for event in (event_of(tuple(row)),)
        ]

    def max_notification_id(self) -> int | None:
        with self.database.reading() as conn:
            (position,) = conn.execute("SELECT max(position) FROM events").fetchone()
        return None if position is None else int(position)

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        return PollingSubscription(self, gt, topics)


class SQLiteTrackingRecorder(SQLiteRecorder, TrackingRecorder):
    """How far a projection of another application's journal has come."""

    def insert_tracking(self, tracking: Tracking) -> None:
        with self.database.writing() as conn:
            self._insert_tracking(conn, tracking)

    def _insert_tracking(self, conn: sqlite3.Connection, tracking: Tracking) -> None:
        row = (tracking.application_name, tracking.notification_id)
        if conn.execute(_INSERT_TRACKING, row).rowcount != 1:
            raise IntegrityError(
                f"{tracking.application_name} is already at or past {tracking.notification_id}"
            )

    def max_tracking_id(self, application_name: str) -> int | None:
        with self.database.reading() as conn:
            row = conn.execute(
                "SELECT notification_id FROM tracking WHERE application_name = ?",
                (application_name,),
            ).fetchone()
        if row is None:
            return None
        return int(_TRACKING.check(row, f"the tracking of {application_name!r}")[0])


class SQLiteProcessRecorder(SQLiteTrackingRecorder, SQLiteApplicationRecorder, ProcessRecorder):
    """Events and the tracking they come from, in one transaction."""

    def insert_events(
        self, stored_events: Sequence[StoredEvent], **kwargs: Any
    ) -> Sequence[int] | None:
        tracking: Tracking | None = kwargs.get("tracking")
        with self.database.writing() as conn:
            positions = self._insert_events(conn, stored_events)
            if tracking is not None:
                self._insert_tracking(conn, tracking)
        return positions
