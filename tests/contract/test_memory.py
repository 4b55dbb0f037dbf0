"""The memory store keeps the contract."""

from pathlib import Path

from runjournal.adapters.contract import ExclusionContract, PruningContract, RunStoreContract
from runjournal.adapters.memory.store import MemoryStore


class TestMemoryStore(RunStoreContract, PruningContract, ExclusionContract):
    def make_store(self, tmp_path: Path) -> MemoryStore:
        return MemoryStore()
