"""Stores that break one rule each. `test_contract_catches` shows that the contract notices.

Not collected by itself: these classes are meant to fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from runjournal.adapters.contract import (
    Between,
    EpochContract,
    PersistenceContract,
    RunStoreContract,
)
from runjournal.adapters.memory.store import MemoryStore
from runjournal.domain import RunRecord
from runjournal.domain.delivery import DeliveryRecord, DeliveryStatus
from runjournal.domain.delivery_store import DeliveryReading, DueDelivery
from runjournal.domain.ports import (
    Atomicity,
    Change,
    Granted,
    Granting,
    Guard,
    LeaseRef,
    Reading,
    Reply,
    RunStore,
    StoredEvent,
)

from .enrolling import enrol

INSTANT = timedelta(microseconds=1)


class Raisable(Between):
    """Hands on what a store that can be restored has more."""

    store: Any

    def read_epoch(self) -> int:
        return int(self.store.read_epoch())

    def raise_epoch(self, epoch: int, event: StoredEvent, pass_over: int) -> bool:
        return bool(self.store.raise_epoch(epoch, event, pass_over))


class Sound(Raisable):
    """Breaks nothing: what fails here would fail for a reason of its own."""


class IgnoresVersion(Between):
    """Writes at whatever version the run is."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        return super().append([self._moved(c) for c in changes], guard, now, patience)

    def _moved(self, change: Change) -> Change:
        stored = self.store.read(change.stream)
        last = stored[-1].version if stored else 0
        by = last - change.expected_version
        record = change.record.model_copy(update={"version": change.record.version + by})
        events = tuple(e._replace(version=e.version + by) for e in change.events)
        return Change(change.stream, last, events, record)


class IgnoresTheHead(Between):
    """Looks at the version of what was read, and not at its hash."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        blind = [c._replace(expected_head=None) for c in changes]
        return super().append(blind, guard, now, patience)

    def advance_delivery(self, change: Change) -> bool:
        return super().advance_delivery(change._replace(expected_head=None))


class IgnoresTheEpoch(Raisable):
    """Grants whatever token comes."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        epoch, self.store.epoch = self.store.epoch, 0
        try:
            return super().append(changes, guard, now, patience)
        finally:
            self.store.epoch = epoch


class KeepsTheEpoch(IgnoresTheEpoch):
    """Never tells that the epoch was raised."""

    @property
    def epoch(self) -> int:
        return 0


class IgnoresGuards(Between):
    """Looks at the version only."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        return super().append(changes, None, now, patience)


class IgnoresTokenOfWrites(Between):
    """Takes any token for the stored one when it appends."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        record = self.store.get(changes[0].stream.removeprefix("run/"), now).record
        if guard is not None and record is not None:
            guard = Guard(record.fencing_token, guard.lease)
        return super().append(changes, guard, now, patience)


class IgnoresTokenOfRenewals(Between):
    """Renews whoever asks."""

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        known = ((ref, self.store.get(ref.run_id, now).record) for ref in leases)
        asked = [ref._replace(fencing_token=run.fencing_token) for ref, run in known if run]
        return super().renew(asked, now)


class LeaseLastsOneInstantLonger(Between):
    """`now > deadline` where it must be `now >= deadline`, for writes."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        judged = now - INSTANT if now and guard else now
        return super().append(changes, guard, judged, patience)


class RenewsAtTheDeadline(Between):
    """The same boundary, for renewals."""

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        return super().renew(leases, now - INSTANT if now else now)


class RenewalsMoveBackwards(Between):
    """Sets the deadline to instant + ttl, even when it was later."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self._deadlines: dict[str, datetime] = {}

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        answer = super().renew(leases, now)
        for ref in leases:
            if reply := answer.get(ref.run_id):
                deadline = reply.now + timedelta(seconds=ref.ttl)
                self._deadlines[ref.run_id] = deadline
                answer[ref.run_id] = reply._replace(deadline=deadline, moved=True)
        return answer

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        record, read_at = super().get(run_id, now)
        deadline = self._deadlines.get(run_id)
        if record and record.lease and deadline:
            lease = record.lease.model_copy(update={"expires_at": deadline})
            record = record.model_copy(update={"lease": lease})
        return Reading(record, read_at)


