"""A store that a stranger wrote, with the public face only, keeps the contract."""

from __future__ import annotations

import ast
import sqlite3
from contextlib import closing
from pathlib import Path

from runjournal.adapters.contract import PersistenceContract, RunStoreContract

from .blob_store import BlobStore

FILE = Path(__file__).with_name("blob_store.py")
PUBLIC = {"runjournal", "runjournal.domain", "runjournal.adapters.contract"}


class TestBlobStore(RunStoreContract, PersistenceContract):
    def make_store(self, tmp_path: Path) -> BlobStore:
        return BlobStore(tmp_path / "blobs.db")

    def reopen(self, store: BlobStore) -> BlobStore:
        return BlobStore(store.path)

    def spoil(self, store: BlobStore, run_id: str) -> None:
        spoil(store, f"run\x1f{run_id}")

    def spoil_delivery(self, store: BlobStore, invocation_id: str) -> None:
        spoil(store, f"delivery\x1f{invocation_id}")


def spoil(store: BlobStore, key: str) -> None:
    with closing(sqlite3.connect(store.path)) as conn, conn:
        conn.execute("UPDATE blobs SET value = x'ff' WHERE key = ?", (key.encode(),))


def test_it_imports_the_public_face_only() -> None:
    tree = ast.parse(FILE.read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {m for m in modules if m and m.startswith("runjournal")} <= PUBLIC


def test_it_is_small() -> None:
    lines = [line for line in FILE.read_text().splitlines() if line.strip()]
    assert len(lines) <= 60


def test_the_page_shows_this_very_file() -> None:
    page = FILE.parents[2] / "docs" / "writing-a-backend.md"
    assert FILE.read_text() in page.read_text()
