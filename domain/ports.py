"""What the rules need from outside, as small Protocols. Nothing here has an implementation.

RunStore is the port of the seed, on a journal: it keeps storage semantics only. Which guards are
the store's is written at each method; expiry rules, transitions and idempotency live above it.
A third party's store is proved by `runjournal.adapters.contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from .delivery import DeliveryRecord
from .delivery_store import DeliveryStore
from .errors import RUN_INTEGRITY_ERROR, RUN_LIMIT_EXCEEDED
from .events import Event, Payload
from .history_store import ExclusiveHold, HistoryStore
from .prune_store import PruneStore
from .record import RunRecord

if TYPE_CHECKING:
    from .lease import RunLeaseHandle

Atomicity = Literal["process", "cross-process"]


class SealedEvent(NamedTuple):
    """An event as it is stored: `data` is what the hash chain covers."""

    stream: str
    version: int
    topic: str
    data: bytes
    hash: str


class StoredEvent(NamedTuple):
    """A sealed event read back."""

    stream: str
    version: int
    topic: str
    data: bytes


class Change(NamedTuple):
    """What one append does to one stream: add `events` after `expected_version`, write `record`.

    expected_version 0 means that the stream must not exist yet.
    expected_head is the hash of the event at that version as far as the writer knows it; with it, a
    store that was put back and has moved on to the same version is noticed. None: not known.
    """

    stream: str
    expected_version: int
    events: tuple[SealedEvent, ...]
    record: RunRecord | DeliveryRecord
    expected_head: str | None = None


@dataclass(frozen=True, slots=True)
class Guard:
    """What the run's stored row must still be when the store judges, beside the version.

    lease "live": the row has this fencing token and its deadline is after the store's instant.
    lease "expired": it has this token and the deadline is at or before the store's instant, so
    that a renewal that came first is not overruled by a takeover decided before it.
    """

    fencing_token: int
    lease: Literal["live", "expired"]


class Reply(NamedTuple):
    """What an append or a renewal answers when its guards held.

    now        the store's instant at which it judged
    deadline   the lease's deadline after it; None where the run is not held, and where the deadline
               stayed as it was and telling it would cost something
    moved      whether this call moved the deadline
    """

    now: datetime
    deadline: datetime | None
    moved: bool

    @property
    def time_left(self) -> float:
        """Seconds from the store's instant to the deadline; 0 where none is told."""
        return (self.deadline - self.now).total_seconds() if self.deadline else 0.0


class Reading(NamedTuple):
    """A run's record, its lease's `expires_at` being the current deadline, and when it was read."""

    record: RunRecord | None
    now: datetime


class Granted(NamedTuple):
    """A run that a claim granted."""

    record: RunRecord
    reply: Reply


#: Given a claimable run's record and the store's instant, what to write: one change that grants it,
#: or, for a run that may not be granted any more, the changes that end it.
Granting = Callable[[RunRecord, datetime], Sequence[Change]]
#: What makes a claim set a run aside when `grant` raises it.
SETS_ASIDE: Final = frozenset({RUN_INTEGRITY_ERROR, RUN_LIMIT_EXCEEDED})


class LeaseRef(NamedTuple):
    """A lease to renew: for `ttl` seconds from the store's instant."""

    run_id: str
    fencing_token: int
    ttl: float


class Attention(NamedTuple):
    """A run that was set aside: it, or its delivery, cannot be read, or is beyond a limit."""

    run_id: str
    reason: str


