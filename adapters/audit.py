"""AuditLog: the journal's own stream, `journal/audit`, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from eventsourcing.persistence import IntegrityError
from eventsourcing.persistence import StoredEvent as LibraryEvent

from ..domain.audit import AUDIT_STREAM, BreakAcknowledged
from ..domain.chain import GENESIS
from ..domain.checks import check_identifier, check_text
from ..domain.errors import RUN_CONFLICT, RunStoreError
from ..domain.events import Event
from ..domain.ports import StoredEvent
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

    def end(self) -> tuple[datetime, int, str]:
        """Where the next event goes: the time to stamp it with, the last version, its hash."""
        now: datetime = self._store.now()
        found = self._store.select_events(AUDIT_STREAM, desc=True, limit=1)
        if not found:
            return now, 0, GENESIS
        stored = found[0]
        last = self._codec.open(
            StoredEvent(AUDIT_STREAM, stored.originator_version, stored.topic, stored.state)
        )
        return max(now, last.timestamp), last.originator_version, last.hash

    def acknowledged(self) -> dict[str, BreakAcknowledged]:
        """What somebody said is known, by fingerprint."""
        return _acknowledged(self.events())

    def acknowledge(self, findings: Iterable[Finding], actor: str, reason: str) -> None:
        """Put on record that these findings are known, in one append; once is enough for each."""
        check_identifier(actor, "actor")
        check_identifier(reason, "reason")
        found = {f.fingerprint: f for f in findings}
        command_id = RandomIds().new()
        for _ in range(TRIES):
            log = list(self.events())
            known = _acknowledged(log)
            new = [f for fingerprint, f in found.items() if fingerprint not in known]
            try:
                self._store.insert_events(self._sealed(log, new, actor, reason, command_id))
                return
            except IntegrityError:
                continue  # somebody else was first
        raise RunStoreError(
            RUN_CONFLICT, "contended", f"{AUDIT_STREAM}: other writers were first {TRIES} times"
        )

    def _sealed(
        self, log: list[Event], new: list[Finding], actor: str, reason: str, command_id: str
    ) -> list[LibraryEvent]:
        """The events that acknowledge new findings, linked to the end of the log."""
        now, version, head = self._store.now(), 0, GENESIS
        if log:
            last = log[-1]
            now, version, head = max(now, last.timestamp), last.originator_version, last.hash
        stored: list[LibraryEvent] = []
        for finding in new:
            version += 1
            event = BreakAcknowledged(
                originator_id=AUDIT_STREAM,
                originator_version=version,
                timestamp=now,
                command_id=command_id,
                actor=actor,
                kind=finding.kind,
                stream=finding.stream,
                version=finding.version,
                message=check_text(finding.message, "message") or "",
                fingerprint=finding.fingerprint,
                reason=reason,
            )
            sealed = self._codec.seal(event, head)
            head = sealed.hash
            stored.append(LibraryEvent(*sealed[:4]))
        return stored


def _acknowledged(events: Iterable[Event]) -> dict[str, BreakAcknowledged]:
    return {e.fingerprint: e for e in events if isinstance(e, BreakAcknowledged)}
