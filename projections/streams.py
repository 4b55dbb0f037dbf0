"""Every stream of a journal, folded and checked, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ..domain.chain import GENESIS, chain_hash, fingerprint
from ..domain.delivery import DELIVERY_STREAM, DeliveryEvent, DeliveryRecord, evolve_delivery
from ..domain.errors import RunStoreError
from ..domain.events import RUN_STREAM, Event, RunEvent
from ..domain.ports import JournalStore, PayloadCodec, StoredEvent
from ..domain.record import RunRecord
from ..domain.run import Fold

#: Events read at once.
PAGE = 2000

#: What is wrong, by name.
#:
#:   unreadable        an event cannot be decoded, or has no meaning where it stands
#:   gap               versions are missing
#:   chain             an event does not follow from the one before it: one of the two was changed
#:   cut_tail          the record is of a later version than the last event
#:   head              the record's head is not the last event's hash
#:   record            the stored record is not what the events say
#:   missing_record    there are events and no record
#:   orphan_record     there is a record and no events
#:   missing_delivery  a run has ended with a delivery ref, and its delivery is not there
#:   orphan_delivery   there is a delivery, and no run that ended so
#:   anchor_missing    a stream of the anchor is not there any more
#:   anchor_cut        a stream is shorter than in the anchor
#:   anchor_changed    an event is not the one that was anchored
KINDS = (
    "unreadable", "gap", "chain", "cut_tail", "head", "record", "missing_record",
    "orphan_record", "missing_delivery", "orphan_delivery",
    "anchor_missing", "anchor_cut", "anchor_changed",
)  # fmt: skip


class Finding(NamedTuple):
    """One thing that is not as it was written.

    kind      one of KINDS
    stream    where
    version   at which version, where that can be said
    message   what is wrong, for people
    evidence  stands for what exactly was found: a further change at the same place has another
    """

    kind: str
    stream: str
    version: int | None
    message: str
    evidence: str

    @property
    def fingerprint(self) -> str:
        """What an acknowledgement names."""
        return fingerprint(self.kind, self.stream, self.version, self.evidence)


class Anchored(NamedTuple):
    """What a stream was when it was anchored."""

    stream: str
    version: int
    head: str


class Anchor(Protocol):
    """What a journal is held against; asked with each stream, in their order."""

    def expected(self, name: str) -> tuple[list[Anchored], Anchored | None]:
        """What was anchored before this stream and has not come; and what of this one."""
        ...

    def rest(self) -> list[Anchored]:
        """What was anchored and has not come, after the last stream."""
        ...


@dataclass(slots=True)
class Stream:
    """One stream, as far as it was read.

    record    what its events fold to; None for a stream without a record, or once it is unreadable.
              The next event changes it
    findings  what is wrong with the events themselves
    anchored  what it must have been at some version
    """

    name: str
    version: int = 0
    head: str = GENESIS
    record: RunRecord | DeliveryRecord | None = None
    findings: list[Finding] = field(default_factory=list)
    unreadable: bool = False
    anchored: Anchored | None = None
    _run: Fold = field(default_factory=Fold)

    @property
    def key(self) -> str:
        """The run id or invocation id."""
        return self.name.partition("/")[2]

    def found(self, kind: str, version: int | None, message: str, evidence: str = "") -> None:
        self.findings.append(Finding(kind, self.name, version, message, evidence))

    def take(self, stored: StoredEvent, codec: PayloadCodec) -> Event | None:
        """Go on with the next event: check its place and its link, and fold it.

        Returns it; None when it cannot be read, which is then the last of the findings.
        """
        version = stored.version
        if version != self.version + 1:
            missing = f"{self.version + 1}" + (
                f" to {version - 1}" if version - 1 > self.version + 1 else ""
            )
            self.found("gap", version, f"version {missing} of {self.name} is missing", self.head)
        self.version = version
        try:
            event = codec.open_linked(stored, self.head)
        except RunStoreError as e:
            self._give_up(stored, e.message)
            return None
        if event.prev_hash != self.head:
            self.found(
                "chain",
                version,
                f"event {version} of {self.name} does not follow from what is before it",
                f"{self.head} {event.prev_hash}",
            )
        self.head = event.hash
        self._compare_with_anchor()
        if not self.unreadable:
            self._fold(event, stored)
        return event

    def _fold(self, event: Event, stored: StoredEvent) -> None:
        record = self.record
        try:
            if isinstance(event, RunEvent) and not isinstance(record, DeliveryRecord):
                self._run.take(event, event.hash)
                self.record = self._run.record
            elif isinstance(event, DeliveryEvent) and not isinstance(record, RunRecord):
                self.record = evolve_delivery(record, event, event.hash)
        except Exception as e:  # noqa: BLE001 - a first event that is none, or a host's own event
            self._give_up(stored, f"event {stored.version} of {self.name} has no meaning: {e}")

    def _give_up(self, stored: StoredEvent, message: str) -> None:
        hash_here = chain_hash(self.head, *stored)
        self.found("unreadable", stored.version, message, hash_here)
        self.record, self.unreadable = None, True
        self.head = hash_here
        self._compare_with_anchor()

    def _compare_with_anchor(self) -> None:
        anchored = self.anchored
        if anchored and anchored.version == self.version and anchored.head != self.head:
            self.found(
                "anchor_changed",
                self.version,
                f"event {self.version} of {self.name} is not the one that was anchored",
                self.head,
            )

    def ended(self) -> Stream:
        """Take note that this was its last event."""
        if self.anchored is not None and self.anchored.version > self.version:
            self.found(
                "anchor_cut",
                self.version,
                f"{self.name} was anchored at version {self.anchored.version} and ends at "
                f"{self.version}",
                self.head,
            )
        return self


def walk(
    store: JournalStore, codec: PayloadCodec, anchor: Anchor | None = None
) -> Iterator[tuple[list[Stream], int]]:
    """Streams in order as they are completed, a page of events at a time; with its events' number.

    Each page is a short transaction, so writers go on; a stream that grows meanwhile is read to
    where it was then. With an anchor, what was anchored and is gone comes as a stream without
    events, with a finding.
    """
    current: Stream | None = None
    after = ("", 0)
    while page := store.walk(after, PAGE):
        done: list[Stream] = []
        for stored in page:
            if current is None or current.name != stored.stream:
                if current is not None:
                    done.append(current.ended())
                current = Stream(stored.stream)
                if anchor is not None:
                    missing, current.anchored = anchor.expected(current.name)
                    done += [_missing(a) for a in missing]
            current.take(stored, codec)
        after = page[-1].stream, page[-1].version
        yield done, len(page)
    rest = [] if current is None else [current.ended()]
    if anchor is not None:
        rest += [_missing(a) for a in anchor.rest()]
    yield rest, 0


def _missing(anchored: Anchored) -> Stream:
    stream = Stream(anchored.stream)
    stream.found(
        "anchor_missing",
        anchored.version,
        f"{anchored.stream} was anchored at version {anchored.version} and is not there",
        anchored.head,
    )
    return stream


def read_on(stream: Stream, store: JournalStore, codec: PayloadCodec) -> bool:
    """Go on with what was appended since; whether there was anything."""
    page: Sequence[StoredEvent] = store.read(stream.name, stream.version, PAGE)
    for stored in page:
        stream.take(stored, codec)
    return bool(page)


def is_run(stream: Stream) -> bool:
    return stream.name.startswith(RUN_STREAM)


def is_delivery(stream: Stream) -> bool:
    return stream.name.startswith(DELIVERY_STREAM)
