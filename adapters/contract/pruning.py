"""Pruning: ended runs go whole, leave a tombstone, and their ids stay taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...domain.audit import AUDIT_STREAM, RunsPruned
from ...domain.chain import GENESIS
from ...domain.delivering import Succeed
from ...domain.delivery import DeliveryRecord, delivery_stream
from ...domain.events import run_stream
from ...domain.history_store import Publication
from ...domain.ports import Guard, RunStore, StoredEvent
from ...domain.prune_store import Burial
from ...domain.pruning import Ended, held_back
from ...domain.record import RunRecord
from ...domain.tombstone import Tombstone, digest_of, run_tombstone
from .deliveries import attempt, due, kept, put_delivery
from .scribe import INSTANT, START, Scribe, after, record_of
from .tools import StoreHooks, put, put_held, race, stored, trace

LIVE = Guard(1, "live")


def put_ended(store: RunStore, scribe: Scribe, run_id: str = "run", **fields: Any) -> RunRecord:
    """A run that was started, held and completed at START."""
    changes = scribe.complete(put_held(store, scribe, run_id, **fields))
    assert store.append(changes, LIVE, START) is not None
    return record_of(changes[0])


def put_delivered(store: RunStore, scribe: Scribe, run_id: str = "run") -> DeliveryRecord:
    """A run that has ended, and whose result has arrived."""
    return deliver(store, scribe, put_delivery(store, scribe, run_id))


def deliver(store: RunStore, scribe: Scribe, sent: DeliveryRecord) -> DeliveryRecord:
    """Its row after an attempt that has arrived."""
    assert store.advance_delivery(scribe.delivery(sent, attempt(scribe), START))
    sent = kept(store, sent.invocation_id)
    done = Succeed(command_id=scribe.new_id(), attempt=1)
    assert store.advance_delivery(scribe.delivery(sent, done, START))
    return kept(store, sent.invocation_id)


class Undertaker:
    """Buries what may go, and puts it on record as event `version` of the audit log."""

    def __init__(self, store: Any, scribe: Scribe, version: int = 1) -> None:
        self._store = store
        self._scribe = scribe
        self._version = version
        self.seen: list[Ended] = []
        self.buried: tuple[Tombstone, ...] = ()

    def prune(self, *run_ids: str) -> bool:
        done: bool = self._store.prune(run_ids, self.bury)
        return done

    def bury(self, ended: Sequence[Ended]) -> Burial | None:
        """The Burying of a prune."""
        self.seen = list(ended)
        going = [e for e in ended if held_back(e, {}) is None]
        left = [tombstone for e in going for tombstone in self._left(e)]
        self.buried = tuple(sorted(left, key=lambda t: t.stream.encode()))
        event = RunsPruned(
            originator_id=AUDIT_STREAM,
            originator_version=self._version,
            timestamp=after(60),
            ended_before=after(30),
            runs=len(going),
            streams=len(left),
            digest=digest_of(self.buried),
        )
        return Burial(self.buried, self._scribe.codec.seal(event, GENESIS)) if going else None

    def _left(self, ended: Ended) -> list[Tombstone]:
        record, sent = ended.record, ended.delivery
        assert record is not None  # or else it is held back
        (last,) = self._store.read(run_stream(record.run_id), record.version - 1, 1)
        event = self._scribe.codec.open(last)
        left = [run_tombstone(record, event, self._version, after(60))]
        if sent is not None:
            stream = delivery_stream(sent.invocation_id)
            left.append(Tombstone(stream, self._version, sent.version, sent.head, None))
        return left


class PruningContract(StoreHooks):
    """The PruneStore part of the port: for a store whose journal can be pruned."""

    def test_only_what_has_ended_before_the_cut_is_found(self, store: Any, scribe: Scribe) -> None:
        put(store, scribe.start("queued"))
        held = put_held(store, scribe, "suspended")
        put(store, scribe.suspend(held), START, LIVE)
        put_held(store, scribe, "running")
        ended = put_ended(store, scribe, "ended")
        assert store.ended(START, None, 10) == []
        (found,) = store.ended(START + INSTANT, None, 10)
        assert (found.run_id, found.ended_at, found.record) == ("ended", START, ended)
        assert (found.delivery, found.live_child) == (None, None)

    def test_it_counts_when_a_run_ended_not_when_it_began(self, store: Any, scribe: Scribe) -> None:
        for name, began, ended in (("long", 0, 50), ("short", 40, 41)):
            record = put(store, scribe.start(name, at=after(began)), after(began))
            record = put(store, scribe.grant(record, after(ended)), after(ended))
            assert store.append(scribe.complete(record), LIVE, after(ended)) is not None
        assert [e.run_id for e in store.ended(after(45), None, 10)] == ["short"]
        assert [e.run_id for e in store.ended(after(51), None, 10)] == ["short", "long"]

    def test_pages_of_ended_runs_neither_skip_nor_repeat(self, store: Any, scribe: Scribe) -> None:
        ids = ["b", "a", "B", "é", "z"]
        for name in ids:
            put_ended(store, scribe, name)
        place, found = None, []
        while page := store.ended(after(1), place, 2):
            found += [e.run_id for e in page]
            place = page[-1].ended_at, page[-1].run_id
        assert found == sorted(ids, key=str.encode)

    def test_what_holds_a_run_is_told(self, store: Any, scribe: Scribe) -> None:
        put_ended(store, scribe, "parent")
        put(store, scribe.start("child", parent_run_id="parent"))
        put_ended(store, scribe, "done", parent_run_id="done-too")
        put_ended(store, scribe, "done-too")
        pending = put_delivery(store, scribe, "pending")
        sent = put_delivery(store, scribe, "sent")
        put_ended(store, scribe, "between")
        sent = deliver(store, scribe, sent)
        found = {e.run_id: e for e in store.ended(after(1), None, 10)}
        assert {name: e.live_child for name, e in found.items() if e.live_child} == {
            "parent": "child"
        }
        assert found["pending"].delivery == pending
        assert found["sent"].delivery == sent
        # The last event of a delivery comes later than the last one of its run.
        assert found["pending"].position < found["between"].position < found["sent"].position
        assert found["parent"].position < found["done"].position < found["pending"].position
        # Under the lock the same is told.
        digger = Undertaker(store, scribe)
        assert digger.prune(*found)
        assert {e.run_id: e for e in digger.seen} == found
        assert {t.stream.partition("/")[2] for t in digger.buried if t.body} == {
            "between", "done", "done-too", "sent"
        }  # fmt: skip

    def test_run_goes_whole(self, store: Any, scribe: Scribe) -> None:
        sent = put_delivered(store, scribe, "gone")
        put_ended(store, scribe, "stays")
        left = trace(store, "stays")
        assert Undertaker(store, scribe).prune("gone")
        assert trace(store, "gone") == (None, ())
        assert not store.read(delivery_stream(sent.invocation_id))
        assert store.get_delivery(sent.invocation_id, START).record is None
        assert due(store, after(1000)) == []
        assert [r.run_id for r in store.runs()] == ["stays"]
        assert trace(store, "stays") == left
        assert [e.version for e in store.read(AUDIT_STREAM)] == [1]

    def test_nothing_is_written_where_nothing_may_go(self, store: Any, scribe: Scribe) -> None:
        put_delivery(store, scribe, "pending")
        put_held(store, scribe, "running")
        digger = Undertaker(store, scribe)
        before = trace(store, "pending"), trace(store, "running")
        assert digger.prune("pending", "running", "unknown")
        assert [e.run_id for e in digger.seen] == ["pending"]
        assert (trace(store, "pending"), trace(store, "running")) == before
        assert not store.read(AUDIT_STREAM)

    def test_tombstone_answers_for_the_run(self, store: Any, scribe: Scribe) -> None:
        assert store.buried("run") is None
        record = put_ended(store, scribe, labels={"team": "a"})
        assert store.buried("run") is None
        Undertaker(store, scribe).prune("run")
        left = store.buried("run")
        assert left is not None
        assert (left.status, left.version, left.head) == (
            record.status,
            record.version,
            record.head,
        )
        assert (left.start_digest, left.labels) == (record.start_digest, {"team": "a"})
        assert left.pruned_at == after(60)
        assert [c.version for c in left.commands] == [1, record.version]
        assert store.buried("Run") is None

    def test_id_is_taken_for_good(self, store: Any, scribe: Scribe) -> None:
        put_ended(store, scribe)
        Undertaker(store, scribe).prune("run")
        assert store.append([scribe.start("run")], None, after(1)) is None
        assert trace(store) == (None, ())
        put(store, scribe.start("run-2"))

    def test_start_and_prune_at_once(self, store: Any, scribe: Scribe) -> None:
        """However close they come together, the id means one thing."""
        for number in range(8):
            name = f"run-{number}"
            put_ended(store, scribe, name)
            digger = Undertaker(store, scribe, number + 1)
            start = scribe.start(name)

            def act(
                who: int, digger: Undertaker = digger, start: Any = start, name: str = name
            ) -> Any:
                return store.append([start], None, START) if who else digger.prune(name)

            pruned, *started = race(4, act)
            assert (pruned, started) == (True, [None] * 3)
            assert trace(store, name) == (None, ())

    def test_lost_audit_version_leaves_no_trace(self, store: Any, scribe: Scribe) -> None:
        put_ended(store, scribe, "first")
        put_ended(store, scribe, "second")
        assert Undertaker(store, scribe).prune("first")
        before = trace(store, "second")
        assert not Undertaker(store, scribe).prune("second")
        assert trace(store, "second") == before
        assert store.buried("second") is None
        assert Undertaker(store, scribe, 2).prune("second")

    def test_prunes_at_once_remove_each_run_once(self, store: Any, scribe: Scribe) -> None:
        names = [f"run-{n}" for n in range(6)]
        for name in names:
            put_ended(store, scribe, name)
        diggers = [Undertaker(store, scribe, version) for version in (1, 2, 3)]

        def dig(who: int) -> bool:
            return any(diggers[who].prune(*names[who:], *names[:who]) for _ in range(20))

        race(3, dig)
        left = store.tombstones((0, ""), 100)
        assert len({t.stream for t in left}) == len(left)
        assert {t.stream for t in left} | {run_stream(r.run_id) for r in store.runs()} == {
            run_stream(name) for name in names
        }

    def test_positions_are_never_handed_out_again(self, store: Any, scribe: Scribe) -> None:
        put_ended(store, scribe, "first")
        last = put_ended(store, scribe, "last")
        (found,) = [e for e in store.ended(after(1), None, 10) if e.run_id == "last"]
        assert Undertaker(store, scribe).prune("first", "last")
        put_ended(store, scribe, "next")
        (later,) = store.ended(after(1), None, 10)
        # The audit event stands between them, and three events of the new run come after it.
        assert later.position >= found.position + 1 + last.version

    def test_tombstones_are_listed_in_their_order(self, store: Any, scribe: Scribe) -> None:
        for version, names in enumerate((("b", "é", "a"), ("c",)), start=1):
            for name in names:
                put_delivered(store, scribe, name)
            assert Undertaker(store, scribe, version).prune(*names)
        place, found = (0, ""), []
        while page := store.tombstones(place, 3):
            found += page
            place = page[-1].audit_version, page[-1].stream
        assert len(found) == 8
        assert found == sorted(found, key=lambda t: (t.audit_version, t.stream.encode()))
        by_name = store.tombstones_of([t.stream for t in found] + ["run/none"])
        assert by_name == {t.stream: t for t in found}

    def test_tombstones_from_elsewhere(self, store: Any, scribe: Scribe) -> None:
        put_ended(store, scribe)
        Undertaker(store, scribe).prune("run")
        (mine,) = store.tombstones((0, ""), 10)
        other = mine._replace(stream="run/other", audit_version=7)
        again = mine._replace(audit_version=9)
        assert store.add_tombstones([other, again, mine]) == 2
        assert store.add_tombstones([other, again, mine]) == 0
        assert store.tombstones_of(["run/run", "run/other"]) == {
            "run/run": again,
            "run/other": other,
        }
        assert store.append([scribe.start("other")], None, START) is None

    def test_only_the_very_run_comes_back(self, store: Any, scribe: Scribe) -> None:
        put_ended(store, scribe)
        events, record = store.read("run/run"), stored(store)
        Undertaker(store, scribe).prune("run")

        def come(history: Sequence[StoredEvent], row: RunRecord) -> bool:
            publication = Publication("run/run", 0, lambda: iter(history), row)
            done: bool = store.publish([publication])
            return done

        assert not come(events[:1], record_of(scribe.start("run")))
        assert trace(store) == (None, ())
        assert come(events, record)
        assert trace(store) == (record, tuple(events))

    def test_run_does_not_come_back_where_another_one_was(self, store: Any, scribe: Scribe) -> None:
        """One tombstone of the name is of another run, be it the last one or not."""
        first = put_ended(store, scribe)
        events = store.read("run/run")
        Undertaker(store, scribe).prune("run")
        (mine,) = store.tombstones((0, ""), 10)
        for version, head in ((9, "f" * 64), (10, mine.head)):
            assert store.add_tombstones([mine._replace(audit_version=version, head=head)]) == 1
            assert not store.publish([Publication("run/run", 0, lambda: iter(events), first)])
            assert trace(store) == (None, ())
