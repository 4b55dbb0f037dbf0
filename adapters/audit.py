"""AuditLog: the journal's own stream, `journal/audit`, read and written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from eventsourcing.persistence import IntegrityError
from eventsourcing.persistence import StoredEvent as LibraryEvent

from ..domain.audit import AUDIT_STREAM, BreakAcknowledged, JournalRestored
from ..domain.chain import GENESIS
from ..domain.checks import check_identifier, check_text
from ..domain.errors import RUN_CONFLICT, RunStoreError
from ..domain.events import Event
from ..domain.ports import StoredEvent
from ..domain.tokens import POSITIONS_PASSED_OVER
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
        raise _contended()

    def begin_epoch(
        self, place: Literal["copy", "here"], actor: str, reason: str
    ) -> JournalRestored:
        """Begin a new token epoch and put on record why, in one append."""
        command_id = RandomIds().new()
        for _ in range(TRIES):
            log = list(self.events())
            epoch = self._store.read_epoch()
            event = JournalRestored(
                **self._stamp(log, command_id, actor),
                place=place,
                last_position=self._store.max_notification_id() or 0,
                old_epoch=epoch,
                new_epoch=epoch + 1,
                reason=reason,
            )
            sealed = self._codec.seal(event, log[-1].hash if log else GENESIS)
            stored = StoredEvent(*sealed[:4])
            if self._store.raise_epoch(epoch + 1, stored, POSITIONS_PASSED_OVER):
                return event
        raise _contended()

    def _stamp(self, log: list[Event], command_id: str, actor: str) -> dict[str, Any]:
        """What every event of the log has, for the next one."""
        last = log[-1] if log else None
        now = self._store.now()
        return {
            "originator_id": AUDIT_STREAM,
            "originator_version": last.originator_version + 1 if last else 1,
            "timestamp": max(now, last.timestamp) if last else now,
            "command_id": command_id,
            "actor": actor,
        }

    def _sealed(
        self, log: list[Event], new: list[Finding], actor: str, reason: str, command_id: str
    ) -> list[LibraryEvent]:
        """The events that acknowledge new findings, linked to the end of the log."""
        head = log[-1].hash if log else GENESIS
        stamp = self._stamp(log, command_id, actor)
        stored: list[LibraryEvent] = []
        for version, finding in enumerate(new, stamp["originator_version"]):
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


def _contended() -> RunStoreError:
    return RunStoreError(
        RUN_CONFLICT, "contended", f"{AUDIT_STREAM}: other writers were first {TRIES} times"
    )


def _acknowledged(events: Iterable[Event]) -> dict[str, BreakAcknowledged]:
    return {e.fingerprint: e for e in events if isinstance(e, BreakAcknowledged)}