class EveryWriteMovesTheDeadline(Between):
    """Renews with each append, however much of the ttl is left."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        reply = super().append(changes, guard, now, patience)
        record = changes[0].record
        if reply and isinstance(record, RunRecord) and record.lease:
            ref = LeaseRef(record.run_id, record.fencing_token, record.lease.ttl)
            return self.store.renew([ref], now).get(record.run_id, reply)
        return reply


class RenewalIsAnEvent(Between):
    """Moves the version with each renewal, so that heartbeats conflict with checkpoints."""

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        answer = super().renew(leases, now)
        for run_id in answer:
            record = self.store.get(run_id, now).record
            assert record is not None
            last = self.store.read(f"run/{run_id}")[-1]
            beat = record.model_copy(update={"version": record.version + 1})
            event = (last.stream, beat.version, "run.renewed", b"{}", record.head)
            change = Change(last.stream, record.version, (event,), beat)  # type: ignore[arg-type]
            self.store.append([change], Guard(record.fencing_token, "live"), now)
        return answer


class ForgetsRenewals(Between):
    """Answers renewals without moving any deadline."""

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        known = ((ref, self.store.get(ref.run_id, now)) for ref in leases)
        return {
            ref.run_id: Reply(at, at + timedelta(seconds=ref.ttl), True)
            for ref, (record, at) in known
            if record and record.lease and record.fencing_token == ref.fencing_token
        }


class HalfAppends(Between):
    """Writes the streams of one append one after the other."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        run, *others = changes
        reply = super().append([run], guard, now, patience)
        if reply and others:
            record = run.record
            assert isinstance(record, RunRecord)
            again = Change(run.stream, record.version, (), record)
            return reply if super().append([again, *others], None, now, patience) else None
        return reply


class DropsTheDelivery(Between):
    """Writes the run and forgets the outbox."""

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        return super().append(changes[:1], guard, now, patience)


class ClaimsTwice(Between):
    """Grants from a list of due runs that another claim has looked at as well."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self._looked_at: dict[str, RunRecord] = {}

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        instant = now or self.store.now()
        for record in self.store.runs(status="queued"):
            self._looked_at.setdefault(record.run_id, record)
        granted = []
        for record in list(self._looked_at.values())[-limit:]:
            changes = grant(record, instant)
            reply = self.store.append(changes, None, instant)
            assert isinstance(changes[0].record, RunRecord)
            granted.append(Granted(changes[0].record, reply or Reply(instant, None, False)))
        return granted


class ClaimsNewestFirst(Between):
    """Takes what became due last."""

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        return super().claim(kinds, 1000, grant, now)[::-1][:limit]


class ClaimsAnyKind(Between):
    """Overlooks the kinds that were asked for."""

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        return super().claim(None, limit, grant, now)


class ClaimsEarly(Between):
    """Takes runs a second before they are due."""

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        return super().claim(kinds, limit, grant, now and now + timedelta(seconds=1))


class Starves(Between):
    """Lets one unreadable run end the whole claim, again and again."""

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        for record in self.store.runs(status="queued", limit=limit):
            if record.run_id.startswith("bad"):
                return []
        return super().claim(kinds, limit, grant, now)


class ClaimsDropTheDelivery(Between):
    """Ends a run in a claim and forgets the outbox."""

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        return super().claim(kinds, limit, lambda record, at: grant(record, at)[:1], now)


class ForgetsWhatItSetAside(Between):
    """Goes on offering a run that an operator has set aside."""

    def set_aside(self, run_id: str, reason: str) -> None:
        pass


class StoresText(Between):
    """Keeps payloads as text, as a database does that is not told they are bytes."""

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        events = super().read(stream, after_version, limit)
        return [e._replace(data=e.data.replace(b"\0", b"")) for e in events]


class ComparesLoosely(Between):
    """Takes ids that differ in case for the same run."""

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        return super().get(run_id.casefold(), now)


class LosesMicroseconds(Between):
    """Keeps stamps to the millisecond."""

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        record, read_at = super().get(run_id, now)
        if record is not None:
            stamp = record.updated_at
            stamp = stamp.replace(microsecond=stamp.microsecond // 1000 * 1000)
            record = record.model_copy(update={"updated_at": stamp})
        return Reading(record, read_at)


class PagesOverlap(Between):
    """Begins the next page of runs with the last one of the page before."""

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        listed = super().runs(status=status, kind=kind, limit=limit, after=after)
        last = self.store.get(after).record if after else None
        return [last, *listed][:limit] if last and listed else listed


class ReadsOnlyOnePage(Between):
    """Cuts a stream off after ten events where no limit was asked for."""

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        return super().read(stream, after_version, 10 if limit is None else limit)


class ClaimsToReachFurther(Between):
    """Declares cross-process atomicity, and no second store can be opened on its data."""

    @property
    def atomicity(self) -> Atomicity:
        return "cross-process"


class IgnoresTheDeliverysVersion(Between):
    """Writes at whatever version the delivery is."""

    def advance_delivery(self, change: Change) -> bool:
        last = self.store.read(change.stream)
        by = (last[-1].version if last else 0) - change.expected_version
        record = change.record.model_copy(update={"version": change.record.version + by})
        events = tuple(e._replace(version=e.version + by) for e in change.events)
        moved = Change(change.stream, change.expected_version + by, events, record)
        return super().advance_delivery(moved)


class Asking(Between):
    """Breaks nothing: for those that ask for, or answer with, other deliveries than they should."""

    def asked(
        self, refs: Sequence[str] | None, now: datetime | None, but: Sequence[str]
    ) -> tuple[Sequence[str] | None, datetime | None, Sequence[str]]:
        return refs, now, but

    def answered(self, due: list[DueDelivery]) -> list[DueDelivery]:
        return due

    def due_deliveries(
        self,
        status: DeliveryStatus,
        limit: int,
        refs: Sequence[str] | None = None,
        now: datetime | None = None,
        but: Sequence[str] = (),
    ) -> list[DueDelivery]:
        asked = self.asked(refs, now, but)
        return self.answered(super().due_deliveries(status, limit, *asked))


class DeliversEarly(Asking):
    """Takes a delivery for due an instant too early."""

    def asked(self, refs: Any, now: datetime | None, but: Any) -> Any:
        return refs, now + INSTANT if now else now, but


class DeliversLatestFirst(Asking):
    """Those that became due last come first."""

    def answered(self, due: list[DueDelivery]) -> list[DueDelivery]:
        return due[::-1]


class IgnoresRefs(Asking):
    """Gives out what another sender is there for."""

    def asked(self, refs: Any, now: Any, but: Any) -> Any:
        return None, now, but


class IgnoresExcludedRefs(Asking):
    """Gives out what the sender did not want."""

    def asked(self, refs: Any, now: Any, but: Any) -> Any:
        return refs, now, ()


class ForgetsDeliveriesSetAside(Between):
    """Goes on handing out what cannot be read."""

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        pass


class KeepsDeliveriesSetAside(Asking):
    """Never hands out again what was set aside once."""

    def __init__(self, store: RunStore) -> None:
        super().__init__(store)
        self._aside: set[str] = set()

    def set_aside_delivery(self, invocation_id: str, reason: str) -> None:
        self._aside.add(invocation_id)
        super().set_aside_delivery(invocation_id, reason)

    def answered(self, due: list[DueDelivery]) -> list[DueDelivery]:
        return [d for d in due if d.invocation_id not in self._aside]


class ChangesWhatItSetsAside(KeepsDeliveriesSetAside):
    """Takes what was set aside for unknown, though no event says so."""

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        record, at = super().get_delivery(invocation_id, now)
        if record is not None and invocation_id in self._aside:
            record = record.model_copy(update={"status": DeliveryStatus.UNKNOWN})
        return DeliveryReading(record, at)


class AdvancesWithoutAnEvent(Between):
    """Moves the delivery's row and keeps no record of why."""

    def advance_delivery(self, change: Change) -> bool:
        return super().advance_delivery(change._replace(events=()))


