"""Pruner: removes ended runs batch by batch, each batch in one transaction.

Runs are chosen without a lock, archived where that is asked for, and then decided on once more
under the lock of the transaction that removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ...domain.audit import RunsPruned
from ...domain.checks import refuse
from ...domain.delivery import delivery_stream
from ...domain.errors import RUN_INTEGRITY_ERROR, RUN_NOT_FOUND, RunStoreError
from ...domain.events import Event, run_stream
from ...domain.prune_store import Burial
from ...domain.pruning import Ended, Held, held_back
from ...domain.tombstone import Tombstone, digest_of, run_tombstone
from ...projections.verify import quiet
from ..audit import TRIES, AuditLog, contended
from ..clocks import RandomIds
from ..codec import OrjsonCodec
from ..transfer.lines import lines_of
from ..transfer.source import Source
from ..transfer.units import Unit
from .archive import Archive
from .result import Pruned, Wanted

#: Runs looked at in one reading.
PAGE = 200
#: Events removed in one transaction, unless a single run has more.
EVENTS_AT_ONCE = 20_000
#: Bytes of archived events kept in memory: a batch ends there.
BYTES_AT_ONCE = 16 << 20


class _Chosen(NamedTuple):
    """A run that may go: as it was read, its last event, and what is archived of it."""

    ended: Ended
    last: Event
    unit: Unit | None

    @property
    def events(self) -> int:
        """How many events go with it."""
        _, _, record, delivery, _, _ = self.ended
        return (record.version if record else 0) + (delivery.version if delivery else 0)

    @property
    def size(self) -> int:
        """The bytes that it keeps in memory until it is archived."""
        return sum(strand.size for strand in self.unit or ())


class _StaysError(Exception):
    """Ends the look at one run that is held back."""

    def __init__(self, held: Held) -> None:
        super().__init__(held)
        self.held = held


class Pruner:
    """Removes the runs that ended before a cut, the longest ended first.

    archive   where each batch is written before it is removed; None: nowhere
    readable  whether to hold back what could not be archived
    dry_run   choose only, and change nothing

    Raises RUN_VALIDATION_ERROR / argument for a projection that does not exist.
    """

    def __init__(
        self,
        store: Any,
        codec: OrjsonCodec,
        wanted: Wanted,
        *,
        readable: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._store = store
        self._codec = codec
        self._wanted = wanted
        self.archive: Archive | None = None
        self._readable = readable
        self._dry_run = dry_run
        self._source = Source(store, codec, quiet)
        self._command_id = RandomIds().new()
        self._after: tuple[datetime, str] | None = None
        self._done = False
        unknown = set(wanted.ignored) - {state.name for state in store.projection_states()}
        if unknown:
            raise refuse("argument", f"there is no projection {min(unknown)!r} to ignore")

    @property
    def torn(self) -> tuple[str, ...]:
        """What an earlier prune could not finish in the archive."""
        return self.archive.torn if self.archive is not None else ()

    def batch(self) -> Pruned:
        """Remove the next batch, at most `limit` runs; `done` when there are no more.

        Raises RUN_CONFLICT / contended when others always wrote to the audit log first.
        """
        result = Pruned(torn=self.torn)
        chosen = self._choose(result)
        if self._dry_run:
            for one in chosen.values():
                result.take(one.ended.run_id, one.events)
        elif chosen:
            digest = None
            if self.archive is not None:
                units = [c.unit for c in chosen.values() if c.unit is not None]
                digest = self.archive.append(lines_of(self._codec.registry, _in_order(units)))
            self._remove(result, chosen, digest)
        result.done = self._done
        return result

    # Choosing.

    def _choose(self, result: Pruned) -> dict[str, _Chosen]:
        """The next runs that may go; those that are met and must stay go into the result."""
        chosen: dict[str, _Chosen] = {}
        passed = self._passed()
        events = size = 0
        while page := self._store.ended(self._wanted.before, self._after, PAGE):
            for ended in page:
                full = events >= EVENTS_AT_ONCE or size >= BYTES_AT_ONCE
                if full or len(chosen) == self._wanted.limit:
                    return chosen
                self._after = ended.ended_at, ended.run_id
                try:
                    one = self._look_at(ended, passed)
                except _StaysError as stays:
                    result.hold(stays.held)
                    continue
                if one is not None:
                    chosen[ended.run_id] = one
                    events, size = events + one.events, size + one.size
        self._done = True
        return chosen

    def _look_at(self, ended: Ended, passed: dict[str, int]) -> _Chosen | None:
        """The run, if it may go; None if it has gone meanwhile. Raises _StaysError."""
        held = held_back(ended, passed)
        if held is not None:
            raise _StaysError(held)
        assert ended.record is not None  # or else it is held back
        run_id, version = ended.run_id, ended.record.version
        try:
            found = self._store.read(run_stream(run_id), version - 1, 1)
            if not found:
                return None
            unit = next(self._source.units([run_id])) if self._readable else None
            return _Chosen(ended, self._codec.open(found[0]), unit)
        except RunStoreError as e:
            if e.code == RUN_NOT_FOUND:
                return None
            if e.code != RUN_INTEGRITY_ERROR:
                raise
            raise _StaysError(Held(run_id, "damaged", e.message)) from e

    def _passed(self) -> dict[str, int]:
        """The projections that must have seen the events, and how far each is."""
        states = self._store.projection_states()
        return {s.name: s.position for s in states if s.name not in self._wanted.ignored}

    # Removing.

    def _remove(self, result: Pruned, chosen: dict[str, _Chosen], archive: str | None) -> None:
        for _ in range(TRIES):
            removal = _Removal(self, chosen, archive)
            if self._store.prune(list(chosen), removal.bury):
                gone = set(removal.gone)
                for run_id, one in chosen.items():  # the order of the lock is another
                    if run_id in gone:
                        result.take(run_id, one.events)
                for held in [*removal.held, *self._passed_over(chosen, removal)]:
                    result.hold(held)
                return
        raise contended()

    def _passed_over(self, chosen: dict[str, _Chosen], removal: _Removal) -> list[Held]:
        """The runs that were locked by somebody else; not those that have gone meanwhile."""
        missed = set(chosen) - set(removal.seen)
        there = self._store.heads_of("run_records", sorted(missed)) if missed else {}
        return [Held(i, "busy", "somebody else was at work on it") for i in sorted(there)]


class _Removal:
    """One transaction of a prune: what it decided under the lock."""

    def __init__(self, pruner: Pruner, chosen: dict[str, _Chosen], archive: str | None) -> None:
        self._pruner = pruner
        self._chosen = chosen
        self._archive = archive
        self.seen: list[str] = []
        self.gone: list[str] = []
        self.held: list[Held] = []

    def bury(self, locked: Sequence[Ended]) -> Burial | None:
        """Decide once more on the runs that are locked; the Burying of `PruneStore.prune`."""
        passed = self._pruner._passed()
        self.seen, self.gone, self.held = [e.run_id for e in locked], [], []
        going: list[Ended] = []
        for ended in locked:
            held = held_back(ended, passed)
            if held is None and not _is_as_chosen(ended, self._chosen[ended.run_id].ended):
                held = Held(ended.run_id, "busy", "it was changed meanwhile")
            if held is None:
                going.append(ended)
            else:
                self.held.append(held)
        self.gone = [e.run_id for e in going]
        return self._burial(going) if going else None

    def _burial(self, going: Sequence[Ended]) -> Burial:
        wanted, store = self._pruner._wanted, self._pruner._store
        log = AuditLog(store, self._pruner._codec).end()
        tombstones = sorted(
            (t for e in going for t in self._tombstones(e, log.version + 1, log.now)),
            key=lambda t: t.stream.encode(),
        )
        event = RunsPruned(
            **log.stamp(wanted.actor, self._pruner._command_id),
            ended_before=wanted.before,
            runs=len(going),
            streams=len(tombstones),
            digest=digest_of(tombstones),
            reason=wanted.reason,
            archive=self._archive,
            ignored_projections=wanted.ignored,
        )
        return Burial(tuple(tombstones), self._pruner._codec.seal(event, log.head))

    def _tombstones(self, ended: Ended, audit_version: int, at: datetime) -> list[Tombstone]:
        assert ended.record is not None  # or else it is held back
        last = self._chosen[ended.run_id].last
        left = [run_tombstone(ended.record, last, audit_version, at)]
        if (sent := ended.delivery) is not None:
            stream = delivery_stream(sent.invocation_id)
            left.append(Tombstone(stream, audit_version, sent.version, sent.head, None))
        return left


def _is_as_chosen(locked: Ended, chosen: Ended) -> bool:
    """Whether it ends where it did when it was chosen, and archived."""
    return _ends(locked) == _ends(chosen)


def _ends(ended: Ended) -> list[tuple[int, str]]:
    return [(r.version, r.head) for r in (ended.record, ended.delivery) if r is not None]


def _in_order(units: Sequence[Unit]) -> list[Unit]:
    return sorted(units, key=lambda unit: unit[0].stream.name.encode())
