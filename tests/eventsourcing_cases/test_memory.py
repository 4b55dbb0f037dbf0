"""The eventsourcing library's own test cases on the recorders in memory.

Stream names are text here, as in every journal. What of the library is kept, and what is not, is
told in docs/eventsourcing.md.
"""

from __future__ import annotations

from uuid import uuid4

from eventsourcing.persistence import AggregateRecorder, ApplicationRecorder
from eventsourcing.tests import persistence as cases
from eventsourcing.utils import Environment
from runjournal.adapters.memory.factory import MemoryFactory
from runjournal.adapters.memory.recorder import (
    MemoryAggregateRecorder,
    MemoryApplicationRecorder,
    MemoryProcessRecorder,
    MemoryTrackingRecorder,
)
from runjournal.adapters.memory.store import MemoryStore


class TextIds:
    """Originator ids are text."""

    def new_originator_id(self) -> str:
        return str(uuid4())


class TestAggregateRecorder(TextIds, cases.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return MemoryAggregateRecorder()


class TestSnapshotRecorder(TextIds, cases.AggregateRecorderTestCase):
    def create_recorder(self) -> AggregateRecorder:
        return MemoryFactory({}).aggregate_recorder("snapshots")


class TestApplicationRecorder(TextIds, cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApplicationRecorder:
        return MemoryApplicationRecorder()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestTrackingRecorder(cases.TrackingRecorderTestCase):
    def create_recorder(self) -> MemoryTrackingRecorder:
        return MemoryTrackingRecorder()


class TestProcessRecorder(TextIds, cases.ProcessRecorderTestCase):
    def create_recorder(self) -> MemoryProcessRecorder:
        return MemoryProcessRecorder()


class TestNonInterleavingPositions(TextIds, cases.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> ApplicationRecorder:
        return MemoryApplicationRecorder()


class TestStoreAsProcessRecorder(TextIds, cases.ProcessRecorderTestCase):
    """The store itself climbs the same ladder: a journal's own recorder is this one."""

    def create_recorder(self) -> MemoryProcessRecorder:
        return MemoryStore()


class TestStoreAsApplicationRecorder(TextIds, cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApplicationRecorder:
        return MemoryStore()

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class OwnTrackingRecorder(MemoryTrackingRecorder):
    """A host's own kind of tracking recorder."""


class TestFactory(cases.InfrastructureFactoryTestCase[MemoryFactory]):
    def setUp(self) -> None:
        self.env = Environment()
        self.env["PERSISTENCE_MODULE"] = MemoryFactory.__module__
        self.env["ORIGINATOR_ID_TYPE"] = "text"
        super().setUp()

    def expected_factory_class(self) -> type[MemoryFactory]:
        return MemoryFactory

    def expected_aggregate_recorder_class(self) -> type[MemoryAggregateRecorder]:
        return MemoryAggregateRecorder

    def expected_application_recorder_class(self) -> type[MemoryApplicationRecorder]:
        return MemoryApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[MemoryTrackingRecorder]:
        return MemoryTrackingRecorder

    def tracking_recorder_subclass(self) -> type[MemoryTrackingRecorder]:
        return OwnTrackingRecorder

    def expected_process_recorder_class(self) -> type[MemoryProcessRecorder]:
        return MemoryProcessRecorder
