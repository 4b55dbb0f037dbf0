"""JournalReadings: everything that a Journal can be asked, changing nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

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
from ..domain.events import CheckpointSaved, Event, RunCompleted, RunQueued, run_stream
from ..domain.ports import Attention, RunStore
from ..domain.record import RunRecord
from ..domain.refusals import pruned
from ..domain.status import RunLifecycleStatus
from .application import JournalApplication
from .codec import OrjsonCodec
from .time_travel import no_run, no_version, version_at

if TYPE_CHECKING:
    from ..projections.stats import JournalStats
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

        None when there is no such run. One that was pruned raises RUN_NOT_FOUND / pruned, and a
        version or time at which it did not exist RUN_NOT_FOUND / version. Leases in the past show
        their folded expiry.
        """
        check_identifier(run_id, "run id")
        if version is None and as_of is None:
            return self._there(run_id)
        if version is not None and as_of is not None:
            raise refuse("argument", "give version or as_of, not both")
        if as_of is not None:
            version = version_at(self._store, self._codec, run_id, check_time(as_of, "as_of"))
        check_integer(version, "version", least=1)
        current = self._there(run_id)
        if current is None:
            return None
        if version is None or version > current.version:
            raise no_version(run_id, f"version {version}", current)
        return self.application.record_at(run_id, version)

    def input(self, run_id: str) -> Any:
        """The run's input.

        Raises RUN_NOT_FOUND / run or pruned, and RUN_INTEGRITY_ERROR as `events`.
        """
        self._stored(run_id)
        queued = self._event(run_id, 1)
        return queued.input if isinstance(queued, RunQueued) else None

    def checkpoint(self, run_id: str, version: int | None = None) -> Any:
        """The state that was saved last, now or as of a version; None where there is none.

        For onlookers: a holder has `lease.checkpoint`. Raises RUN_NOT_FOUND / run, pruned or
        version, and RUN_INTEGRITY_ERROR as `events`.
        """
        record = self._stored(run_id) if version is None else self.get(run_id, version)
        if record is None:
            raise no_run(run_id)
        ref = record.checkpoint_ref
        saved = None if ref is None else self._event(run_id, ref.version)
        return saved.state if isinstance(saved, CheckpointSaved) else None

    def result(self, run_id: str) -> Any:
        """What the run completed with; None until then, and where it ended otherwise.

        Raises RUN_NOT_FOUND / run or pruned, and RUN_INTEGRITY_ERROR as `events`.
        """
        record = self._stored(run_id)
        # Nothing follows an end in the run's stream.
        end = self._event(run_id, record.version) if record.is_terminal else None
        return end.result if isinstance(end, RunCompleted) else None

    def _stored(self, run_id: str) -> RunRecord:
        record = self._there(check_identifier(run_id, "run id"))
        if record is None:
            raise no_run(run_id)
        return record

    def _event(self, run_id: str, version: int) -> Event | None:
        found = self._store.read(run_stream(run_id), version - 1, 1)
        return self._codec.open(found[0]) if found else None

    def _there(self, run_id: str) -> RunRecord | None:
        """The run's record, if it is there. Raises RUN_NOT_FOUND / pruned."""
        record = self._store.get(run_id).record
        if record is None and (left := self._store.buried(run_id)) is not None:
            raise pruned(left)
        return record

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

        Read from all its events and its delivery's. Raises RUN_NOT_FOUND / run or pruned, and
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
            self._there(run_id)
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

    def stats(self) -> JournalStats:
        """How the journal stands: runs, leases, deliveries, projections and size, in numbers.

        Reads the row of each run and each delivery once, and no events: for every minute, not for
        every second. Raises RUN_VALIDATION_ERROR / argument for a store that cannot be counted.
        """
        from ..projections.stats import stats_of  # likewise

        store: Any = self._store
        if not hasattr(store, "survey"):
            raise refuse("argument", "this journal's store cannot be counted")
        return stats_of(store.survey(), store.projection_states())

    def attention(self) -> list[Attention]:
        """Runs that were set aside because they could not be read, with the reason."""
        return self._store.attention()
