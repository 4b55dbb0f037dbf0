"""AuditLog: the journal's own stream, `journal/audit`, read and written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from eventsourcing.persistence import IntegrityError
from eventsourcing.persistence import StoredEvent as LibraryEvent

from ..domain.audit import AUDIT_STREAM, BreakAcknowledged
from ..domain.chain import GENESIS, chain_hash
from ..domain.checks import check_identifier, check_text
from ..domain.errors import RUN_CONFLICT, RunStoreError
from ..domain.ports import StoredEvent
from ..projections.streams import NO_KEY, Finding
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

    def _read(self) -> _Log:
        log = _Log(self._store.now())
        while page := self._store.read(AUDIT_STREAM, log.version, PAGE):
            for stored in page:
                log.take(stored, self._codec)
        return log

    def acknowledged(self) -> dict[str, BreakAcknowledged]:
        """What somebody said is known, by fingerprint; what cannot be decrypted is left out."""
        return self._read().known

    def acknowledge(self, findings: Iterable[Finding], actor: str, reason: str) -> None:
        """Put on record that these findings are known, in one append; once is enough for each."""
        check_identifier(actor, "actor")
        check_identifier(reason, "reason")
        found = {f.fingerprint: f for f in findings}
        command_id = RandomIds().new()
        for _ in range(TRIES):
            log = self._read()
            new = [f for fingerprint, f in found.items() if fingerprint not in log.known]
            try:
                self._store.insert_events(self._sealed(log, new, actor, reason, command_id))
                return
            except IntegrityError:
                continue  # somebody else was first
        raise RunStoreError(
            RUN_CONFLICT, "contended", f"{AUDIT_STREAM}: other writers were first {TRIES} times"
        )

    def _sealed(
        self, log: _Log, new: list[Finding], actor: str, reason: str, command_id: str
    ) -> list[LibraryEvent]:
        """The events that acknowledge new findings, linked to the end of the log."""
        version, head = log.version, log.head
        stored: list[LibraryEvent] = []
        for finding in new:
            version += 1
            event = BreakAcknowledged(
                originator_id=AUDIT_STREAM,
                originator_version=version,
                timestamp=log.now,
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


@dataclass(slots=True)
class _Log:
    """The log as far as it was read. `now` is not before its last event."""

    now: datetime
    version: int = 0
    head: str = GENESIS
    known: dict[str, BreakAcknowledged] = field(default_factory=dict)

    def take(self, stored: StoredEvent, codec: OrjsonCodec) -> None:
        self.version = stored.version
        try:
            event = codec.open(stored)
        except RunStoreError as e:
            if e.reason not in NO_KEY:
                raise
            # The log must be able to tell of that very loss.
            self.head = chain_hash(self.head, *stored)
            return
        self.head, self.now = event.hash, max(self.now, event.timestamp)
        if isinstance(event, BreakAcknowledged):
            self.known[event.fingerprint] = event
