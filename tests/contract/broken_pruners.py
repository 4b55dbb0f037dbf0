"""Stores that prune wrongly in one way each. `test_contract_catches` shows that it is noticed.

Not collected by itself: these classes are meant to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from runjournal import RunRecord
from runjournal.adapters.contract import PruningContract
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain.events import RUN_STREAM
from runjournal.domain.prune_store import Burial, Burying
from runjournal.domain.pruning import Ended
from runjournal.domain.tombstone import Tombstone

from .enrolling import enrol


class JudgesByAge(MemoryStore):
    """Takes the time at which a run was created for the one at which it ended."""

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        records = [row.record for row in self.rows.values() if row.record.is_terminal]
        old = [r for r in records if r.created_at < before]
        found = self._facts(sorted(old, key=lambda r: (r.created_at, r.run_id.encode())))
        return [e for e in found if after is None or e.run_id.encode() > after[1].encode()][:limit]


class OverlooksChildren(MemoryStore):
    """Knows of no child."""

    def _facts(self, records: Sequence[RunRecord]) -> list[Ended]:
        return [e._replace(live_child=None) for e in super()._facts(records)]


class TellsThePlaceOfTheRunAlone(MemoryStore):
    """Leaves the delivery's events out of a run's last position."""

    def _facts(self, records: Sequence[RunRecord]) -> list[Ended]:
        found = super()._facts(records)
        first = {str(e.originator_id): n for n, e in enumerate(self.tables.log) if e is not None}
        return [e._replace(position=first[f"run/{e.run_id}"] + 1) for e in found]


class LeavesDeliveries(MemoryStore):
    """Removes the run and not its delivery."""

    def _remove(self, streams: set[str]) -> None:
        super()._remove({s for s in streams if s.startswith(RUN_STREAM)})


class LeavesEvents(MemoryStore):
    """Removes rows and not events."""

    def _remove(self, streams: set[str]) -> None:
        for stream in streams:
            self.rows.pop(stream.removeprefix(RUN_STREAM), None)


class ForgetsThePruned(MemoryStore):
    """Lets a pruned id be used again."""

    def buried(self, run_id: str) -> RunRecord | None:
        return None


class OverlooksTheAuditVersion(MemoryStore):
    """Prunes although somebody else wrote to the audit log first."""

    def prune(self, run_ids: Sequence[str], bury: Burying) -> bool:
        return super().prune(run_ids, bury) or self._prune_anyhow(run_ids, bury)

    def _prune_anyhow(self, run_ids: Sequence[str], bury: Burying) -> bool:
        def later(ended: Sequence[Ended]) -> Burial | None:
            found = bury(ended)
            last = len(self.tables.streams["journal/audit"])
            return found and found._replace(audit=found.audit._replace(version=last + 1))

        return super().prune(run_ids, later)


class HandsOutPositionsAgain(MemoryStore):
    """Closes the holes that removed events leave."""

    def _remove(self, streams: set[str]) -> None:
        super()._remove(streams)
        self.tables.log[:] = [e for e in self.tables.log if e is not None]


class ListsTombstonesByStream(MemoryStore):
    """Pages by the stream's name alone."""

    def tombstones(self, after: tuple[int, str], limit: int) -> list[Tombstone]:
        named = sorted(self.graves.values(), key=lambda t: t.stream.encode())
        return [t for t in named if t.stream.encode() > after[1].encode()][:limit]


class TellsTheFirstTombstone(MemoryStore):
    """Answers with the oldest tombstone of a stream."""

    def tombstones_of(self, streams: Sequence[str]) -> dict[str, Tombstone]:
        return {
            t.stream: t for _, t in sorted(self.graves.items(), reverse=True) if t.stream in streams
        }


class LetsAnyRunBack(MemoryStore):
    """Publishes whatever comes under a pruned id."""

    def buried_other(self, stream: str, record: RunRecord) -> bool:
        return False


class EndsAtTheCut(MemoryStore):
    """Takes what ended at the cut for what ended before it."""

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        return super().ended(before + timedelta(microseconds=1), after, limit)


class PagesByTimeAlone(MemoryStore):
    """Goes on behind all that ended at the same time."""

    def ended(
        self, before: datetime, after: tuple[datetime, str] | None, limit: int
    ) -> list[Ended]:
        place = after and (after[0], chr(0x10FFFF))
        return super().ended(before, place, limit)


class RemovesWhatStays(MemoryStore):
    """Removes what it was asked about, also where nothing is buried."""

    def prune(self, run_ids: Sequence[str], bury: Burying) -> bool:
        asked: list[Ended] = []

        def noting(ended: Sequence[Ended]) -> Burial | None:
            asked.extend(ended)
            return bury(ended)

        done = super().prune(run_ids, noting)
        self._remove({f"run/{e.run_id}" for e in asked})
        return done


class LeavesNoTombstone(MemoryStore):
    """Removes runs as if they had never been."""

    def _graves(self, tombstones: Sequence[Tombstone]) -> list[Callable[[], None]]:
        return []


class BrokenContract(PruningContract):
    """The contract on one of the stores above."""

    store_class: ClassVar[type[MemoryStore]] = MemoryStore

    def make_store(self, tmp_path: Path) -> Any:
        return self.store_class()


class TestMemoryStore(BrokenContract):
    """On a store that breaks nothing."""


enrol(globals(), BrokenContract, MemoryStore)
