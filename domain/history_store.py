"""HistoryStore: what checking and rebuilding need from a store. Part of the RunStore port."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from .delivery import DeliveryRecord
from .record import RunRecord

if TYPE_CHECKING:
    from .ports import StoredEvent

#: The tables that are written together with the events.
Table = Literal["run_records", "delivery_outbox"]
TABLES: tuple[Table, ...] = ("run_records", "delivery_outbox")


class Image(NamedTuple):
    """A stored row as far as the events determine it: without a lease's deadline or a mark.

    rest  everything else, in a form of the store's own; equal exactly when the rows are
    """

    version: int
    head: str
    status: str
    rest: Any


class Head(NamedTuple):
    """What a row says of its stream, without the rest."""

    version: int
    head: str
    status: str


class Repair(NamedTuple):
    """A row to be put right: what it must be, and the version it is stored at (None: it is not)."""

    record: RunRecord | DeliveryRecord
    stored: int | None


class Publication(NamedTuple):
    """A stream that comes from elsewhere: new here, or gone on with.

    stored  the version it has here now; 0: it is not there
    events  gives all events after that, oldest first, each time it is called
    record  the row that they lead to; None for a stream that has none
    held    for a delivery: why it is set aside and not sent by itself; None: it is due as its
            events say
    """

    stream: str
    stored: int
    events: Callable[[], Iterator[StoredEvent]]
    record: RunRecord | DeliveryRecord | None
    held: str | None = None


class ExclusiveHold(Protocol):
    """What `RunStore.exclusive` gives to the one who holds a name."""

    def check(self) -> None:
        """Raise RUN_STORE_UNAVAILABLE or RUN_CONFLICT / already_running if the hold was lost.

        A long loop asks before each thing it writes.
        """
        ...


class HistoryStore(Protocol):
    """Reading everything in order, and putting rows right.

    Errors every method may raise: as for RunStore.
    """

    def walk(self, after: tuple[str, int], limit: int) -> Sequence[StoredEvent]:
        """Events in the order of (stream, version), after that place, in one short transaction.

        Streams are ordered as their UTF-8 bytes are.
        """
        ...

    def divide(self, events: int) -> list[str]:
        """The streams that stand at about every so-many-th event, in order, each once.

        Between two of them are about so many events: parts that can be read beside one another.
        What is written meanwhile may move them.
        """
        ...

    def images(
        self, table: Table, after: str, upto: str | None, limit: int
    ) -> list[tuple[str, Image]]:
        """The stored rows with after < key <= upto, in the order of their keys."""
        ...

    def images_of(self, table: Table, keys: Sequence[str]) -> dict[str, Image]:
        """The stored rows of these keys."""
        ...

    def heads_of(self, table: Table, keys: Sequence[str]) -> dict[str, Head]:
        """The same, of each only what it says of its stream."""
        ...

    def image(self, record: RunRecord | DeliveryRecord) -> Image:
        """What the row of this record is when it is right."""
        ...

    def repair(self, rows: Sequence[Repair]) -> list[bool]:
        """Put rows right, in one transaction; for each whether it was still as it was read.

        A lease's deadline and a due time stay as they are where there is one.
        """
        ...

    def recreate(self, table: Table) -> None:
        """Make the table anew if it is not there at all."""
        ...

    def publish(self, publications: Sequence[Publication]) -> bool:
        """Write these streams' events and rows, as they are, in one transaction, or nothing.

        Guards of the store: each stream is at its `stored` version, and no other run of its name
        was pruned. False if one is lost. What
        `events` raises is passed on, and nothing is written. The events get new positions, in the
        order given; a lease's deadline is what its events say.
        """
        ...

    def read_epoch(self) -> int:
        """The token epoch as stored; `RunStore.epoch` is at least that from now on."""
        ...

    def raise_epoch(self, epoch: int, event: StoredEvent, pass_over: int) -> bool:
        """Begin the next token epoch, and append the event that says so, in one transaction.

        epoch      the new epoch; it must be the stored one + 1
        pass_over  how many positions are left out before the event

        False, and nothing is written, if the epoch is another one or the event's stream is past its
        version. A store that knows where it is (RUN_STORE_UNAVAILABLE / moved) takes the place it
        is at now for its own.
        """
        ...
