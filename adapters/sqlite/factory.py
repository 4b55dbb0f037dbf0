"""The eventsourcing library's infrastructure factory for a SQLite file."""

from __future__ import annotations

from eventsourcing.persistence import InfrastructureFactory
from eventsourcing.utils import Environment, EnvType, resolve_topic

from .database import Database
from .recorder import (
    SQLiteAggregateRecorder,
    SQLiteApplicationRecorder,
    SQLiteProcessRecorder,
    SQLiteTrackingRecorder,
)


class SQLiteFactory(InfrastructureFactory[SQLiteTrackingRecorder]):
    """Recorders that share the file named by SQLITE_DBNAME."""

    SQLITE_DBNAME = "SQLITE_DBNAME"

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        path = self.env.get(self.SQLITE_DBNAME)
        if not path:
            raise OSError(f"{self.SQLITE_DBNAME} names no file")
        self.database = Database(path)

    def aggregate_recorder(self, purpose: str = "events") -> SQLiteAggregateRecorder:
        return SQLiteAggregateRecorder(self.database, table=purpose)

    def application_recorder(self) -> SQLiteApplicationRecorder:
        return SQLiteApplicationRecorder(self.database)

    def tracking_recorder(
        self, tracking_recorder_class: type[SQLiteTrackingRecorder] | None = None
    ) -> SQLiteTrackingRecorder:
        topic = self.env.get(self.TRACKING_RECORDER_TOPIC)
        named = resolve_topic(topic) if topic else SQLiteTrackingRecorder
        recorder: SQLiteTrackingRecorder = (tracking_recorder_class or named)(self.database)
        return recorder

    def process_recorder(self) -> SQLiteProcessRecorder:
        return SQLiteProcessRecorder(self.database)

    def close(self) -> None:
        self.database.close()


Factory = SQLiteFactory
