"""What concerns the whole journal rather than one run: the stream `journal/audit`."""

from __future__ import annotations

from typing import ClassVar

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


AUDIT_EVENTS: tuple[type[AuditEvent], ...] = (BreakAcknowledged,)
