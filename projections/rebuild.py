"""Rebuilding the records and the outbox in place, from the events, while work goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..domain.history_store import ExclusiveHold, Image, Repair, Table
from ..domain.ports import JournalStore, PayloadCodec
from .doubts import image_of, is_valid, read_again
from .findings import Finding
from .parts import Part
from .streams import Stream, is_delivery, is_run, read_on, walk

#: Rows put right in one transaction: few enough that nobody waits for it.
BATCH = 200
#: How often a row that moves on meanwhile is looked at again.
TRIES = 10


class Repaired(NamedTuple):
    """What a rebuild came to.

    streams   how many it folded
    repaired  how many rows it put right or made
    findings  what it has left as it was, because events and row contradict each other
    """

    streams: int
    repaired: int
    findings: tuple[Finding, ...]


#: The streams of each table, and what little may stand between them: 0 is next after the slash.
EVERY: dict[Table, Part] = {
    "run_records": Part("run/", "run0"),
    "delivery_outbox": Part("delivery/", "delivery0"),
}
#: Findings kept; beyond these only `verify` names them all.
FINDINGS_KEPT = 1000


def rebuild(
    store: JournalStore,
    codec: PayloadCodec,
    table: Table,
    hold: ExclusiveHold,
    progress: Callable[[int], None],
    stopped: Callable[[], bool],
    part: Part | None = None,
) -> Repaired:
    """Fold every stream of one table and put its row right where it differs.

    hold      being the only one who rebuilds it
    progress  called with how many events have been read since the last call
    stopped   asked between pages; once it says so, what is not yet put right stays as it is
    part      only these streams; None: all of the table, which is made first if it is gone

    A row is written under its own version, and a deadline is left alone, so writers and readers go
    on. What cannot be the work of this code is reported and never overwritten: a head that is not
    the last event's hash, and a row of a version that has no event.
    """
    belongs = is_run if table == "run_records" else is_delivery
    streams = repaired = 0
    findings: list[Finding] = []
    if part is None:
        store.recreate(table)
        part = EVERY[table]
    for done, count in walk(store, codec, None, part):
        progress(count)
        if stopped():
            break
        mine = [s for s in done if belongs(s)]
        streams += len(mine)
        for begin in range(0, len(mine), BATCH):
            hold.check()
            put_right, found = _put_right(store, codec, table, mine[begin : begin + BATCH])
            repaired += put_right
            findings += found
    return Repaired(streams, repaired, tuple(findings[:FINDINGS_KEPT]))


def _put_right(
    store: JournalStore, codec: PayloadCodec, table: Table, streams: list[Stream]
) -> tuple[int, list[Finding]]:
    """How many rows were put right, and what must not be."""
    repaired = 0
    findings: list[Finding] = []
    for _ in range(TRIES):
        rows = store.images_of(table, [s.key for s in streams])
        wrong: list[tuple[Stream, Repair]] = []
        behind: list[Stream] = []
        for stream in streams:
            image = rows.get(stream.key)
            found = _contradiction(stream, image)
            if image is not None and image.version > stream.version:
                # Written meanwhile, unless its events are gone.
                if read_on(stream, store, codec):
                    behind.append(stream)
                elif found is not None:
                    findings.append(found)
            elif found is not None:
                findings.append(found)
            elif stream.record is not None and image != image_of(stream, store):
                if not is_valid(stream.record):
                    read_again(stream, store, codec)
                    findings += stream.findings
                    continue
                stored = None if image is None else image.version
                wrong.append((stream, Repair(stream.record, stored)))
        done = store.repair([repair for _, repair in wrong]) if wrong else []
        repaired += sum(done)
        moved = [s for (s, _), written in zip(wrong, done, strict=True) if not written]
        for stream in moved:
            read_on(stream, store, codec)
        streams = behind + moved
        if not streams:
            break
    return repaired, findings  # what is left is written all the time, by code that keeps it right


def _contradiction(stream: Stream, image: Image | None) -> Finding | None:
    """Why the row of this stream must be left as it is, if it must."""
    if stream.findings:
        return stream.findings[0]
    if image is None:
        return None
    if image.version > stream.version:
        return _left("cut_tail", stream, f"has a record of version {image.version}", image.head)
    if image.version == stream.version and image.head != stream.head:
        return _left("head", stream, "does not end as its record knows", image.head)
    return None


def _left(kind: str, stream: Stream, what: str, evidence: str) -> Finding:
    return Finding(
        kind,
        stream.name,
        stream.version,
        f"{stream.name} {what}, and its last event is {stream.version}: left as it is",
        evidence,
    )
