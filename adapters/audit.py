"""AuditLog: the journal's own stream, `journal/audit`, read and written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from eventsourcing.persistence import IntegrityError
from eventsourcing.persistence import StoredEvent as LibraryEvent

from ..domain.audit import AUDIT_STREAM, BreakAcknowledged, JournalRestored
from ..domain.chain import GENESIS, chain_hash
from ..domain.checks import check_identifier, check_text
from ..domain.errors import RUN_CONFLICT, RunStoreError
from ..domain.ports import StoredEvent
from ..domain.tokens import POSITIONS_PASSED_OVER
from ..projections.findings import NO_KEY, Finding
from .clocks import RandomIds
from .codec import OrjsonCodec

#: How often the next version is tried when others write as well.
TRIES = 32
PAGE = 500


@dataclass(slots=True)
class LogEnd:
    """Where the next event goes: behind `version`, whose hash is `head`. `now` is not before it."""

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

    def stamp(self, actor: str | None, command_id: str) -> dict[str, Any]:
        """What every event of the log has, for the next one."""
        return {
            "originator_id": AUDIT_STREAM,
            "originator_version": self.version + 1,
            "timestamp": self.now,
            "command_id": command_id,
            "actor": actor,
        }


class AuditLog:
    """What happened to the journal as a whole, as a stream with a chain like every other."""

    def __init__(self, store: Any, codec: OrjsonCodec) -> None:
        self._store = store
        self._codec = codec

    def read(self) -> LogEnd:
        """All of it: what is known, and where the next event goes."""
        log = LogEnd(self._store.now())
        while page := self._store.read(AUDIT_STREAM, log.version, PAGE):
            for stored in page:
                log.take(stored, self._codec)
        return log

    def end(self) -> LogEnd:
        """Where the next event goes, read from the last one alone."""
        found = self._store.select_events(AUDIT_STREAM, desc=True, limit=1)
        if not found:
            return LogEnd(self._store.now())
        last = found[0]
        stored = StoredEvent(AUDIT_STREAM, last.originator_version, last.topic, last.state)
        try:
            event = self._codec.open(stored)
        except RunStoreError as e:
            if e.reason not in NO_KEY:
                raise
            return self.read()
        return LogEnd(max(self._store.now(), event.timestamp), stored.version, event.hash)

    def acknowledged(self) -> dict[str, BreakAcknowledged]:
        """What somebody said is known, by fingerprint; what cannot be decrypted is left out."""
        return self.read().known

    def acknowledge(self, findings: Iterable[Finding], actor: str, reason: str) -> None:
        """Put on record that these findings are known, in one append; once is enough for each."""
        check_identifier(actor, "actor")
        check_identifier(reason, "reason")
        found = {f.fingerprint: f for f in findings}
        command_id = RandomIds().new()
        for _ in range(TRIES):
            log = self.read()
            new = [f for fingerprint, f in found.items() if fingerprint not in log.known]
            try:
                self._store.insert_events(self._sealed(log, new, actor, reason, command_id))
                return
            except IntegrityError:
                continue  # somebody else was first
        raise contended()

    def begin_epoch(
        self, place: Literal["copy", "here"], actor: str, reason: str
    ) -> JournalRestored:
        """Begin a new token epoch and put on record why, in one append."""
        command_id = RandomIds().new()
        for _ in range(TRIES):
            log = self.read()
            epoch = self._store.read_epoch()
            event = JournalRestored(
                **log.stamp(actor, command_id),
                place=place,
                last_position=self._store.max_notification_id() or 0,
                old_epoch=epoch,
                new_epoch=epoch + 1,
                reason=reason,
            )
            stored = StoredEvent(*self._codec.seal(event, log.head)[:4])
            if self._store.raise_epoch(epoch + 1, stored, POSITIONS_PASSED_OVER):
                return event
        raise contended()

    def _sealed(
        self, log: LogEnd, new: list[Finding], actor: str, reason: str, command_id: str
    ) -> list[LibraryEvent]:
        """The events that acknowledge new findings, linked to the end of the log."""
        head, stamp = log.head, log.stamp(actor, command_id)
        stored: list[LibraryEvent] = []
        for version, finding in enumerate(new, log.version + 1):
            event = BreakAcknowledged(
                **stamp | {"originator_version": version},
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


def contended() -> RunStoreError:
    """The error for a log to which others wrote first, each time."""
    return RunStoreError(
        RUN_CONFLICT, "contended", f"{AUDIT_STREAM}: other writers were first {TRIES} times"
    )
