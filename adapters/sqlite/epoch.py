"""The token epoch of a journal in a SQLite file."""

from __future__ import annotations

import sqlite3

from ...domain.errors import RunStoreError
from ...domain.ports import StoredEvent
from . import statements as sql
from .recorder import SQLiteRecorder
from .shapes import Shape

_EPOCH = Shape("epoch INTEGER")


class SQLiteEpoch(SQLiteRecorder):
    """What SQLiteStore does for tokens that outlive a restore."""

    #: As last read; None before the first time.
    _epoch: int | None = None

    @property
    def epoch(self) -> int:
        return self.read_epoch() if self._epoch is None else self._epoch

    def read_epoch(self) -> int:
        with self.database.reading() as conn:
            self._epoch = epoch_of(conn)
        return self._epoch

    def raise_epoch(self, epoch: int, event: StoredEvent, pass_over: int) -> bool:
        try:
            with self.database.writing() as conn:
                if conn.execute(sql.RAISE_EPOCH, (epoch,)).rowcount != 1:
                    return False
                conn.execute(sql.INSERT_FAR_AHEAD, (pass_over, *event))
        except RunStoreError as e:
            if isinstance(e.__cause__, sqlite3.IntegrityError):
                return False  # the stream is past its version
            raise
        self._epoch = epoch
        return True


def epoch_of(conn: sqlite3.Connection) -> int:
    """The epoch as stored."""
    row = conn.execute(sql.TOKEN_EPOCH).fetchone() or (None,)
    (epoch,) = _EPOCH.check(row, "the table token_epoch")
    return int(epoch)
