"""The eventsourcing library's infrastructure factory for Postgres."""

from __future__ import annotations

from eventsourcing.persistence import InfrastructureFactory
from eventsourcing.utils import Environment, EnvType, resolve_topic

from .database import Database
from .recorder import (
    PostgresAggregateRecorder,
    PostgresApplicationRecorder,
    PostgresProcessRecorder,
    PostgresTrackingRecorder,
)


class PostgresFactory(InfrastructureFactory[PostgresTrackingRecorder]):
    """Recorders that share the connections to POSTGRES_DSN, in POSTGRES_SCHEMA."""

    POSTGRES_DSN = "POSTGRES_DSN"
    POSTGRES_SCHEMA = "POSTGRES_SCHEMA"

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        dsn = self.env.get(self.POSTGRES_DSN)
        if not dsn:
            raise OSError(f"{self.POSTGRES_DSN} names no database")
        self.database = Database(dsn, self.env.get(self.POSTGRES_SCHEMA) or "public")

    def aggregate_recorder(self, purpose: str = "events") -> PostgresAggregateRecorder:
        return PostgresAggregateRecorder(self.database, table=purpose)

    def application_recorder(self) -> PostgresApplicationRecorder:
        return PostgresApplicationRecorder(self.database)

    def tracking_recorder(
        self, tracking_recorder_class: type[PostgresTrackingRecorder] | None = None
    ) -> PostgresTrackingRecorder:
        topic = self.env.get(self.TRACKING_RECORDER_TOPIC)
        named = resolve_topic(topic) if topic else PostgresTrackingRecorder
        recorder: PostgresTrackingRecorder = (tracking_recorder_class or named)(self.database)
        return recorder

    def process_recorder(self) -> PostgresProcessRecorder:
        return PostgresProcessRecorder(self.database)

    def close(self) -> None:
        self.database.close()


Factory = PostgresFactory
