"""Appends: created once, swapped at a version, all of it or nothing."""

from __future__ import annotations

import pytest

from ...domain.events import run_stream
from ...domain.ports import Change, Guard, Reply, RunStore, SealedEvent
from .scribe import INSTANT, START, TTL, Scribe, after, record_of
from .tools import StoreHooks, put, put_held, race, stored, trace, won

#: Ids that a careless collation, pattern or encoding takes for one another.
LOOKALIKES = (
    "Report",
    "report",
    "report\u00a0x",
    "report x",
    "re_ort",
    "re%ort",
    "caf\u00e9",
    "cafe\u0301",
    "run/report",
    "delivery/report",
    "\u4e00\U0001f409" * 36,
    "x" * 255,
)


class AppendContract(StoreHooks):
    """`append` and `get` of the RunStore port."""

    def test_unknown_run_reads_as_nothing(self, store: RunStore) -> None:
        reading = store.get("unknown", START)
        assert reading.record is None
        assert reading.now == START
        assert list(store.read(run_stream("unknown"))) == []

    def test_created_run_is_read_back_equal(self, store: RunStore, scribe: Scribe) -> None:
        change = scribe.start(
            "run",
            kind="report",
            labels={"team": "\u5206\u6790", "quote": 'it\'s "so"'},
            authority_ref="on-behalf",
            delivery_ref="inbox",
            parent_run_id="parent",
            available_at=after(30),
            actor="someone",
        )
        reply = store.append([change], None, START)
        assert reply is not None
        assert (reply.now, reply.deadline) == (START, None)
        assert reply.time_left == 0
        assert stored(store) == change.record

    def test_stamps_keep_their_microseconds_and_zone(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe)
        read = stored(store)
        assert read == record
        assert read.updated_at.utcoffset() is not None
        assert read.updated_at.microsecond == START.microsecond

    def test_run_is_created_only_once(self, store: RunStore, scribe: Scribe) -> None:
        put(store, scribe.start("run", kind="first"))
        before = trace(store)
        assert store.append([scribe.start("run", kind="second")], None, START) is None
        assert trace(store) == before

    def test_create_race_has_one_winner(self, store: RunStore, scribe: Scribe) -> None:
        changes = [scribe.start("run", kind=f"kind-{n}") for n in range(12)]

        def create(number: int) -> Reply | None:
            return store.append([changes[number]], None, START)

        winners = won(race(len(changes), create))
        assert len(winners) == 1
        assert stored(store) == changes[winners[0]].record
        assert len(trace(store).events) == 1

    def test_append_at_the_version_is_accepted(self, store: RunStore, scribe: Scribe) -> None:
        record = put(store, scribe.start("run"))
        granted = put(store, scribe.grant(record))
        assert granted.version == 2
        assert stored(store) == granted
        assert [event.version for event in trace(store).events] == [1, 2]

    def test_stale_version_is_refused_without_trace(self, store: RunStore, scribe: Scribe) -> None:
        first = put_held(store, scribe)
        put(store, scribe.checkpoint(first, "new"))
        before = trace(store)
        assert store.append([scribe.checkpoint(first, "old")], None, START) is None
        assert trace(store) == before

    def test_another_history_of_the_same_length_is_refused(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        """A store that was put back and has gone on otherwise is not the one that was read."""
        held = put_held(store, scribe)
        lost, kept = scribe.checkpoint(held, "lost"), scribe.checkpoint(held, "kept")
        here = put(store, kept)
        before = trace(store)
        for guard in (Guard(1, "live"), None):
            late = scribe.checkpoint(record_of(lost), "late")
            assert store.append([late], guard, START) is None
        ending = scribe.complete(record_of(lost))
        assert store.append(ending, Guard(1, "live"), START) is None
        takeover = scribe.grant(record_of(lost), after(TTL))
        assert store.append([takeover], Guard(1, "expired"), after(TTL)) is None
        assert trace(store) == before
        put(store, scribe.checkpoint(here, "on"))

    def test_version_that_is_not_there_yet_is_refused(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        first = put_held(store, scribe)
        skipped = record_of(scribe.checkpoint(first, "never stored"))
        before = trace(store)
        assert store.append([scribe.checkpoint(skipped, "after it")], None, START) is None
        assert trace(store) == before

    def test_next_version_of_an_unknown_run_is_refused(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        unstored = record_of(scribe.start("run"))
        assert store.append([scribe.grant(unstored)], None, START) is None
        assert trace(store) == (None, ())

    def test_concurrent_swaps_at_one_version_have_one_winner(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)
        for _ in range(5):
            changes = [scribe.checkpoint(record, n) for n in range(8)]

            def swap(number: int, changes: list[Change] = changes) -> Reply | None:
                return store.append([changes[number]], Guard(1, "live"), START)

            winners = won(race(len(changes), swap))
            assert len(winners) == 1
            record = record_of(changes[winners[0]])
            assert stored(store) == record
        assert [event.version for event in trace(store).events] == [*range(1, 8)]

    def test_retrying_writers_leave_contiguous_versions(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        put_held(store, scribe)

        def save_three(writer: int) -> int:
            saved = 0
            while saved < 3:
                change = scribe.checkpoint(stored(store), [writer, saved])
                saved += store.append([change], None, START) is not None
            return saved

        assert race(4, save_three) == [3, 3, 3, 3]
        versions = [event.version for event in trace(store).events]
        assert versions == [*range(1, 2 + 12 + 1)]
        assert stored(store).version == versions[-1]

    def test_several_events_land_together(self, store: RunStore, scribe: Scribe) -> None:
        queued = scribe.start("run")
        granted = scribe.grant(record_of(queued))
        both = Change(queued.stream, 0, queued.events + granted.events, granted.record)
        reply = store.append([both], None, START)
        assert reply is not None
        assert reply.deadline is not None
        assert [event.version for event in trace(store).events] == [1, 2]
        assert stored(store).version == 2

    @pytest.mark.parametrize(
        "data", [b"", b"{}", bytes(range(256)), b"\0" * 3, b"\xff\xfe\0{", b"x" * (1 << 20)]
    )
    def test_event_bytes_come_back_exactly(
        self, store: RunStore, scribe: Scribe, data: bytes
    ) -> None:
        # To a store the bytes are opaque: a cipher or a compressor may have been at them.
        change = scribe.start("run")
        event = SealedEvent(change.stream, 1, "host.anything", data, "f" * 64)
        put(store, change._replace(events=(event,)))
        (read,) = store.read(change.stream)
        assert read == (change.stream, 1, "host.anything", data)
        assert type(read.data) is bytes

    def test_lookalike_ids_are_different_runs(self, store: RunStore, scribe: Scribe) -> None:
        for run_id in LOOKALIKES:
            put(store, scribe.start(run_id))
        for run_id in LOOKALIKES:
            found = trace(store, run_id)
            assert found.record is not None
            assert found.record.run_id == run_id
            assert [event.stream for event in found.events] == [run_stream(run_id)]

    def test_run_and_delivery_land_together(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe, delivery_ref="inbox")
        changes = scribe.complete(record)
        reply = store.append(changes, Guard(1, "live"), START)
        assert reply is not None
        assert reply.deadline is None
        assert stored(store) == changes[0].record
        assert [event.topic for event in store.read(changes[1].stream)] == ["delivery.requested"]

    def test_lost_delivery_guard_leaves_the_run_alone(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe, delivery_ref="inbox")
        run, delivery = scribe.complete(record)
        self._occupy(store, scribe, delivery)
        before = trace(store), tuple(store.read(delivery.stream))
        assert store.append([run, delivery], Guard(1, "live"), START) is None
        assert (trace(store), tuple(store.read(delivery.stream))) == before

    def test_lost_run_guard_leaves_the_delivery_alone(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe, delivery_ref="inbox")
        late = scribe.complete(record)
        put(store, scribe.checkpoint(record, "in between"))
        before = trace(store)
        assert store.append(late, Guard(1, "live"), START) is None
        assert trace(store) == before
        assert list(store.read(late[1].stream)) == []

    def test_lost_lease_guard_leaves_both_alone(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe, delivery_ref="inbox")
        changes = scribe.complete(record)
        before = trace(store)
        for guard, now in (
            (Guard(2, "live"), START),
            (Guard(1, "live"), after(60)),
            (Guard(1, "expired"), after(60) - INSTANT),
        ):
            assert store.append(changes, guard, now) is None
            assert trace(store) == before
            assert list(store.read(changes[1].stream)) == []

    def _occupy(self, store: RunStore, scribe: Scribe, delivery: Change) -> None:
        """Let the delivery's stream exist already: the end of another run writes it."""
        ended, _ = scribe.complete(put_held(store, scribe, "other", delivery_ref="inbox"))
        assert store.append([ended, delivery], Guard(1, "live"), START) is not None
