"""The eventsourcing library's own test cases on the recorders on a SQLite file.

Stream names are text here, as in every journal. What of the library is kept, and what is not, is
told in docs/eventsourcing.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from eventsourcing.persistence import AggregateRecorder, ApplicationRecorder
from eventsourcing.tests import persistence as cases
from eventsourcing.utils import Environment
from runjournal.adapters.sqlite.database import Database
from runjournal.adapters.sqlite.factory import SQLiteFactory
from runjournal.adapters.sqlite.recorder import (
    SQLiteAggregateRecorder,
    SQLiteApplicationRecorder,
    SQLiteProcessRecorder,
    SQLiteTrackingRecorder,
)
from runjournal.adapters.sqlite.store import SQLiteStore


class TextIds:
    """Originator ids are text."""

    def new_originator_id(self) -> str:
        return str(uuid4())


class OneFile:
    """A database of its own for each test, closed at the end."""

    database: Database

    @pytest.fixture(autouse=True)
    def open_database(self, tmp_path: Path) -> Iterator[None]:
        self.database = Database(tmp_path / "recorder.db")
        yield
        self.database.close()


class TestAggregateRecorder(TextIds, OneFile, cases.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return SQLiteAggregateRecorder(self.database)


class TestSnapshotRecorder(TextIds, OneFile, cases.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return SQLiteAggregateRecorder(self.database, "snapshots")


class TestApplicationRecorder(TextIds, OneFile, cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApplicationRecorder:
        return SQLiteApplicationRecorder(self.database)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestTrackingRecorder(OneFile, cases.TrackingRecorderTestCase):
    def create_recorder(self) -> SQLiteTrackingRecorder:
        return SQLiteTrackingRecorder(self.database)


class TestProcessRecorder(TextIds, OneFile, cases.ProcessRecorderTestCase):
    def create_recorder(self) -> SQLiteProcessRecorder:
        return SQLiteProcessRecorder(self.database)


class TestNonInterleavingPositions(TextIds, OneFile, cases.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> ApplicationRecorder:
        return SQLiteApplicationRecorder(self.database)


class TestStoreAsProcessRecorder(TextIds, OneFile, cases.ProcessRecorderTestCase):
    """The store itself climbs the same ladder: a journal's own recorder is this one."""

    def create_recorder(self) -> SQLiteProcessRecorder:
        return SQLiteStore(self.database)


class TestStoreAsApplicationRecorder(TextIds, OneFile, cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApplicationRecorder:
        return SQLiteStore(self.database)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class OwnTrackingRecorder(SQLiteTrackingRecorder):
    """A host's own kind of tracking recorder."""


class TestFactory(OneFile, cases.InfrastructureFactoryTestCase[SQLiteFactory]):
    def setUp(self) -> None:
        self.env = Environment()
        self.env["PERSISTENCE_MODULE"] = SQLiteFactory.__module__
        self.env["ORIGINATOR_ID_TYPE"] = "text"
        self.env["SQLITE_DBNAME"] = str(self.database.path)
        super().setUp()

    def expected_factory_class(self) -> type[SQLiteFactory]:
        return SQLiteFactory

    def expected_aggregate_recorder_class(self) -> type[SQLiteAggregateRecorder]:
        return SQLiteAggregateRecorder

    def expected_application_recorder_class(self) -> type[SQLiteApplicationRecorder]:
        return SQLiteApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[SQLiteTrackingRecorder]:
        return SQLiteTrackingRecorder

    def tracking_recorder_subclass(self) -> type[SQLiteTrackingRecorder]:
        return OwnTrackingRecorder

    def expected_process_recorder_class(self) -> type[SQLiteProcessRecorder]:
        return SQLiteProcessRecorder
