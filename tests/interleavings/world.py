"""What an order is played on: one journal opened several times, and a clock that is set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from runjournal import DeliveryLedger, DeploymentLimits, Journal, RunLedger
from runjournal.adapters.codec import OrjsonCodec
from runjournal.domain.audit import AUDIT_EVENTS
from runjournal.domain.delivery import DELIVERY_EVENTS
from runjournal.domain.events import RUN_EVENTS
from runjournal.domain.registry import EventRegistry

from .scheduler import Act, current

#: Seconds that the leases of a race last.
TTL = 60.0
#: How often the journal is opened: so many commands can have a database of their own.
DOORS = 3


class World(ABC):
    """One journal, opened several times."""

    _now: datetime

    def __init__(self) -> None:
        self.set_clock(self._now)
        self.journals = [self.open() for _ in range(DOORS)]

    @abstractmethod
    def open(self) -> Journal:
        """The journal, on connections of its own."""

    @abstractmethod
    def set_clock(self, now: datetime) -> None:
        """Set the clock that leases are judged by."""

    @abstractmethod
    def waiting(self, sessions: Sequence[int]) -> int:
        """How many of these sessions wait for a lock."""

    @abstractmethod
    def lock(self, run_id: str) -> Act:
        """A command that locks the run's row and lets it go again."""

    @abstractmethod
    def execute(self, text: str, *values: Any) -> Any:
        """Run a statement past the journal; its first row."""

    def within(self, number: int, work: Callable[[Any], Any], *, commit: bool) -> Act:
        """What a host does in a transaction of its own, which it commits or rolls back."""
        raise NotImplementedError("only Postgres can join a host's transaction")

    @property
    def now(self) -> datetime:
        return self._now

    def next_day(self) -> None:
        """Begin anew at a later time. What the stores believe of the clock is set right."""
        self.set_clock(self._now + timedelta(days=1))
        for journal in self.journals:
            journal.store.get("-")

    def wait(self, seconds: float) -> None:
        self.set_clock(self._now + timedelta(seconds=seconds))

    def expire(self, seconds: float = TTL + 1) -> Act:
        """A command in whose one step so much time passes, by itself enough for a lease."""

        def act() -> None:
            player = current()
            assert player is not None
            player.step("time passes")
            self.wait(seconds)

        return act

    def ledger(self, number: int, owner: str | None = None) -> RunLedger:
        return self.journals[number].ledger(owner=owner or f"owner-{number}", lease_ttl=TTL)

    def sender(self, number: int) -> DeliveryLedger:
        return self.journals[number].delivery_ledger(owner=f"sender-{number}", attempt_ttl=TTL)

    def close(self) -> None:
        for journal in self.journals:
            journal.close()


def journal_on(store: Any) -> Journal:
    codec = OrjsonCodec(EventRegistry([*RUN_EVENTS, *DELIVERY_EVENTS, *AUDIT_EVENTS]))
    return Journal(store, codec, DeploymentLimits())