class RunStore(DeliveryStore, Protocol):
    """Storage of streams, records and the outbox.

    Errors every method may raise: RUN_STORE_UNAVAILABLE (nothing was written), and where a commit's
    fate is not known RUN_OUTCOME_UNKNOWN. A lost guard is no error but a None.
    `now` given replaces the store's own clock for this one call (tests, on every backend).
    """

    @property
    def atomicity(self) -> Atomicity:
        """How far the guards reach: within this process, or between all processes."""
        ...

    def now(self) -> datetime:
        """The store's clock as well as it is known without a trip: for the stamps of events."""
        ...

    @property
    def epoch(self) -> int:
        """The journal's token epoch as well as it is known without a trip (domain/tokens.py).

        After a lost guard it is as stored: deciding again then leads to a token that is accepted.
        """
        ...

    def get(self, run_id: str, now: datetime | None = None) -> Reading:
        """The run's record as stored, with the deadline laid over the folded expiry.

        Raises RUN_INTEGRITY_ERROR / unreadable_record for a row that cannot be decoded.
        """
        ...

    def append(
        self,
        changes: Sequence[Change],
        guard: Guard | None = None,
        now: datetime | None = None,
        patience: float | None = None,
    ) -> Reply | None:
        """Write all changes in one transaction, or nothing.

        Guards of the store: each stream is at its expected version, and a new one was not pruned
        (`buried`) however close the two come together; the run's row has the expected head, where
        one is given; a token that the run does not have yet is above `epoch * 2**32`, unless its
        holder ends the run by it; `guard` holds for the run of the first change, judged on the
        store's clock after any wait for a lock. A lost guard returns None and leaves no trace. A
        store that sees that it was replaced grants nothing before it was checked:
        RUN_STORE_UNAVAILABLE / moved.
        Deadlines: a record with a lease gets the deadline instant + ttl, but a write under a live
        guard moves it only when less than half the ttl is left. A queued run becomes due at its
        `available_at`, or at once.
        `patience` is how many seconds the store may wait for other writers.
        """
        ...

    def buried(self, run_id: str) -> RunRecord | None:
        """What is left of a run that was pruned, with `pruned_at`; None if it was not."""
        ...

    def renew(self, leases: Sequence[LeaseRef], now: datetime | None = None) -> dict[str, Reply]:
        """Move the deadlines of these leases to instant + ttl, never backwards, in one statement.

        Guards of the store: the row is running, has the token, and the deadline is still ahead.
        A run that is not in the answer is *unknown*, not lost: its row may have been locked.
        A renewal is no event and does not touch the version.
        """
        ...

    def claim(
        self,
        kinds: Sequence[str] | None,
        limit: int,
        grant: Granting,
        now: datetime | None = None,
    ) -> list[Granted]:
        """Grant up to `limit` due runs (queued and due, or held and expired), oldest first.

        Guards of the store: no two claims get the same run; what `grant` gives is written as by
        append, all of it or nothing, under the same rule for tokens. A run whose new record has no
        lease was ended instead: it is not in the answer, and the claim goes on with the next. A run
        whose record cannot be read, or for which `grant` raises a code of SETS_ASIDE, is set aside
        (see attention). Neither kind ever starves the rest.
        """
        ...

    def read(
        self, stream: str, after_version: int = 0, limit: int | None = None
    ) -> Sequence[StoredEvent]:
        """The stream's events after a version, in order, read in one short transaction."""
        ...

    def runs(
        self,
        *,
        status: str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        """Records in the order of creation, after the run `after`; never loads payloads."""
        ...

    def set_aside(self, run_id: str, reason: str) -> None:
        """Take a queued run that cannot be read out of the claims; its next append puts it back.

        A run that somebody holds is left alone.
        """
        ...

    def attention(self) -> list[Attention]:
        """The runs that were set aside, and those whose delivery was."""
        ...

    def exclusive(self, name: str) -> AbstractContextManager[ExclusiveHold]:
        """Hold a name that nobody else may hold meanwhile, as far as `atomicity` reaches.

        name  1 to 60 of a-z, 0-9 and _, from a letter on

        Whoever comes second is refused at once: RUN_CONFLICT / already_running. The hold ends with
        the block, and with the process however it ends. A store that cannot promise that refuses:
        RUN_VALIDATION_ERROR / argument.
        """
        ...

    def close(self) -> None:
        """Let go of every resource; idempotent."""
        ...


class JournalStore(RunStore, HistoryStore, PruneStore, Protocol):
    """A RunStore whose journal can also be checked, rebuilt and pruned."""


class PayloadCodec(Protocol):
    """Values to stored bytes and back. RUN_VALIDATION_ERROR / payload for what is not lossless."""

    def encode(self, value: Any, what: str) -> Payload:
        """The value as JSON bytes; `what` begins the path in a refusal, as in `state.items[3]`."""
        ...

    def seal(self, event: Event, previous: str) -> SealedEvent:
        """The event as stored after the event whose hash is `previous`."""
        ...

    def open(self, stored: StoredEvent) -> Event:
        """The event from its stored bytes, with its hash. Raises RUN_INTEGRITY_ERROR."""
        ...

    def open_linked(self, stored: StoredEvent, previous: str) -> Event:
        """The same, and unvalidated where it is linked to the event whose hash is `previous`."""
        ...


class Ids(Protocol):
    """The only source of randomness."""

    def new(self) -> str:
        """A fresh id that nobody else has."""
        ...


#: The host's clock for tests: an aware datetime.
Clock = Callable[[], datetime]
#: Seconds on a clock that never steps and goes on while the host sleeps.
Ticks = Callable[[], float]


class Lock(AbstractContextManager[Any], Protocol):
    """A re-entrant lock that keeps two threads of one holder apart."""

    def acquire(self, blocking: bool = True) -> bool: ...

    def release(self) -> None: ...


class AuthorityResolver(Protocol):
    """Finds out on whose behalf a run acts. Called from several threads at once."""

    def resolve(self, record: RunRecord) -> object | None:
        """What the run may act with, by `record.authority_ref`; None where there is none now.

        Whatever it raises counts as None; its text is kept in the journal, so it must not hold
        credentials.
        """
        ...


class Authorizer(Protocol):
    """Decides who may do what to which run. Called from several threads at once."""

    def allows(self, actor: str | None, action: str, record: RunRecord | None) -> bool:
        """Whether the command may go on; only True is a yes. Asked before anything is written.

        actor   who asks, as the caller of the command says; None where it does not
        action  "start", "cancel", "fail", "request_resume" or "record_decision"
        record  the run as it was read; for a new run, as it would be; None where there is no run,
                which ends in RUN_NOT_FOUND whatever is answered

        A no reads like a run that does not exist. What it raises is a no, and is logged without
        its text.
        """
        ...


class Beat(Protocol):
    """The background renewal of a ledger's leases."""

    def watch(self, handle: RunLeaseHandle) -> None:
        """Renew this lease every `heartbeat_every` seconds until told otherwise."""
        ...

    def unwatch(self, handle: RunLeaseHandle) -> None:
        """Stop renewing it; unknown handles are ignored."""
        ...
