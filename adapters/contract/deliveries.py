"""The outbox: what is due says so, and a version decides who may try it."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from typing import Any

from ...domain.delivering import Attempt, Doubt, Succeed
from ...domain.delivery import DeliveryRecord, DeliveryStatus, delivery_stream, evolve_delivery
from ...domain.ports import Guard, RunStore
from .scribe import INSTANT, START, TTL, Scribe, after
from .tools import (
    StoreHooks,
    put_held,
    race,
    stored,
    trace,
)

PENDING, UNKNOWN = DeliveryStatus.PENDING, DeliveryStatus.UNKNOWN


def put_delivery(
    store: RunStore, scribe: Scribe, run_id: str = "run", ref: str = "inbox"
) -> DeliveryRecord:
    """The delivery of a run that "worker-1" has completed."""
    changes = scribe.complete(put_held(store, scribe, run_id, delivery_ref=ref))
    assert store.append(changes, Guard(1, "live"), START) is not None
    return kept(store, str(changes[1].record.__dict__["invocation_id"]))


def kept(store: RunStore, invocation_id: str) -> DeliveryRecord:
    """The delivery's stored row."""
    record = store.get_delivery(invocation_id, START).record
    assert record is not None
    return record


def folded(store: RunStore, scribe: Scribe, invocation_id: str) -> DeliveryRecord | None:
    """The delivery's row as its events make it."""
    events = [scribe.codec.open(e) for e in store.read(delivery_stream(invocation_id))]
    first: DeliveryRecord | None = None
    return reduce(lambda record, event: evolve_delivery(record, event, event.hash), events, first)


def due(
    store: RunStore, now: datetime, status: DeliveryStatus = PENDING, **options: Any
) -> list[str]:
    """The runs whose deliveries are due."""
    options.setdefault("limit", 100)
    found = store.due_deliveries(status, now=now, **options)
    assert all(kept(store, d.invocation_id).delivery_ref == d.delivery_ref for d in found)
    return [kept(store, d.invocation_id).run_id for d in found]


def attempt(scribe: Scribe, ttl: float = TTL, owner: str = "sender-1") -> Attempt:
    return Attempt(command_id=scribe.new_id(), owner=owner, ttl=ttl)


def doubt(scribe: Scribe, next_attempt_at: datetime | None, error: str = "refused") -> Doubt:
    return Doubt(
        command_id=scribe.new_id(),
        attempt=1,
        error=error,
        definite=True,
        next_attempt_at=next_attempt_at,
    )


