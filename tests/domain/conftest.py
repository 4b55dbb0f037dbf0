"""What the tests of the rules share."""

from __future__ import annotations

import pytest
from runjournal.adapters.contract.between import LosesReplies
from runjournal.adapters.memory.store import MemoryStore

from .watched import Meanwhile, Watched


@pytest.fixture
def store() -> Watched:
    return Watched(MemoryStore())


@pytest.fixture
def losing(store: Watched) -> LosesReplies:
    return LosesReplies(store)


@pytest.fixture
def meanwhile(store: Watched) -> Meanwhile:
    return Meanwhile(store)
