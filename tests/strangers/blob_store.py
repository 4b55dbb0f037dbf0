# file: blob_store.py
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runjournal import KeyValueStore, RunStoreError, Space


class BlobSpace:
    """One transaction on the table."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn

    def get(self, key: str) -> bytes | None:
        found = self.conn.execute("SELECT value FROM blobs WHERE key = ?", (key.encode(),))
        row = found.fetchone()
        return None if row is None else bytes(row[0])

    def put(self, key: str, value: bytes | None) -> None:
        if value is None:
            self.conn.execute("DELETE FROM blobs WHERE key = ?", (key.encode(),))
        else:
            self.conn.execute("REPLACE INTO blobs VALUES (?, ?)", (key.encode(), value))

    def scan(self, after: str, before: str) -> Iterator[tuple[str, bytes]]:
        page = "SELECT * FROM blobs WHERE key > ? AND key < ? ORDER BY key LIMIT 100"
        at = after.encode()
        while rows := self.conn.execute(page, (at, before.encode())).fetchall():
            for at, value in rows:
                yield at.decode(), value


class BlobStore(KeyValueStore):
    """Runs in a SQLite file, as keys and values."""

    atomicity = "cross-process"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.closed = path, False
        with self.transaction():
            pass

    @contextmanager
    def transaction(self) -> Iterator[Space]:
        if self.closed:
            raise RunStoreError("RUN_VALIDATION_ERROR", "closed", f"{self.path} is closed")
        conn = sqlite3.connect(self.path, isolation_level=None, timeout=10)
        try:
            conn.execute("BEGIN IMMEDIATE")
            conn.execute("CREATE TABLE IF NOT EXISTS blobs (key PRIMARY KEY, value) WITHOUT ROWID")
            yield BlobSpace(conn)
            conn.execute("COMMIT")
        except sqlite3.Error as error:
            raise RunStoreError("RUN_STORE_UNAVAILABLE", "failed", str(error)) from error
        finally:
            conn.close()  # what was not committed is gone

    def close(self) -> None:
        self.closed = True
