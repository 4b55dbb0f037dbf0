"""The token epoch of a journal in Postgres, and the server that it grants on.

A replica that is promoted, a base backup that is brought forward to a point in time and a dump that
is restored may all lack the last facts. Each shows: the first two by another timeline, the last by
another table. Whoever grants asks for it in the same statement, so that nobody can miss it, through
a pooler either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from ...domain.errors import RUN_STORE_UNAVAILABLE, RunStoreError
from ...domain.ports import Granted, Guard, StoredEvent
from . import statements as sql
from .log_statements import INSERT_EVENTS
from .recorder import PostgresRecorder
from .session import Session


class PostgresEpoch(PostgresRecorder):
    """What PostgresStore does for tokens that outlive a restore."""

    #: As last read; None before the first time.
    _epoch: int | None = None

    @property
    def epoch(self) -> int:
        return self.read_epoch() if self._epoch is None else self._epoch

    def read_epoch(self) -> int:
        return self._look()[0]

    def after_lost_guard(self, record: Any, guard: Guard | None) -> None:
        """Find out whether the epoch or the place was why, where the write needed a new token."""
        if guard is not None and guard.lease == "live":
            return
        if record.lease is not None:
            self._check_place()
        elif record.is_terminal:
            self.read_epoch()

    def may_look_again(self, granted: Sequence[Granted]) -> bool:
        """After grants that were not written: whether deciding them again is worth while."""
        before = self._epoch
        try:
            self._check_place()
        except RunStoreError:
            if not granted:
                raise
            return False
        return self._epoch != before

    def _check_place(self) -> None:
        """Read the epoch; raise RUN_STORE_UNAVAILABLE / moved if nothing may be granted here."""
        epoch, moved = self._look()
        if moved:
            raise RunStoreError(
                RUN_STORE_UNAVAILABLE,
                "moved",
                f"schema {self.database.schema!r} is on another server, timeline or table than the "
                f"one it granted leases on (epoch {epoch}): it may have been put back",
            )

    def _look(self) -> tuple[int, bool]:
        ((epoch, moved),) = self.database.read(sql.TOKEN_EPOCH)
        self._epoch = epoch
        return epoch, moved

    def raise_epoch(self, epoch: int, event: StoredEvent, pass_over: int) -> bool:
        def work(session: Session) -> bool:
            session.run(sql.BEGIN)
            if not session.run(sql.RAISE_EPOCH, epoch):
                session.run(sql.ROLLBACK)
                return False
            session.run(sql.PASS_OVER, pass_over)
            session.run(INSERT_EVENTS, *([value] for value in event))
            session.run(sql.COMMIT)
            return True

        try:
            raised = self.database.transaction(work)
        except RunStoreError as e:
            if isinstance(e.__cause__, psycopg.errors.UniqueViolation):
                return False  # the stream is past its version
            raise
        if raised:
            self._epoch = epoch
        return raised
