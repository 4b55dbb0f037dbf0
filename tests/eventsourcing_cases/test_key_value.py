"""The eventsourcing library's own test cases on a KeyValueStore."""

from __future__ import annotations

import tempfile
from pathlib import Path

from eventsourcing.persistence import ApplicationRecorder, ProcessRecorder
from eventsourcing.tests import persistence as cases

from ..strangers.blob_store import BlobStore
from .test_memory import TextIds


def make_store(case: cases.TestCase) -> BlobStore:
    folder = tempfile.TemporaryDirectory()
    case.addCleanup(folder.cleanup)
    return BlobStore(Path(folder.name) / "blobs.db")


class TestProcessRecorder(TextIds, cases.ProcessRecorderTestCase):
    def create_recorder(self) -> ProcessRecorder:
        return make_store(self)


class TestApplicationRecorder(TextIds, cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApplicationRecorder:
        return make_store(self)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()
