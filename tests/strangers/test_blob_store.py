"""A store that a stranger wrote with the public names only keeps the contract."""

from __future__ import annotations

from pathlib import Path

from runjournal.adapters.contract import (
    FarEpochContract,
    PersistenceContract,
    PruningContract,
    RunStoreContract,
)

from .blob_store import BlobStore


class TestBlobStore(RunStoreContract, PersistenceContract, PruningContract, FarEpochContract):
    def make_store(self, tmp_path: Path) -> BlobStore:
        return BlobStore(tmp_path / "blobs.db")

    def reopen(self, store: BlobStore) -> BlobStore:
        return BlobStore(store.path)

    def spoil(self, store: BlobStore, run_id: str) -> None:
        damage(store, f"run\x1f{run_id}")

    def spoil_delivery(self, store: BlobStore, invocation_id: str) -> None:
        damage(store, f"delivery\x1f{invocation_id}")


def damage(store: BlobStore, key: str) -> None:
    with store.transaction() as space:
        space.put(key, b"\xff")