class AdvancesWithoutTheRow(Between):
    """Keeps the event and leaves the delivery's row as it was."""

    def advance_delivery(self, change: Change) -> bool:
        record = change.record
        assert isinstance(record, DeliveryRecord)
        before = self.store.get_delivery(record.invocation_id).record
        return before is not None and super().advance_delivery(change._replace(record=before))


class DropsAField(Between):
    """Forgets since when a delivery has been tried."""

    def get_delivery(self, invocation_id: str, now: datetime | None = None) -> DeliveryReading:
        record, at = super().get_delivery(invocation_id, now)
        dropped = record and record.model_copy(update={"trying_since": None})
        return DeliveryReading(dropped, at)


class ListsDeliveriesTwice(Between):
    """Begins the next page of deliveries with the last one of the page before."""

    def deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        options: Any = {"status": status, "attention": attention, "limit": limit}
        found = super().deliveries(after=after, **options)
        last = self.store.get_delivery(after).record if after else None
        return [last, *found][:limit] if last else found


class ListsOthersForAttention(Between):
    """Also lists what will be tried again by itself."""

    def deliveries(
        self,
        *,
        status: DeliveryStatus | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        wanted = DeliveryStatus.UNKNOWN if attention else status
        return super().deliveries(status=wanted, limit=limit, after=after)


class BrokenContract(RunStoreContract, EpochContract):
    """The contract on one of the stores above, around a sound one."""

    store_class: ClassVar[type[Between]]

    def make_store(self, tmp_path: Path) -> RunStore:
        return self.store_class(MemoryStore())


enrol(globals(), BrokenContract, Between, but=(Raisable, Asking))


class TestForgetsEverything(RunStoreContract, PersistenceContract):
    """A store that says it keeps its data, and a second one finds nothing."""

    def make_store(self, tmp_path: Path) -> RunStore:
        return MemoryStore()

    def reopen(self, store: RunStore) -> RunStore:
        return MemoryStore()
