"""Rebuilding the records and the outbox in place, from the events, while work goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..domain.history_store import ExclusiveHold, Image, Table
from ..domain.ports import JournalStore, PayloadCodec
from .streams import Finding, Stream, is_delivery, is_run, read_on, walk

#: How often a row that moves on meanwhile is looked at again.
TRIES = 10


class Rebuilt(NamedTuple):
    """What a rebuild came to.

    streams   how many it folded
    repaired  how many rows it put right or made
    findings  what it has left as it was, because events and row contradict each other
    """

    streams: int
    repaired: int
    findings: tuple[Finding, ...]


#: Findings kept; beyond these only `verify` names them all.
FINDINGS_KEPT = 1000


def rebuild(
    store: JournalStore,
    codec: PayloadCodec,
    table: Table,
    hold: ExclusiveHold,
    progress: Callable[[int], None],
    stopped: Callable[[], bool],
) -> Rebuilt:
    """Fold every stream of one table and put its row right where it differs.

    hold      being the only one who rebuilds it
    progress  called with how many events have been read since the last call
    stopped   asked between pages; once it says so, what is not yet put right stays as it is

    A row is written under its own version, and a deadline is left alone, so writers and readers go
    on. What cannot be the work of this code is reported and never overwritten: a head that is not
    the last event's hash, and a row of a version that has no event.
    """
    belongs = is_run if table == "run_records" else is_delivery
    streams = repaired = 0
    findings: list[Finding] = []
    store.recreate(table)
    for done, count in walk(store, codec):
        progress(count)
        if stopped():
            break
        hold.check()
        for stream, image in _with_rows(store, table, [s for s in done if belongs(s)]):
            streams += 1
            outcome = _put_right(store, codec, table, stream, image)
            if isinstance(outcome, Finding):
                findings.append(outcome)
            else:
                repaired += outcome
    return Rebuilt(streams, repaired, tuple(findings[:FINDINGS_KEPT]))


def _with_rows(
    store: JournalStore, table: Table, streams: list[Stream]
) -> Iterator[tuple[Stream, Image | None]]:
    rows = store.images_of(table, [s.key for s in streams]) if streams else {}
    for stream in streams:
        yield stream, rows.get(stream.key)


def _put_right(
    store: JournalStore, codec: PayloadCodec, table: Table, stream: Stream, image: Image | None
) -> bool | Finding:
    """Whether the row was put right; False: it was. A finding: it must not be."""
    for _ in range(TRIES):
        if image is not None and image.version > stream.version:
            if not read_on(stream, store, codec):
                return _contradiction(
                    stream, "cut_tail", f"has a record of version {image.version}", image.head
                )
            image = store.images_of(table, [stream.key]).get(stream.key)
            continue
        if stream.findings or stream.record is None:
            return stream.findings[0]
        right = store.image(stream.record)
        if image == right:
            return False
        if image is not None and image.version == right.version and image.head != right.head:
            return _contradiction(stream, "head", "does not end as its record knows", image.head)
        if store.repair(stream.record, None if image is None else image.version):
            return True
        read_on(stream, store, codec)
        image = store.images_of(table, [stream.key]).get(stream.key)
    return False  # it is written all the time, by code that keeps it right


def _contradiction(stream: Stream, kind: str, what: str, evidence: str) -> Finding:
    return Finding(
        kind,
        stream.name,
        stream.version,
        f"{stream.name} {what}, and its last event is {stream.version}: left as it is",
        evidence,
    )
