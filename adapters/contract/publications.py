"""Publications: streams that come from elsewhere, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ...domain.delivery import DeliveryRecord, DeliveryStatus
from ...domain.events import run_stream
from ...domain.history_store import Publication
from ...domain.ports import Guard, JournalStore, LeaseRef, StoredEvent
from .claims import granting, names
from .deliveries import due, kept
from .histories import held_elsewhere, publication, stored_events, walked
from .scribe import START, TTL, Scribe, after, record_of
from .tools import StoreHooks, deadline_of, put, put_held, stored, topics, trace

LIVE = Guard(1, "live")


def fail_to_read() -> Iterator[StoredEvent]:
    """A source that breaks off at its first event."""
    return (StoredEvent("", version // 0, "", b"") for version in (1,))


class PublicationContract(StoreHooks):
    """`publish` of the HistoryStore part of the port."""

    def test_published_run_is_here_as_it_was_there(
        self, store: JournalStore, scribe: Scribe
    ) -> None:
        changes = held_elsewhere(scribe, delivery_ref="inbox")
        assert store.publish([publication(*changes)])
        record = record_of(changes[-1])
        assert trace(store) == (record, tuple(stored_events(*changes)))
        # It goes on as any other: its deadline is what its events say.
        assert deadline_of(store) == after(TTL)
        assert store.renew([LeaseRef("run", 1, TTL)], after(1))
        put(store, scribe.checkpoint(record), after(2), LIVE)
        assert topics(store) == ["queued", "lease_granted", "checkpoint_saved"]

    def test_published_run_is_due_as_its_events_say(
        self, store: JournalStore, scribe: Scribe
    ) -> None:
        later = scribe.start("later", available_at=after(9))
        ended = held_elsewhere(scribe, "ended")
        ended += [scribe.complete(record_of(ended[-1]))[0]]
        for changes in ([later], held_elsewhere(scribe, "held"), ended):
            assert store.publish([publication(*changes)])
        grant = granting(scribe, "worker-2")
        assert names(store.claim(None, 9, grant, after(8))) == []
        assert names(store.claim(None, 9, grant, after(9))) == ["later"]
        claimed = store.claim(None, 9, grant, after(TTL))
        assert [(c.record.run_id, c.record.attempt) for c in claimed] == [("held", 2)]

    def test_published_stream_is_gone_on_with(self, store: JournalStore, scribe: Scribe) -> None:
        start, grant = held_elsewhere(scribe)
        put(store, start)
        assert store.publish([publication(grant, stored=1)])
        assert stored(store) == record_of(grant)
        assert list(store.read(run_stream("run"))) == stored_events(start, grant)
        assert store.publish([publication(grant, stored=1)]) is False
        assert topics(store) == ["queued", "lease_granted"]

    def test_publication_at_another_version_leaves_no_trace(
        self, store: JournalStore, scribe: Scribe
    ) -> None:
        put_held(store, scribe, "taken")
        before = trace(store, "taken"), walked(store, 100)
        new = publication(*held_elsewhere(scribe, "new"))
        start, grant = held_elsewhere(scribe, "taken")
        none = held_elsewhere(scribe, "none")
        for lost in (
            publication(start, grant),
            publication(grant, stored=1),
            publication(none[1], stored=1),
        ):
            for together in ([lost], [new, lost], [lost, new]):
                assert store.publish(together) is False
                assert (trace(store, "taken"), walked(store, 100)) == before
                assert store.get("new", START).record is None
        assert store.publish([new, new]) is False
        assert store.publish([new])

    def test_what_reading_raises_is_passed_on(self, store: JournalStore, scribe: Scribe) -> None:
        new = publication(*held_elsewhere(scribe, "new"))
        broken = publication(*held_elsewhere(scribe))._replace(events=fail_to_read)
        with pytest.raises(ZeroDivisionError):
            store.publish([new, broken])
        assert walked(store, 9) == []
        assert store.runs() == []
        assert store.publish([new])

    def test_published_delivery_waits_or_is_due(self, store: JournalStore, scribe: Scribe) -> None:
        for run_id, held in (("due", None), ("held", "from another journal")):
            changes = held_elsewhere(scribe, run_id, delivery_ref="inbox")
            end, request = scribe.complete(record_of(changes[-1]))
            together = [publication(*changes, end), publication(request, held=held)]
            assert store.publish(together)
            assert isinstance(request.record, DeliveryRecord)
            assert kept(store, request.record.invocation_id) == request.record
        assert due(store, START) == ["due"]
        assert due(store, after(9), DeliveryStatus.UNKNOWN) == []
        assert [tuple(mark) for mark in store.attention()] == [("held", "from another journal")]

    def test_stream_without_a_row_is_published(self, store: JournalStore, scribe: Scribe) -> None:
        (event,) = stored_events(scribe.start("run"))
        first, second = (event._replace(stream="journal/audit", version=v) for v in (1, 2))

        def publish(stored: int, event: StoredEvent) -> bool:
            return store.publish(
                [Publication("journal/audit", stored, lambda: iter([event]), None)]
            )

        assert [publish(0, first), publish(0, first), publish(1, second)] == [True, False, True]
        assert list(store.read("journal/audit")) == [first, second]
        assert store.runs() == []
