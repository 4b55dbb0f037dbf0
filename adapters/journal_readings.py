"""JournalReadings: everything that a Journal can be asked, changing nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from ..domain.checks import (
    check_choice,
    check_identifier,
    check_identifiers,
    check_integer,
    check_optional,
    check_time,
    refuse,
)
from ..domain.delivery import (
    DeliveryRecord,
    DeliveryStatus,
    delivery_invocation_id,
    delivery_stream,
)
from ..domain.errors import RUN_INTEGRITY_ERROR, RunStoreError
from ..domain.events import Event, run_stream
from ..domain.ports import Attention, RunStore
from ..domain.record import RunRecord
from ..domain.status import RunLifecycleStatus
from .application import JournalApplication
from .codec import OrjsonCodec
from .time_travel import no_run, no_version, version_at

if TYPE_CHECKING:
    from ..projections.timeline_parts import Timeline

#: Events read in one short transaction when a whole stream is read.
PAGE = 500


class JournalReadings:
    """Events, records, the outbox, and what was set aside."""

    _store: RunStore
    _codec: OrjsonCodec
    application: JournalApplication

    def events(self, run_id: str, after_version: int = 0) -> Iterator[Event]:
        """All events of the run after a version, oldest first, in pages and short transactions.

        Each has .topic .originator_version .timestamp .actor .hash and its own fields. An unknown
        run has none. Raises RUN_INTEGRITY_ERROR at an event that cannot be read.
        """
        stream = run_stream(check_identifier(run_id, "run id"))
        after = check_integer(after_version, "after_version", least=0)
        return self._events(stream, after)

    def _events(self, stream: str, after: int) -> Iterator[Event]:
        while page := self._store.read(stream, after, PAGE):
            for stored in page:
                yield self._codec.open(stored)
            after = page[-1].version

    def get(
        self, run_id: str, version: int | None = None, as_of: datetime | None = None
    ) -> RunRecord | None:
        """The run's record: now, or as it was at a version or at a time, folded from its events.

        None when there is no such run. A version or time at which it did not exist raises
        RUN_NOT_FOUND / version. Leases in the past show their folded expiry.
        """
        check_identifier(run_id, "run id")
        if version is None and as_of is None:
            return self._store.get(run_id).record
        if version is not None and as_of is not None:
            raise refuse("argument", "give version or as_of, not both")
        if as_of is not None:
            version = version_at(self._store, self._codec, run_id, check_time(as_of, "as_of"))
        check_integer(version, "version", least=1)
        current = self._store.get(run_id).record
        if current is None:
            return None
        if version is None or version > current.version:
            raise no_version(run_id, f"version {version}", current)
        return self.application.record_at(run_id, version)

    def runs(
        self,
        status: RunLifecycleStatus | str | None = None,
        kind: str | None = None,
        limit: int = 100,
        after: str | None = None,
    ) -> list[RunRecord]:
        """Records in the order of creation. `after` is the run id that the last page ended with."""
        if status is not None:
            status = check_choice(status, RunLifecycleStatus, "status")
        return self._store.runs(
            status=None if status is None else str(status),
            kind=check_optional(kind, "kind"),
            limit=check_integer(limit, "limit", least=1, most=10_000),
            after=check_optional(after, "after"),
        )

    def deliveries(
        self,
        status: DeliveryStatus | str | None = None,
        attention: bool = False,
        limit: int = 100,
        after: str | None = None,
    ) -> list[DeliveryRecord]:
        """Rows of the outbox in the order of their ids, after the id `after`.

        attention  only those that wait for somebody's decision
        """
        return self._store.deliveries(
            status=None if status is None else check_choice(status, DeliveryStatus, "status"),
            attention=bool(attention),
            limit=check_integer(limit, "limit", least=1, most=10_000),
            after=check_optional(after, "after"),
        )

    def delivery(self, invocation_id: str) -> DeliveryRecord | None:
        """The delivery's record; None when there is none."""
        check_identifier(invocation_id, "invocation id")
        return self._store.get_delivery(invocation_id).record

    def delivery_events(self, invocation_id: str) -> Iterator[Event]:
        """All events of a delivery, oldest first; none if it is unknown. As `events`."""
        check_identifier(invocation_id, "invocation id")
        return self._events(delivery_stream(invocation_id), 0)

    def timeline(self, run_id: str) -> Timeline:
        """Who held the run under which token, and what happened around that.

        Read from all its events and its delivery's. Raises RUN_NOT_FOUND / run, and
        RUN_INTEGRITY_ERROR at what cannot be read.
        """
        from ..projections.timeline import timeline  # auditors pay for it, not every worker

        record, now = self._store.get(check_identifier(run_id, "run id"))
        ref = None if record is None else record.delivery_ref
        sent = () if ref is None else self.delivery_events(delivery_invocation_id(run_id, ref))
        try:
            line = timeline(self.events(run_id), sent, now=now, stored=record)
        except (ValueError, ArithmeticError, KeyError) as e:
            # Each event can be read, but they were never written in this order or so.
            message = f"what is stored of run {run_id!r} has no meaning: {e}"
            raise RunStoreError(RUN_INTEGRITY_ERROR, "unreadable_event", message) from e
        if record is None or line is None:
            raise no_run(run_id)
        return line

    def report(self, run_ids: Iterable[str], payloads: bool = True) -> str:
        """The audit page of these runs: one HTML document that needs nothing else.

        payloads  whether inputs, checkpoints' states and results are in it

        It is made for damaged runs too, and then says what is wrong. Raises RUN_NOT_FOUND / run.
        """
        from .report.page import render  # likewise

        ids = check_identifiers(run_ids, "run id")
        return render(self._store, self._codec, ids, payloads)

    def attention(self) -> list[Attention]:
        """Runs that were set aside because they could not be read, with the reason."""
        return self._store.attention()
