"""The Postgres store keeps the contract, in both of its modes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from runjournal.adapters.contract import (
    FarEpochContract,
    FarExclusionContract,
    PersistenceContract,
    PruningContract,
    RunStoreContract,
)
from runjournal.adapters.contract.tools import refused
from runjournal.adapters.postgres.database import Database
from runjournal.adapters.postgres.store import PostgresStore

from ..receivers import spoil_row


class StoreOnPostgres(RunStoreContract, PersistenceContract, FarEpochContract):
    pooler = False

    @pytest.fixture(autouse=True)
    def _databases(self, new_postgres: Callable[[], str]) -> None:
        self.new_database = new_postgres
        self.urls: dict[int, str] = {}

    def make_store(self, tmp_path: Path) -> PostgresStore:
        return self.open(self.new_database())

    def open(self, url: str) -> PostgresStore:
        store = PostgresStore(Database(url, pooler=self.pooler))
        self.urls[id(store)] = url
        return store

    def reopen(self, store: PostgresStore) -> PostgresStore:
        return self.open(self.urls[id(store)])

    def spoil(self, store: PostgresStore, run_id: str) -> None:
        with psycopg.connect(self.urls[id(store)]) as conn:
            conn.execute("UPDATE runs SET body = '\\xff' WHERE run_id = %s", (run_id,))

    def spoil_delivery(self, store: PostgresStore, invocation_id: str) -> None:
        spoil_row(self.urls[id(store)], invocation_id)


class TestPostgresStore(StoreOnPostgres, PruningContract, FarExclusionContract):
    pass


class TestPostgresStoreBehindATransactionPooler(StoreOnPostgres):
    """Nothing that outlives a transaction is relied on: no prepared statements, no settings."""

    pooler = True

    def test_no_name_can_be_held(self, store: PostgresStore) -> None:
        with refused("RUN_VALIDATION_ERROR", "argument") as caught, store.exclusive("job"):
            pass
        assert "direct connection" in caught.value.message
