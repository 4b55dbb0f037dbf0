"""A scribe of changes: writes what the rules would write, for the port's own tests.

It decides, seals and evolves without a ledger, so that the port's methods can be tested one by
one, at instants that the test chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from ...domain.chain import GENESIS
from ...domain.commands import Acquire, Command, Complete, Release, SaveCheckpoint, Start, Suspend
from ...domain.decide import decide
from ...domain.delivering import DeliveryCommand, decide_delivery
from ...domain.delivery import (
    DELIVERY_EVENTS,
    DeliveryRecord,
    evolve_delivery,
    request_delivery,
)
from ...domain.events import RUN_EVENTS, RunEvent
from ...domain.ports import Change, SealedEvent
from ...domain.record import RunRecord
from ...domain.registry import EventRegistry
from ...domain.run import evolve
from ..codec import OrjsonCodec

#: The instant at which every test begins.
START = datetime(2026, 1, 1, 12, 30, 15, 123456, tzinfo=UTC)
#: The smallest step of a stored instant: what lies on either side of a boundary.
INSTANT = timedelta(microseconds=1)
#: The lease of the port's tests, in seconds.
TTL = 60.0


def after(seconds: float) -> datetime:
    """The instant so many seconds after START."""
    return START + timedelta(seconds=seconds)


def contract_codec() -> OrjsonCodec:
    """A codec over every event of the domain."""
    return OrjsonCodec(EventRegistry([*RUN_EVENTS, *DELIVERY_EVENTS]))


class Scribe:
    """Writes the changes of a run as the rules would, for the port's own tests."""

    def __init__(self) -> None:
        self.codec = contract_codec()
        self._ids = count(1)

    def start(self, run_id: str, at: datetime = START, **fields: Any) -> Change:
        """The change that creates the run; fields as for commands.Start."""
        fields.setdefault("input", self.codec.encode(None, "input"))
        return self.change(None, Start(run_id=run_id, command_id=self.new_id(), **fields), at)

    def grant(
        self,
        record: RunRecord,
        at: datetime | None = None,
        owner: str = "worker-1",
        ttl: float = TTL,
    ) -> Change:
        command = Acquire(run_id=record.run_id, command_id=self.new_id(), owner=owner, ttl=ttl)
        return self.change(record, command, at)

    def checkpoint(self, record: RunRecord, state: Any = None) -> Change:
        command = SaveCheckpoint(
            run_id=record.run_id,
            command_id=self.new_id(),
            fencing_token=record.fencing_token,
            key="latest",
            snapshot_version=1,
            state=self.codec.encode(state, "state"),
        )
        return self.change(record, command)

    def release(self, record: RunRecord, available_at: datetime | None = None) -> Change:
        command = Release(
            run_id=record.run_id,
            command_id=self.new_id(),
            fencing_token=record.fencing_token,
            available_at=available_at,
        )
        return self.change(record, command)

    def suspend(self, record: RunRecord) -> Change:
        command = Suspend(
            run_id=record.run_id, command_id=self.new_id(), fencing_token=record.fencing_token
        )
        return self.change(record, command)

    def complete(self, record: RunRecord) -> list[Change]:
        """The change that ends the run, and the delivery's where somebody waits for the result."""
        command = Complete(
            run_id=record.run_id,
            command_id=self.new_id(),
            fencing_token=record.fencing_token,
            code="ok",
            result=self.codec.encode(None, "result"),
        )
        events = decide(record, command, record.updated_at)
        change = self._seal(record, events)
        request = request_delivery(record_of(change), events[-1])
        if request is None:
            return [change]
        sealed = self.codec.seal(request, GENESIS)
        row = evolve_delivery(None, request, sealed.hash)
        return [change, Change(sealed.stream, 0, (sealed,), row)]

    def delivery(
        self, record: DeliveryRecord, command: DeliveryCommand, at: datetime | None = None
    ) -> Change:
        """What the command does to the delivery, decided at an instant (its last stamp if none)."""
        after, sealed = record, list[SealedEvent]()
        for event in decide_delivery(record, command, at or record.updated_at):
            stored = self.codec.seal(event, after.head)
            after = evolve_delivery(after, event, stored.hash)
            sealed.append(stored)
        return Change(sealed[0].stream, record.version, tuple(sealed), after, record.head)

    def new_id(self) -> str:
        return f"command-{next(self._ids)}"

    def change(
        self, record: RunRecord | None, command: Command, at: datetime | None = None
    ) -> Change:
        """What the command does to the run, decided at an instant (its last stamp if none)."""
        now = at or (record.updated_at if record else START)
        return self._seal(record, decide(record, command, now))

    def _seal(self, record: RunRecord | None, events: Sequence[RunEvent]) -> Change:
        version, head = (record.version, record.head) if record else (0, GENESIS)
        expected_head = head
        sealed: list[SealedEvent] = []
        for event in events:
            stored = self.codec.seal(event, head)
            head = stored.hash
            record = evolve(record, event, head)
            sealed.append(stored)
        assert record is not None
        return Change(sealed[0].stream, version, tuple(sealed), record, expected_head)


def record_of(change: Change) -> RunRecord:
    """The run's record that a change writes."""
    assert isinstance(change.record, RunRecord)
    return change.record
