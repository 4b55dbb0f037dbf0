"""The stranger's store with one promise of docs/writing-a-backend.md broken in each class.

The contract must notice: `tests/contract` says which of its tests do. Not collected by itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any, ClassVar

from runjournal import RunStoreError, Space
from runjournal.adapters.contract import (
    FarExclusionContract,
)

from .blob_store import BlobSpace, BlobStore
from .test_blob_store import TestBlobStore


class KeepsWhatWasUndone(BlobStore):
    """Commits each write as it comes."""

    @contextmanager
    def transaction(self) -> Iterator[Space]:
        with super().transaction():
            pass  # the table is there
        with closing(sqlite3.connect(self.path, isolation_level=None, timeout=10)) as conn:
            yield BlobSpace(conn)


class SeesTheSamePast(BlobStore):
    """Lets two transactions that overlap both decide on what was there before either of them."""

    meeting = Barrier(2)

    @contextmanager
    def transaction(self) -> Iterator[Space]:
        with super().transaction() as space:
            overlay = Overlay(dict(space.scan("", "\U0010ffff")))
        yield overlay
        if not overlay.written:
            return
        with suppress(BrokenBarrierError):
            self.meeting.wait(timeout=1)
        self.meeting.reset()  # where nobody else was here
        with super().transaction() as space:
            for key, value in overlay.written.items():
                space.put(key, value)


class Overlay:
    """What a transaction reads and has not written yet."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.written: dict[str, bytes | None] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def put(self, key: str, value: bytes | None) -> None:
        self.written[key] = value
        self.values.pop(key, None)
        if value is not None:
            self.values[key] = value

    def scan(self, after: str, before: str) -> Iterator[tuple[str, bytes]]:
        yield from sorted(item for item in self.values.items() if after < item[0] < before)


class KeepsItsOwnFile(BlobStore):
    """Writes where no other store looks."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.with_name(f"{id(self)}-{path.name}"))


class ReadsByLength(BlobStore):
    """Scans the keys in an order of its own."""

    @contextmanager
    def transaction(self) -> Iterator[Space]:
        with super().transaction() as space:
            yield ByLength(space)


class ByLength:
    def __init__(self, space: Space) -> None:
        self.get, self.put, self._space = space.get, space.put, space

    def scan(self, after: str, before: str) -> Iterator[tuple[str, bytes]]:
        yield from sorted(self._space.scan(after, before), key=lambda item: len(item[0]))


class ScansFromTheKeyOn(BlobStore):
    """Begins a scan with the key that it is to go on behind."""

    @contextmanager
    def transaction(self) -> Iterator[Space]:
        with super().transaction() as space:
            yield FromTheKeyOn(space)


class FromTheKeyOn:
    def __init__(self, space: Space) -> None:
        self.get, self.put, self._space = space.get, space.put, space

    def scan(self, after: str, before: str) -> Iterator[tuple[str, bytes]]:
        first = self.get(after)
        if first is not None:
            yield after, first
        yield from self._space.scan(after, before)


class TakesDamagedForMissing(BlobStore):
    """Answers for what it cannot read as for what is not there."""

    def get(self, run_id: str, now: Any = None) -> Any:
        try:
            return super().get(run_id, now)
        except RunStoreError:
            return super().get("nobody", now)

    def get_delivery(self, invocation_id: str, now: Any = None) -> Any:
        try:
            return super().get_delivery(invocation_id, now)
        except RunStoreError:
            return super().get_delivery("nobody", now)


class RemembersTheEpoch(BlobStore):
    """Decides for ever by the epoch that it saw first."""

    first: int | None = None

    @property
    def epoch(self) -> int:
        if self.first is None:
            self.first = self.read_epoch()
        return self.first


class HoldsHereOnly(BlobStore):
    """Holds a name between its own threads, and says that it reaches further."""

    def exclusive(self, name: str) -> AbstractContextManager[Any]:
        self.atomicity = "process"
        return super().exclusive(name)


class HoldsOnceClosed(HoldsHereOnly):
    """Does not notice that it was closed."""

    def close(self) -> None:
        pass


class BrokenContract(FarExclusionContract, TestBlobStore):
    """The contract on one of the stores above."""

    store_class: ClassVar[type[BlobStore]]

    def make_store(self, tmp_path: Path) -> BlobStore:
        return self.store_class(tmp_path / "blobs.db")

    def reopen(self, store: BlobStore) -> BlobStore:
        return self.store_class(store.path)


def _contract(store_class: type[BlobStore]) -> type[BrokenContract]:
    name = f"Test{store_class.__name__}"
    return type(name, (BrokenContract,), {"store_class": store_class, "__module__": __name__})


BROKEN = [c for c in list(globals().values()) if isinstance(c, type) and issubclass(c, BlobStore)]
globals().update({f"Test{c.__name__}": _contract(c) for c in BROKEN})
