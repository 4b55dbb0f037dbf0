"""The memory store keeps the contract."""

from pathlib import Path

from runjournal.adapters.contract import (
    EpochContract,
    ExclusionContract,
    PruningContract,
    RunStoreContract,
)
from runjournal.adapters.memory.store import MemoryStore


class TestMemoryStore(RunStoreContract, PruningContract, ExclusionContract, EpochContract):
    def make_store(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore()