class DeliveryContract(StoreHooks):
    """The DeliveryStore part of the port."""

    # The port.

    def test_unknown_delivery_reads_as_nothing(self, store: RunStore) -> None:
        reading = store.get_delivery("delivery-none", START)
        assert (reading.record, reading.now) == (None, START)

    def test_requested_delivery_is_read_back_equal(self, store: RunStore, scribe: Scribe) -> None:
        changes = scribe.complete(put_held(store, scribe, delivery_ref="inbox"))
        assert store.append(changes, Guard(1, "live"), START) is not None
        record = changes[1].record
        assert isinstance(record, DeliveryRecord)
        assert kept(store, record.invocation_id) == record
        assert record == folded(store, scribe, record.invocation_id)
        assert record.terminal_hash == stored(store).head

    def test_delivery_is_due_from_its_instant_on(self, store: RunStore, scribe: Scribe) -> None:
        put_delivery(store, scribe)
        assert due(store, START - INSTANT) == []
        assert due(store, START) == ["run"]
        assert due(store, START, UNKNOWN) == []

    def test_every_field_comes_back_after_an_attempt(self, store: RunStore, scribe: Scribe) -> None:
        record = put_delivery(store, scribe)
        for command in (attempt(scribe), doubt(scribe, after(5), 'a "quoted"\n\u0000 line \u5b57')):
            change = scribe.delivery(record, command, after(1))
            assert store.advance_delivery(change)
            assert isinstance(change.record, DeliveryRecord)
            record = change.record
            assert kept(store, record.invocation_id) == record
            assert record == folded(store, scribe, record.invocation_id)
        assert (record.status, record.attempts, record.version) == ("unknown", 1, 3)

    def test_delivery_with_another_history_of_the_same_length_is_refused(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        """A store that was put back and has gone on otherwise is not the one that was read."""
        record = put_delivery(store, scribe)
        lost = scribe.delivery(record, attempt(scribe, owner="lost")).record
        kept_one = scribe.delivery(record, attempt(scribe, owner="kept"))
        assert store.advance_delivery(kept_one)
        assert isinstance(lost, DeliveryRecord)
        assert not store.advance_delivery(scribe.delivery(lost, doubt(scribe, after(5))))
        here = kept(store, record.invocation_id)
        assert here == kept_one.record
        assert here == folded(store, scribe, record.invocation_id)
        assert store.advance_delivery(scribe.delivery(here, doubt(scribe, after(5))))

    def test_longest_due_come_first_up_to_the_limit(self, store: RunStore, scribe: Scribe) -> None:
        for n, seconds in enumerate((30, 10, 20)):
            record = put_delivery(store, scribe, f"run-{n}")
            tried = scribe.delivery(record, attempt(scribe), START)
            assert store.advance_delivery(tried)
            assert isinstance(tried.record, DeliveryRecord)
            later = scribe.delivery(tried.record, doubt(scribe, after(seconds)), START)
            assert store.advance_delivery(later)
        assert due(store, after(30), UNKNOWN) == ["run-1", "run-2", "run-0"]
        assert due(store, after(30), UNKNOWN, limit=2) == ["run-1", "run-2"]
        assert due(store, after(20), UNKNOWN) == ["run-1", "run-2"]
        assert due(store, after(30)) == []

    def test_only_those_with_a_ref_that_is_asked_for(self, store: RunStore, scribe: Scribe) -> None:
        for ref in ("inbox", "Inbox", "billing"):
            put_delivery(store, scribe, f"run-{ref}", ref)
        assert due(store, START, refs=["inbox"]) == ["run-inbox"]
        assert sorted(due(store, START, refs=["billing", "Inbox"])) == ["run-Inbox", "run-billing"]
        assert due(store, START, refs=[]) == []

    def test_none_with_a_ref_that_is_excluded(self, store: RunStore, scribe: Scribe) -> None:
        for ref in ("inbox", "Inbox", "billing"):
            put_delivery(store, scribe, f"run-{ref}", ref)
        assert due(store, START, but=["Inbox", "billing", "none"]) == ["run-inbox"]
        assert due(store, START, refs=["inbox", "billing"], but=["inbox"]) == ["run-billing"]
        assert due(store, START, but=["inbox", "Inbox"], limit=1) == ["run-billing"]

    def test_attempt_is_not_due_before_it_has_run_out(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_delivery(store, scribe)
        assert store.advance_delivery(scribe.delivery(record, attempt(scribe), START))
        assert due(store, after(TTL) - INSTANT) == []
        assert due(store, after(TTL)) == ["run"]

    def test_lost_version_leaves_no_trace(self, store: RunStore, scribe: Scribe) -> None:
        record = put_delivery(store, scribe)
        late = scribe.delivery(record, attempt(scribe, owner="late"), START)
        assert store.advance_delivery(scribe.delivery(record, attempt(scribe), START))
        before = kept(store, record.invocation_id), tuple(store.read(late.stream))
        assert not store.advance_delivery(late)
        # Also one whose events would be the first of their versions.
        early = late._replace(
            expected_version=7, events=tuple(e._replace(version=8) for e in late.events)
        )
        assert not store.advance_delivery(early)
        assert (kept(store, record.invocation_id), tuple(store.read(late.stream))) == before

    def test_stream_that_is_past_its_row_is_refused(self, store: RunStore, scribe: Scribe) -> None:
        """As after a row was brought back from somewhere: refused like any lost version."""
        record = put_delivery(store, scribe)
        first = scribe.delivery(record, attempt(scribe), START)
        assert store.advance_delivery(first._replace(record=record))
        events = tuple(store.read(first.stream))
        assert not store.advance_delivery(scribe.delivery(record, attempt(scribe), START))
        assert (kept(store, record.invocation_id), tuple(store.read(first.stream))) == (
            record,
            events,
        )

    def test_unknown_delivery_cannot_be_advanced(self, store: RunStore, scribe: Scribe) -> None:
        record = put_delivery(store, scribe).model_copy(update={"invocation_id": "delivery-none"})
        change = scribe.delivery(record, attempt(scribe), START)
        assert not store.advance_delivery(change)
        assert list(store.read(change.stream)) == []

    def test_of_many_who_try_one_sends(self, store: RunStore, scribe: Scribe) -> None:
        record = put_delivery(store, scribe)
        changes = [
            scribe.delivery(record, attempt(scribe, owner=f"sender-{n}"), START) for n in range(12)
        ]
        answers = race(len(changes), lambda n: store.advance_delivery(changes[n]))
        winners = [n for n, answer in enumerate(answers) if answer is True]
        assert len(winners) == 1
        assert answers.count(False) == len(changes) - 1
        assert kept(store, record.invocation_id) == changes[winners[0]].record
        assert len(store.read(changes[0].stream)) == 2

    def test_sending_never_touches_the_run(self, store: RunStore, scribe: Scribe) -> None:
        record = put_delivery(store, scribe)
        before = trace(store)
        for command in (attempt(scribe), Succeed(command_id="done", attempt=1)):
            change = scribe.delivery(record, command, after(1))
            assert store.advance_delivery(change)
            assert isinstance(change.record, DeliveryRecord)
            record = change.record
        assert record.status == "delivered"
        assert trace(store) == before
        assert due(store, after(10 * TTL)) == due(store, after(10 * TTL), UNKNOWN) == []

    def test_pages_of_deliveries(self, store: RunStore, scribe: Scribe) -> None:
        records = [put_delivery(store, scribe, f"run-{n}") for n in range(5)]
        waiting = {records[0].invocation_id, records[3].invocation_id}
        for record in records[:4]:
            tried = scribe.delivery(record, attempt(scribe), START)
            assert store.advance_delivery(tried)
            assert isinstance(tried.record, DeliveryRecord)
            again = None if record.invocation_id in waiting else after(60)
            end = scribe.delivery(tried.record, doubt(scribe, again), START)
            assert store.advance_delivery(end)
        ids = sorted(record.invocation_id for record in records)
        listed = [r.invocation_id for r in store.deliveries()]
        assert listed == ids
        page = store.deliveries(limit=2, after=ids[1])
        assert [r.invocation_id for r in page] == ids[2:4]
        assert [r.run_id for r in store.deliveries(status=PENDING)] == ["run-4"]
        found = store.deliveries(attention=True)
        assert [r.invocation_id for r in found] == sorted(waiting)
        assert all(r.needs_attention for r in found)
        assert len(store.deliveries(attention=True, limit=1)) == 1
        assert store.deliveries(attention=True, after=max(waiting)) == []

    def test_delivery_that_was_set_aside_is_listed_and_comes_back(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_delivery(store, scribe)
        put_delivery(store, scribe, "other")
        store.set_aside_delivery(record.invocation_id, "cannot be read")
        assert due(store, START) == ["other"]
        assert store.deliveries(attention=True) == []
        assert [tuple(a) for a in store.attention()] == [("run", "cannot be read")]
        assert store.advance_delivery(scribe.delivery(record, attempt(scribe), START))
        assert store.attention() == []
        assert due(store, after(TTL)) == ["other", "run"]

    def test_setting_aside_changes_nothing_else(self, store: RunStore, scribe: Scribe) -> None:
        """It is no event: the row stays what its events make it, also one that is delivered."""
        record = put_delivery(store, scribe)
        store.set_aside_delivery(record.invocation_id, "cannot be read")
        assert kept(store, record.invocation_id) == record
        assert store.deliveries(status=PENDING) == [record]
        change = scribe.delivery(record, Succeed(command_id="done", attempt=1), START)
        assert store.advance_delivery(change)
        store.set_aside_delivery(record.invocation_id, "cannot be read")
        assert kept(store, record.invocation_id) == change.record
        store.set_aside_delivery("delivery-none", "nobody knows it")
        assert len(store.attention()) == 1
