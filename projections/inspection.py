"""What a look at a whole journal needs from a store. Nothing here has an implementation."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, NamedTuple, Protocol

Verdict = Literal["pass", "warn", "fail"]


class RunGroup(NamedTuple):
    """The runs of one kind with one status.

    due        how many are queued and due, or held under a lease that has expired
    due_since  since when the longest due of them is; None if none is
    set_aside  how many were set aside
    oldest     when the one that was left alone the longest was last written
    events     how many there are in their streams
    """

    kind: str
    status: str
    runs: int
    due: int
    due_since: datetime | None
    set_aside: int
    oldest: datetime
    events: int


class DeliveryGroup(NamedTuple):
    """The deliveries with one status.

    events       how many there are in their streams
    waiting      how many wait for somebody's decision
    set_aside    how many were set aside
    ended_since  since when the longest ended of their runs is; only of what is not delivered
    """

    status: str
    deliveries: int
    events: int
    waiting: int
    set_aside: int
    ended_since: datetime | None


class Survey(NamedTuple):
    """The journal as it was counted, at about one instant of the store's clock.

    head  the highest position: beyond the number of events, since positions stay empty
    size  bytes that it takes up where it is stored
    """

    now: datetime
    runs: list[RunGroup]
    deliveries: list[DeliveryGroup]
    head: int
    size: int


class Check(NamedTuple):
    """What a check of a deployment found.

    name     what was looked at
    verdict  "pass", "warn" or "fail"
    message  what was found, for people
    fix      what to do about it; empty where there is nothing to do
    """

    name: str
    verdict: Verdict
    message: str
    fix: str = ""


class InspectionStore(Protocol):
    """A store that can be looked at as a whole. Errors every method may raise: as for RunStore."""

    def survey(self) -> Survey:
        """Count everything. It reads the row of each run once, and no events."""
        ...

    def undelivered_refs(self, limit: int) -> list[str]:
        """Where results wait to be delivered to: at most so many delivery refs, in their order."""
        ...

    def settings(self) -> list[Check]:
        """What only this backend can know of itself: durability, indexes, what is in between."""
        ...
