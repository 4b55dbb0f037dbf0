"""What concerns the whole journal rather than one run: the stream `journal/audit`."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import AwareDatetime

from .events import Event

AUDIT_STREAM = "journal/audit"


class AuditEvent(Event):
    """An event of the journal's own stream."""


class BreakAcknowledged(AuditEvent):
    """Somebody has looked at something that `verify` found, and says that it is known.

    It stays on record. A further change, at the same place or elsewhere, has another fingerprint.
    """

    topic: ClassVar[str] = "audit.break_acknowledged"

    kind: str
    stream: str
    version: int | None = None
    message: str
    fingerprint: str
    reason: str


class JournalRestored(AuditEvent):
    """The journal was put back to an earlier state, or may have been: a new token epoch began.

    place          "copy": a backup was restored to a new place; "here": the journal was checked
                   where it is, after its server or its file had been replaced
    last_position  the position of the last event that came back
    old_epoch, new_epoch
                   the token epoch before and from now on
    """

    topic: ClassVar[str] = "audit.journal_restored"

    place: Literal["copy", "here"]
    last_position: int
    old_epoch: int
    new_epoch: int
    reason: str


class RunsPruned(AuditEvent):
    """Ended runs were removed, in one transaction with this event.

    ended_before          only runs that had ended before this instant
    runs, streams         how many of them; their deliveries are streams too
    digest                over the tombstones that were left (`tombstone.digest_of`)
    archive               the digest of the export that holds them, if they were archived
    ignored_projections   the projections that need not have seen their events
    """

    topic: ClassVar[str] = "audit.runs_pruned"

    ended_before: AwareDatetime
    runs: int
    streams: int
    digest: str
    reason: str | None = None
    archive: str | None = None
    ignored_projections: tuple[str, ...] = ()


AUDIT_EVENTS: tuple[type[AuditEvent], ...] = (BreakAcknowledged, JournalRestored, RunsPruned)
