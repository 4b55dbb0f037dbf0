"""Every stream of a journal, folded and checked, in order and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..domain.audit import AUDIT_STREAM, AuditEvent
from ..domain.chain import GENESIS, chain_hash
from ..domain.delivery import DELIVERY_STREAM, DeliveryEvent, DeliveryRecord, evolve_delivery
from ..domain.errors import RunStoreError
from ..domain.events import RUN_STREAM, Event, RunEvent
from ..domain.ports import JournalStore, PayloadCodec, StoredEvent
from ..domain.record import RunRecord
from ..domain.run import advance
from ..domain.tombstone import Tombstone
from .findings import NO_KEY, Anchor, Anchored, Finding
from .parts import WHOLE, Part

#: Events read at once. Few: a writer beside waits while its server makes up a page, and a page of
#: ten times as many is hardly cheaper for each event.
PAGE = 50
#: After every version of a stream.
_PAST = 2**63 - 1


#: The record after an event, whose hash is the last argument; the one before it may be changed.
_Evolve = Callable[[Any, Event, str], Any]


def _evolve_of(name: str, first: Event) -> _Evolve:
    """What folds this stream, by its name, or by its first event where the name says nothing."""
    if name.startswith(RUN_STREAM) or isinstance(first, RunEvent):
        return advance
    if name.startswith(DELIVERY_STREAM) or isinstance(first, DeliveryEvent):
        return evolve_delivery
    return _without_record


def _without_record(record: Any, event: Event, _head: str) -> Any:
    if isinstance(event, AuditEvent) and event.originator_id != AUDIT_STREAM:
        raise ValueError(f"it belongs into {AUDIT_STREAM}")
    return record


class Stream:
    """One stream, as far as it was read.

    record    what its events fold to; None for a stream without a record, or once it is unreadable.
              The next event changes it
    findings  what is wrong with the events themselves
    locked    whether some could not be decrypted; then the chain was checked as far as bytes tell
    unread    why the last event that could not be read could not
    anchored  what it must have been at some version
    """

    __slots__ = (
        "_evolve", "anchored", "findings", "head", "locked", "name", "record", "unread",
        "unreadable", "version",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 0
        self.head = GENESIS
        self.record: RunRecord | DeliveryRecord | None = None
        self.findings: list[Finding] = []
        self.unreadable = False
        self.locked = False
        self.unread = ""
        self.anchored: Anchored | None = None
        self._evolve: _Evolve | None = None

    @property
    def key(self) -> str:
        """The run id or invocation id."""
        return self.name.partition("/")[2]

    def found(self, kind: str, version: int | None, message: str, evidence: str = "") -> None:
        self.findings.append(Finding(kind, self.name, version, message, evidence))

    def take(self, stored: StoredEvent, codec: PayloadCodec) -> Event | None:
        """Go on with the next event: check its place and its link, and fold it.

        Returns it; None when it cannot be read: `unread` says why, and so does a finding.
        """
        version = stored.version
        if version != self.version + 1:
            self._miss(version)
        self.version = version
        head = self.head
        try:
            event = codec.open_linked(stored, head)
        except RunStoreError as e:
            no_key = e.reason in NO_KEY
            self._give_up(stored, e.message, chain_hash(head, *stored), no_key=no_key)
            return None
        if event.prev_hash != head:
            self.found(
                "chain",
                version,
                f"event {version} of {self.name} does not follow from what is before it",
                f"{head} {event.prev_hash}",
            )
        self.head = event.hash
        if self.anchored is not None:
            self._compare_with_anchor()
        if not self.unreadable:
            if self._evolve is None:
                self._evolve = _evolve_of(self.name, event)
            try:
                self.record = self._evolve(self.record, event, event.hash)
            except Exception as e:  # noqa: BLE001 - a first event that is none, or one of elsewhere
                message = f"event {version} of {self.name} has no meaning: {e}"
                self._give_up(stored, message, event.hash)
        return event

    def _miss(self, version: int) -> None:
        missing = f"{self.version + 1}" + (
            f" to {version - 1}" if version - 1 > self.version + 1 else ""
        )
        self.found("gap", version, f"version {missing} of {self.name} is missing", self.head)

    def _give_up(
        self, stored: StoredEvent, message: str, hash_here: str, *, no_key: bool = False
    ) -> None:
        self.unread = message
        if not no_key:
            self.found("unreadable", stored.version, message, hash_here)
        elif not self.locked:
            self.found("no_key", stored.version, message, hash_here)
            self.locked = True
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
    store: JournalStore,
    codec: PayloadCodec,
    anchor: Anchor | None = None,
    part: Part = WHOLE,
) -> Iterator[tuple[list[Stream], int]]:
    """Streams in order as they are completed, a page of events at a time; with its events' number.

    Each page is a short transaction, so writers go on; a stream that grows meanwhile is read to
    where it was then. With an anchor (of this part), what was anchored and is gone comes as a
    stream without events, with a finding.
    """
    current: Stream | None = None
    for page in _pages(store, part):
        done: list[Stream] = []
        for stored in page:
            if current is None or current.name != stored.stream:
                if current is not None:
                    done.append(current.ended())
                current = Stream(stored.stream)
                if anchor is not None:
                    missing, current.anchored = anchor.expected(current.name)
                    done += _missing(store, missing)
            current.take(stored, codec)
        yield done, len(page)
    rest = [] if current is None else [current.ended()]
    if anchor is not None:
        for page_of_anchor in _in_pages(anchor.rest()):
            rest += _missing(store, page_of_anchor)
    yield rest, 0


def _pages(store: JournalStore, part: Part) -> Iterator[Sequence[StoredEvent]]:
    after = (part.after, _PAST)
    while page := store.walk(after, PAGE):
        if part.upto is not None and page[-1].stream > part.upto:
            yield [stored for stored in page if stored.stream <= part.upto]
            return
        yield page
        after = page[-1].stream, page[-1].version


def _in_pages(anchored: Sequence[Anchored]) -> Iterator[Sequence[Anchored]]:
    return (anchored[begin : begin + PAGE] for begin in range(0, len(anchored), PAGE))


def _missing(store: JournalStore, anchored: Sequence[Anchored]) -> list[Stream]:
    """The anchored streams that are not there, but those that were pruned as they were."""
    left = store.tombstones_of([a.stream for a in anchored]) if anchored else {}
    return [_not_there(a) for a in anchored if not _was_pruned(a, left.get(a.stream))]


def _was_pruned(anchored: Anchored, left: Tombstone | None) -> bool:
    """Whether a tombstone accounts for it; that it is no forgery is for `verify` to see."""
    if left is None or left.version < anchored.version:
        return False
    return left.version > anchored.version or left.head == anchored.head


def _not_there(anchored: Anchored) -> Stream:
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
