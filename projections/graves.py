"""What is left of pruned streams, held against the audit events that tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ..domain.audit import AUDIT_STREAM, RunsPruned
from ..domain.errors import RunStoreError
from ..domain.events import RUN_STREAM
from ..domain.ports import JournalStore, PayloadCodec, StoredEvent
from ..domain.tombstone import Tombstone, digest_of
from .findings import NO_KEY, Finding

#: Tombstones, and events of the audit log, read at once.
PAGE = 1000


def grave_findings(store: JournalStore, codec: PayloadCodec) -> Iterator[Finding]:
    """Tombstones that no audit event covers, and pruned streams that are there as something else.

    An audit event that cannot be read is a finding of its own stream's, and covers nothing.
    """
    try:
        yield from _checked(store, codec)
    except RunStoreError as e:
        if e.reason not in NO_KEY:
            raise
        # What the others say is not known either: the digest is over all of a batch.
        yield Finding("no_key", AUDIT_STREAM, None, e.message, "tombstones")


def _checked(store: JournalStore, codec: PayloadCodec) -> Iterator[Finding]:
    # Before the tombstones are read: each was written in one transaction with its event.
    awaited = _prunes(store, codec)
    for audit_version, found in groupby(_tombstones(store), lambda t: t.audit_version):
        batch = list(found)
        awaited.discard(audit_version)
        event = _event(codec, store.read(AUDIT_STREAM, audit_version - 1, 1))
        digest = digest_of(batch)
        if event is None or (event.streams, event.digest) != (len(batch), digest):
            yield _forged(
                audit_version,
                f"event {audit_version} of {AUDIT_STREAM} does not cover the {len(batch):,} "
                "tombstones that refer to it",
                digest,
            )
        yield from _reused(store, batch)
    for audit_version in sorted(awaited):
        yield _forged(
            audit_version,
            f"event {audit_version} of {AUDIT_STREAM} tells of pruned streams, and their "
            "tombstones are not there",
            "",
        )


def _forged(audit_version: int, message: str, evidence: str) -> Finding:
    return Finding("tombstones", AUDIT_STREAM, audit_version, message, evidence)


def _prunes(store: JournalStore, codec: PayloadCodec) -> set[int]:
    """The versions of the audit events that tell of a prune."""
    after, found = 0, set[int]()
    while page := store.read(AUDIT_STREAM, after, PAGE):
        found |= {stored.version for stored in page if _event(codec, [stored]) is not None}
        after = page[-1].version
    return found


def _event(codec: PayloadCodec, stored: Sequence[StoredEvent]) -> RunsPruned | None:
    try:
        event = codec.open(stored[0]) if stored else None
    except RunStoreError:
        return None
    return event if isinstance(event, RunsPruned) else None


def _tombstones(store: JournalStore) -> Iterator[Tombstone]:
    after = (0, "")
    while page := store.tombstones(after, PAGE):
        yield from page
        after = page[-1].audit_version, page[-1].stream


def _reused(store: JournalStore, batch: Sequence[Tombstone]) -> Iterator[Finding]:
    """Runs that are there again under a pruned id. The very run that was pruned may be there."""
    runs = {t.stream.removeprefix(RUN_STREAM): t for t in batch if t.body is not None}
    for run_id, head in store.heads_of("run_records", list(runs)).items():
        tombstone = runs[run_id]
        if (head.version, head.head) != (tombstone.version, tombstone.head):
            yield Finding(
                "reused",
                tombstone.stream,
                head.version,
                f"{tombstone.stream} was pruned at version {tombstone.version}, and another run "
                "of this id is there",
                head.head,
            )
