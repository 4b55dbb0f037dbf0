"""The SQLite store keeps the contract."""

import sqlite3
from contextlib import closing
from pathlib import Path

from runjournal import KeyRing
from runjournal.adapters.contract import (
    FarEpochContract,
    FarExclusionContract,
    PersistenceContract,
    PruningContract,
    RunStoreContract,
)
from runjournal.adapters.sqlite.store import SQLiteStore

from ..receivers import spoil_row


class TestSQLiteStore(
    RunStoreContract, PersistenceContract, PruningContract, FarExclusionContract, FarEpochContract
):
    def make_store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "runs.db")

    def reopen(self, store: SQLiteStore) -> SQLiteStore:
        return SQLiteStore(store.database.path)

    def spoil(self, store: SQLiteStore, run_id: str) -> None:
        with closing(sqlite3.connect(store.database.path)) as conn, conn:
            conn.execute("UPDATE runs SET body = x'ff' WHERE run_id = ?", (run_id,))

    def spoil_delivery(self, store: SQLiteStore, invocation_id: str) -> None:
        spoil_row(f"sqlite:///{store.database.path}", invocation_id)


class TestEncryptedSQLiteStore(RunStoreContract, PersistenceContract):
    """The rows encrypted; events are bytes to a store, whoever made them."""

    ring = KeyRing({"key": b"k" * 32})

    def make_store(self, tmp_path: Path) -> SQLiteStore:
        return SQLiteStore(tmp_path / "runs.db", cipher=self.ring)

    def reopen(self, store: SQLiteStore) -> SQLiteStore:
        return SQLiteStore(store.database.path, cipher=self.ring)

    def spoil(self, store: SQLiteStore, run_id: str) -> None:
        with closing(sqlite3.connect(store.database.path)) as conn, conn:
            longer = "UPDATE runs SET body = CAST(body || x'00' AS BLOB) WHERE run_id = ?"
            conn.execute(longer, (run_id,))

    def spoil_delivery(self, store: SQLiteStore, invocation_id: str) -> None:
        spoil_row(f"sqlite:///{store.database.path}", invocation_id)
