"""AuditLog: the journal's own stream, `journal/audit`, read and written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from eventsourcing.persistence import IntegrityError
from eventsourcing.persistence import StoredEvent as LibraryEvent

from ..domain.audit import AUDIT_STREAM, AuditEvent, BreakAcknowledged
from ..domain.chain import GENESIS
from ..domain.checks import check_identifier, check_text
from ..domain.errors import RUN_CONFLICT, RunStoreError
from ..domain.events import Event
from ..projections.streams import Finding
from .clocks import RandomIds
from .codec import OrjsonCodec

#: How often the next version is tried when others write as well.
TRIES = 32
PAGE = 500


class AuditLog:
    """What happened to the journal as a whole, as a stream with a chain like every other."""

    def __init__(self, store: Any, codec: OrjsonCodec) -> None:
        self._store = store
        self._codec = codec

    def events(self) -> Iterator[Event]:
        """All of it, oldest first."""
        after = 0
        while page := self._store.read(AUDIT_STREAM, after, PAGE):
            for stored in page:
                yield self._codec.open(stored)
            after = page[-1].version

    def acknowledged(self) -> dict[str, BreakAcknowledged]:
        """What somebody said is known, by fingerprint."""
        return {e.fingerprint: e for e in self.events() if isinstance(e, BreakAcknowledged)}

    def acknowledge(self, finding: Finding, actor: str, reason: str) -> None:
        """Put on record that a finding is known; once is enough."""
        check_identifier(actor, "actor")
        check_identifier(reason, "reason")
        if finding.fingerprint not in self.acknowledged():
            self._append(
                lambda common: BreakAcknowledged(
                    **common,
                    actor=actor,
                    kind=finding.kind,
                    stream=finding.stream,
                    version=finding.version,
                    message=check_text(finding.message, "message") or "",
                    fingerprint=finding.fingerprint,
                    reason=reason,
                )
            )

    def _append(self, make: Callable[[dict[str, Any]], AuditEvent]) -> None:
        command_id = RandomIds().new()
        for _ in range(TRIES):
            last = next(iter(deque(self.events(), maxlen=1)), None)
            now = self._store.now()
            event = make(
                {
                    "originator_id": AUDIT_STREAM,
                    "originator_version": 1 if last is None else last.originator_version + 1,
                    "timestamp": now if last is None else max(now, last.timestamp),
                    "command_id": command_id,
                }
            )
            sealed = self._codec.seal(event, GENESIS if last is None else last.hash)
            stored = LibraryEvent(sealed.stream, sealed.version, sealed.topic, sealed.data)
            try:
                self._store.insert_events([stored])
                return
            except IntegrityError:
                continue  # somebody else was first
        raise RunStoreError(
            RUN_CONFLICT, "contended", f"{AUDIT_STREAM}: other writers were first {TRIES} times"
        )
