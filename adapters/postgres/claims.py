"""Claims in Postgres: the longest due runs, granted to whoever asks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...domain.errors import RUN_OUTCOME_UNKNOWN, RunStoreError
from ...domain.ports import (
    SETS_ASIDE,
    Change,
    Granted,
    Granting,
    Reply,
)
from ...domain.record import RunRecord
from ...domain.unsettled import SETTLE_TRIES
from ..rows import record_of
from . import statements as sql
from .horizon import Horizon, Probe
from .runs import PostgresRuns
from .session import Session
from .writes import grant_command


class PostgresClaims(PostgresRuns):
    """What PostgresStore does when anybody asks for any run that is due."""

    horizon: Horizon

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        granted: list[Granted] = []
        for probe in self.horizon.probes(whole_only=now is not None):
            wanted = self._kinds(probe) if kinds is None else kinds
            while wanted and len(granted) < limit:
                attempted: list[Change] = []
                try:
                    found, taken, lost = self._claim(
                        wanted, limit - len(granted), grant, now, probe, attempted
                    )
                except RunStoreError as e:
                    if e.code != RUN_OUTCOME_UNKNOWN:
                        raise
                    return granted + self._settled(attempted, now)
                granted += taken
                # Only runs that were set aside or ended make another look worth while.
                if found == len(taken):
                    break
                if lost and not self.may_look_again(granted):
                    return granted
            if len(granted) >= limit:
                break
        return granted

    def _kinds(self, probe: Probe) -> Sequence[str]:
        """The kinds with anything to claim: as last seen, or looked up for a whole probe."""
        if probe.whole:
            self.horizon.kinds = [k for (k,) in self.database.read(sql.CLAIMABLE_KINDS)]
        return self.horizon.kinds

    def _claim(
        self,
        kinds: Sequence[str],
        limit: int,
        grant: Granting,
        now: datetime | None,
        probe: Probe,
        attempted: list[Change],
    ) -> tuple[int, list[Granted], bool]:
        """Two trips: lock the longest due runs of each kind; write the grants and commit.

        How many were found, what was granted, and whether a guard was lost.
        """

        def work(session: Session) -> tuple[int, list[Granted], bool]:
            probes = [(sql.DUE, (kind, now, limit, probe.since(kind))) for kind in kinds]
            _, *found = session.run_batch((sql.BEGIN, ()), *probes)
            for kind, rows in zip(kinds, found, strict=True):
                self.horizon.seen(kind, rows[0][5] if rows else None)
            rows = sorted((r for rows in found for r in rows), key=lambda row: (row[5], row[0]))
            rows = rows[:limit]
            if not rows:
                session.run(sql.ROLLBACK)
                return 0, [], False
            decided = [self._granting(row, grant, now) for row in rows]
            # Only grants: whether a run was ended is for nobody here to know.
            attempted[:] = [
                d[0] for d in decided if not isinstance(d, RunStoreError) and _granted(d)
            ]
            commands = [
                (sql.SET_ASIDE, (row[0], outcome.message))
                if isinstance(outcome, RunStoreError)
                else grant_command(outcome, now, self.cipher)
                for row, outcome in zip(rows, decided, strict=True)
            ]
            *written, _ = session.run_batch(*commands, (sql.COMMIT, ()))
            taken = [
                Granted(record, self._reply(answer[0], record, now))
                for outcome, answer in zip(decided, written, strict=True)
                if answer and (record := _granted(outcome)) is not None
            ]
            lost = any(
                not answer and not isinstance(outcome, RunStoreError)
                for outcome, answer in zip(decided, written, strict=True)
            )
            return len(rows), taken, lost

        return self.database.transaction(work)

    def _settled(self, attempted: Sequence[Change], now: datetime | None) -> list[Granted]:
        """What a claim granted whose reply was lost: written once more, or found to be there.

        Writing it again waits for the old transaction if that is still open, and a lost version
        with our very event in its place shows that it had been committed.
        """
        return [g for change in attempted if (g := self._settle(change, now)) is not None]

    def _settle(self, change: Change, now: datetime | None) -> Granted | None:
        record = change.record
        assert isinstance(record, RunRecord)  # a grant is a run's
        for _ in range(SETTLE_TRIES):
            try:
                reply = self.append([change], None, now)
            except RunStoreError as e:
                if e.code != RUN_OUTCOME_UNKNOWN:
                    raise
                continue
            if reply is not None:
                return Granted(record, reply)
            written = self.read(change.stream, change.expected_version, 1)
            if not written or written[0].data != change.events[0].data:
                return None  # somebody else's
            stored, instant = self.get(record.run_id, now)
            if stored is None or stored.lease is None:
                return None
            return Granted(record, Reply(instant, stored.lease.expires_at, True))
        return None  # held by us, and nobody here knows: it expires

    def _granting(
        self, row: tuple[Any, ...], grant: Granting, now: datetime | None
    ) -> Sequence[Change] | RunStoreError:
        """The changes that grant or end a run, or why it has to be set aside."""
        *columns, server = row
        try:
            return grant(record_of(self.cipher, *columns), now or self._heard(server))
        except RunStoreError as e:
            if e.code not in SETS_ASIDE:
                raise
            return e


def _granted(decided: Sequence[Change] | RunStoreError) -> RunRecord | None:
    """The record of a run that is granted by this, and neither ended nor set aside."""
    record = None if isinstance(decided, RunStoreError) else decided[0].record
    return record if isinstance(record, RunRecord) and record.lease is not None else None
