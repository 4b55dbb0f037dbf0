"""verify: that events, records and outbox say the same, and that nobody rewrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ..domain.audit import AUDIT_STREAM
from ..domain.delivery import (
    DELIVERY_STREAM,
    DeliveryRecord,
    delivery_invocation_id,
)
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..domain.events import RUN_STREAM
from ..domain.history_store import Image, Table
from ..domain.ports import JournalStore, PayloadCodec
from ..domain.record import RunRecord
from ..domain.status import RunLifecycleStatus, is_terminal_run_status
from .doubts import image_of, read_again
from .findings import NO_KEY, Anchor, Finding
from .graves import grave_findings
from .parts import WHOLE, Part
from .streams import Stream, is_delivery, is_run, read_on, walk

#: Called with how many events have been read since the last call.
Progress = Callable[[int], None]


def quiet(_events: int) -> None:
    """A Progress that tells nobody."""


#: How often a stream that moves on meanwhile is read on before its row is compared.
TRIES = 10
#: Rows read at once where rows have no events; runs and deliveries held against each other at once.
PAGE = 200

_TERMINAL = {status.value for status in RunLifecycleStatus if is_terminal_run_status(status)}
_PREFIX: dict[Table, str] = {"run_records": RUN_STREAM, "delivery_outbox": DELIVERY_STREAM}


class Compared(NamedTuple):
    """A stream and its stored row, both at the same moment."""

    stream: Stream
    table: Table
    image: Image | None


class Checker:
    """Walks a journal and compares every stream with its row."""

    def __init__(
        self,
        store: JournalStore,
        codec: PayloadCodec,
        anchor: Anchor | None = None,
        part: Part = WHOLE,
    ) -> None:
        self._store = store
        self._codec = codec
        self._anchor = anchor
        self._part = part
        keys = {table: part.keys(prefix) for table, prefix in _PREFIX.items()}
        self._upto = {table: range_[1] for table, range_ in keys.items() if range_ is not None}
        self._after = {table: range_[0] for table, range_ in keys.items() if range_ is not None}

    def compared(self, progress: Progress) -> Iterator[Compared | Stream | Finding]:
        """Each stream with its row; a stream that has no row by its nature; and orphaned rows."""
        for streams, count in walk(self._store, self._codec, self._anchor, self._part):
            progress(count)
            yield from self._page(streams)
        for table, upto in self._upto.items():
            for key, image in self._rows(table, upto):
                yield from self._orphan(table, key, image)

    def _page(self, streams: Sequence[Stream]) -> Iterator[Compared | Stream | Finding]:
        yield from (s for s in streams if not s.version)  # of an anchor, and gone
        streams = [s for s in streams if s.version]
        for table, belongs in (("delivery_outbox", is_delivery), ("run_records", is_run)):
            mine = [s for s in streams if belongs(s)]
            if mine:
                yield from self._with_rows(table, mine)  # type: ignore[arg-type]
        yield from (s for s in streams if not is_run(s) and not is_delivery(s))

    def _with_rows(self, table: Table, streams: Sequence[Stream]) -> Iterator[Compared | Finding]:
        known = {s.key for s in streams}
        images: dict[str, Image] = {}
        # Read after the events: a sound row is at least as far as they are.
        for key, found in self._rows(table, streams[-1].key):
            if key in known:
                images[key] = found
            else:
                yield from self._orphan(table, key, found)
        for stream in streams:
            image = images.get(stream.key)
            for _ in range(TRIES):
                if image is None or image.version <= stream.version:
                    break
                if not read_on(stream, self._store, self._codec):
                    break
                image = self._store.images_of(table, [stream.key]).get(stream.key)
            yield Compared(stream, table, image)

    def _rows(self, table: Table, upto: str | None) -> Iterator[tuple[str, Image]]:
        """The stored rows behind those that were read before, up to a key."""
        while True:
            rows = self._store.images(table, self._after[table], upto, PAGE)
            yield from rows
            if rows:
                self._after[table] = rows[-1][0]
            if len(rows) < PAGE:
                break
        if upto is not None:
            self._after[table] = max(self._after[table], upto, key=str.encode)

    def _orphan(self, table: Table, key: str, image: Image) -> Iterator[Finding]:
        """That a row has no events, unless its stream was begun since the page was read."""
        stream = _PREFIX[table] + key
        if not self._store.read(stream, 0, 1):
            yield Finding(
                "orphan_record",
                stream,
                image.version,
                f"{stream} has a record of version {image.version} and no events",
                image.head,
            )

    # What is wrong.

    def findings(self, compared: Compared) -> Iterator[Finding]:
        """What is wrong with a stream's events, and with its row against them."""
        stream, table, image = compared
        right = image_of(stream, self._store)
        if stream.record is not None and (stream.findings or image is None or image != right):
            read_again(stream, self._store, self._codec)
        yield from stream.findings
        row = self._row_finding(stream, table, image, right)
        if row is not None:
            yield row

    def _row_finding(
        self, stream: Stream, table: Table, image: Image | None, right: Image | None
    ) -> Finding | None:
        def finding(kind: str, message: str, evidence: str) -> Finding:
            return Finding(kind, stream.name, stream.version, f"{stream.name} {message}", evidence)

        if image is None:
            return finding("missing_record", "has events and no record", stream.head)
        if image.version > stream.version:
            return finding(
                "cut_tail",
                f"has a record of version {image.version}, and its last event is {stream.version}",
                image.head,
            )
        if stream.record is None and not stream.locked:
            return None  # unreadable, and said so
        if image.version == stream.version and image.head != stream.head:
            return finding("head", "does not end with the event its record knows", image.head)
        if stream.record is None:
            return None  # what it should be is not known without the key
        if image != right:
            differing = "; ".join(self._differences(table, stream))
            return finding(
                "record",
                f"has a record that its events do not lead to: {differing}",
                stream.head + differing,
            )
        return None

    def _differences(self, table: Table, stream: Stream) -> Iterable[str]:
        """Field by field; a deadline is no fact, so it is left out."""
        folded = stream.record
        try:
            stored: RunRecord | DeliveryRecord | None
            if table == "run_records":
                stored = self._store.get(stream.key).record
            else:
                stored = self._store.get_delivery(stream.key).record
        except RunStoreError as e:
            if e.code != RUN_INTEGRITY_ERROR and e.reason not in NO_KEY:
                raise
            return [e.message]
        if stored is None or folded is None:
            return ["it is gone"]
        if isinstance(folded, RunRecord) and folded.lease and isinstance(stored, RunRecord):
            stored = stored.with_deadline(folded.lease.expires_at)
        before, after = stored.model_dump(mode="json"), folded.model_dump(mode="json")
        names = [name for name in after if before.get(name) != after[name]]
        return [f"{n} is {before.get(n)!r} and should be {after[n]!r}" for n in names] or [
            "its stored form"
        ]

    # Runs and deliveries against each other.

    def pairs(self, compared: Sequence[Compared]) -> Iterator[Finding]:
        """Ended runs without their delivery, and deliveries without their ended run."""
        records = [(c.stream, c.stream.record) for c in compared]
        yield from self._without_delivery([(s, r) for s, r in records if isinstance(r, RunRecord)])
        yield from self._without_run([(s, r) for s, r in records if isinstance(r, DeliveryRecord)])

    def _without_delivery(self, runs: Sequence[tuple[Stream, RunRecord]]) -> Iterator[Finding]:
        expected = {
            delivery_invocation_id(r.run_id, r.delivery_ref): s
            for s, r in runs
            if r.is_terminal and r.delivery_ref is not None
        }
        rows = self._store.heads_of("delivery_outbox", list(expected)) if expected else {}
        for invocation_id, stream in expected.items():
            if invocation_id not in rows:
                yield Finding(
                    "missing_delivery",
                    stream.name,
                    stream.version,
                    f"{stream.name} has ended, and its delivery {invocation_id} is not there",
                    stream.head,
                )

    def _without_run(
        self, deliveries: Sequence[tuple[Stream, DeliveryRecord]]
    ) -> Iterator[Finding]:
        ids = list({r.run_id for _, r in deliveries})
        rows = self._store.heads_of("run_records", ids) if ids else {}
        for stream, record in deliveries:
            run = rows.get(record.run_id)
            ended = run is not None and run.status in _TERMINAL
            same = run is not None and (run.version, run.head) == (
                record.terminal_version,
                record.terminal_hash,
            )
            if not ended or not same:
                yield Finding(
                    "orphan_delivery",
                    stream.name,
                    1,
                    f"{stream.name} was requested for an end of run {record.run_id!r} that is "
                    "not there",
                    record.terminal_hash,
                )


def verify(
    store: JournalStore,
    codec: PayloadCodec,
    progress: Progress,
    anchor: Anchor | None = None,
    part: Part = WHOLE,
) -> Iterator[Finding]:
    """Everything that is wrong with a journal, or with a part of it, as it is found.

    Chain, contiguity, record == fold (deadlines apart), outbox <-> terminal events, tombstones <->
    the audit events of prunes. Reads pages in short transactions, beside writers, in bounded
    memory.
    """
    checker = Checker(store, codec, anchor, part)
    batch: list[Compared] = []
    for item in checker.compared(progress):
        if isinstance(item, Finding):
            yield item
        elif isinstance(item, Stream):
            yield from item.findings
        else:
            yield from checker.findings(item)
            batch.append(item)
            if len(batch) >= PAGE:
                yield from checker.pairs(batch)
                batch.clear()
    yield from checker.pairs(batch)
    # Of a journal that is read in parts, one part has the audit log.
    if part.after < AUDIT_STREAM and (part.upto is None or part.upto >= AUDIT_STREAM):
        yield from grave_findings(store, codec)
