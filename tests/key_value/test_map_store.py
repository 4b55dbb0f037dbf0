"""A KeyValueStore that reaches no further than its process keeps the contract, names included."""

from __future__ import annotations

from pathlib import Path

from runjournal.adapters.contract import (
    EpochContract,
    ExclusionContract,
    PruningContract,
    RunStoreContract,
)

from .map_store import MapStore


class TestMapStore(RunStoreContract, PruningContract, EpochContract, ExclusionContract):
    def make_store(self, tmp_path: Path) -> MapStore:
        return MapStore()
