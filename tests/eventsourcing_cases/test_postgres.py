"""The eventsourcing library's own test cases on the recorders on a Postgres schema.

Stream names are text here, as in every journal. What of the library is kept, and what is not, is
told in docs/eventsourcing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from eventsourcing.persistence import AggregateRecorder, ApplicationRecorder
from eventsourcing.tests import persistence as cases
from eventsourcing.utils import Environment
from runjournal.adapters.postgres.database import Database
from runjournal.adapters.postgres.factory import PostgresFactory
from runjournal.adapters.postgres.recorder import (
    PostgresAggregateRecorder,
    PostgresApplicationRecorder,
    PostgresProcessRecorder,
    PostgresTrackingRecorder,
)
from runjournal.adapters.postgres.store import PostgresStore


class TextIds:
    """Originator ids are text."""

    def new_originator_id(self) -> str:
        return str(uuid4())


class OneDatabase:
    """A database of its own for each test, closed at the end."""

    url: str
    database: Database

    @pytest.fixture(autouse=True)
    def open_database(self, postgres_url: str) -> Iterator[None]:
        self.url = postgres_url
        self.database = Database(postgres_url)
        yield
        self.database.close()


class TestAggregateRecorder(TextIds, OneDatabase, cases.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return PostgresAggregateRecorder(self.database)


class TestSnapshotRecorder(TextIds, OneDatabase, cases.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return PostgresAggregateRecorder(self.database, "snapshots")


class TestApplicationRecorder(TextIds, OneDatabase, cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApplicationRecorder:
        return PostgresApplicationRecorder(self.database)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestTrackingRecorder(OneDatabase, cases.TrackingRecorderTestCase):
    def create_recorder(self) -> PostgresTrackingRecorder:
        return PostgresTrackingRecorder(self.database)


class TestProcessRecorder(TextIds, OneDatabase, cases.ProcessRecorderTestCase):
    def create_recorder(self) -> PostgresProcessRecorder:
        return PostgresProcessRecorder(self.database)


class TestStoreAsProcessRecorder(TextIds, OneDatabase, cases.ProcessRecorderTestCase):
    """The store itself climbs the same ladder: a journal's own recorder is this one."""

    def create_recorder(self) -> PostgresProcessRecorder:
        return PostgresStore(self.database)


class TestStoreAsApplicationRecorder(TextIds, OneDatabase, cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApplicationRecorder:
        return PostgresStore(self.database)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class OwnTrackingRecorder(PostgresTrackingRecorder):
    """A host's own kind of tracking recorder."""


class TestFactory(OneDatabase, cases.InfrastructureFactoryTestCase[PostgresFactory]):
    def setUp(self) -> None:
        self.env = Environment()
        self.env["PERSISTENCE_MODULE"] = PostgresFactory.__module__
        self.env["ORIGINATOR_ID_TYPE"] = "text"
        self.env["POSTGRES_DSN"] = self.url
        super().setUp()

    def expected_factory_class(self) -> type[PostgresFactory]:
        return PostgresFactory

    def expected_aggregate_recorder_class(self) -> type[PostgresAggregateRecorder]:
        return PostgresAggregateRecorder

    def expected_application_recorder_class(self) -> type[PostgresApplicationRecorder]:
        return PostgresApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[PostgresTrackingRecorder]:
        return PostgresTrackingRecorder

    def tracking_recorder_subclass(self) -> type[PostgresTrackingRecorder]:
        return OwnTrackingRecorder

    def expected_process_recorder_class(self) -> type[PostgresProcessRecorder]:
        return PostgresProcessRecorder
