"""A KeyValueStore on a dictionary: what reaches no further than its process."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from runjournal import KeyValueStore, RunStoreError


class MapSpace:
    """One transaction on the dictionary."""

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.before: dict[str, bytes | None] = {}

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def put(self, key: str, value: bytes | None) -> None:
        self.before.setdefault(key, self.values.get(key))
        _put(self.values, key, value)

    def scan(self, after: str, before: str) -> Iterator[tuple[str, bytes]]:
        keys = sorted(self.values)
        for key in keys[bisect_right(keys, after) :]:
            if key >= before:
                return
            if key in self.values:
                yield key, self.values[key]


class MapStore(KeyValueStore):
    """Runs in a dictionary, as keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, bytes] = {}
        self.lock = RLock()
        self.closed = False

    @contextmanager
    def transaction(self) -> Iterator[MapSpace]:
        if self.closed:
            raise RunStoreError("RUN_VALIDATION_ERROR", "closed", "the map is closed")
        with self.lock:
            space = MapSpace(self.values)
            try:
                yield space
            except BaseException:
                for key, value in space.before.items():
                    _put(self.values, key, value)
                raise

    def close(self) -> None:
        self.closed = True


def _put(values: dict[str, bytes], key: str, value: bytes | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
