"""Claims: the longest due first, nobody twice, and what cannot be read starves nobody."""

from __future__ import annotations

from datetime import datetime

from ...domain.errors import RUN_INTEGRITY_ERROR, RUN_LIMIT_EXCEEDED, RunStoreError
from ...domain.ports import Change, Granted, Granting, Guard, LeaseRef, Reply, RunStore
from ...domain.record import RunRecord
from .scribe import INSTANT, START, TTL, Scribe, after
from .tools import SteppedClock, StoreHooks, ledger_on, put, put_held, race, stored, topics

LIVE = Guard(1, "live")


def granting(scribe: Scribe, owner: str = "worker-1", unreadable: str = "\n") -> Granting:
    """Grants every run to `owner`, except those whose id begins with `unreadable`."""

    def grant(record: RunRecord, now: datetime) -> list[Change]:
        if record.run_id.startswith(unreadable):
            raise RunStoreError(RUN_INTEGRITY_ERROR, "unreadable_event", "a damaged event")
        return [scribe.grant(record, now, owner)]

    return grant


def names(granted: list[Granted]) -> list[str]:
    return [grant.record.run_id for grant in granted]


class ClaimContract(StoreHooks):
    """`claim`, `set_aside` and `attention` of the RunStore port, and claims through a ledger."""

    def test_nothing_due_grants_nothing(self, store: RunStore, scribe: Scribe) -> None:
        assert store.claim(None, 10, granting(scribe), START) == []
        put(store, scribe.start("later", available_at=after(1)))
        assert store.claim(None, 10, granting(scribe), after(1) - INSTANT) == []
        assert topics(store, "later") == ["queued"]

    def test_run_is_due_from_its_available_at_on(self, store: RunStore, scribe: Scribe) -> None:
        put(store, scribe.start("later", available_at=after(1)))
        assert names(store.claim(None, 10, granting(scribe), after(1))) == ["later"]

    def test_claimed_run_is_granted_as_by_append(self, store: RunStore, scribe: Scribe) -> None:
        queued = put(store, scribe.start("run"))
        seen: list[RunRecord] = []

        def grant(record: RunRecord, now: datetime) -> list[Change]:
            seen.append(record)
            assert now == after(3)
            return [scribe.grant(record, now)]

        (granted,) = store.claim(None, 1, grant, after(3))
        assert seen == [queued]
        assert granted.reply == Reply(after(3), after(3 + TTL), True)
        assert granted.record == stored(store)
        assert (granted.record.fencing_token, granted.record.attempt) == (1, 1)
        assert topics(store) == ["queued", "lease_granted"]

    def test_longest_due_comes_first_and_limit_is_kept(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        # Created in another order than they become due.
        for name, due in (("c", 30), ("a", 10), ("d", 40), ("b", 20)):
            put(store, scribe.start(name, available_at=after(due)))
        assert names(store.claim(None, 3, granting(scribe), after(50))) == ["a", "b", "c"]
        assert names(store.claim(None, 3, granting(scribe), after(50))) == ["d"]
        assert names(store.claim(None, 3, granting(scribe), after(50))) == []

    def test_only_the_wanted_kinds_are_claimed(self, store: RunStore, scribe: Scribe) -> None:
        for name, kind, due in (("a1", "a", 3), ("b1", "b", 1), ("a2", "a", 2), ("c1", "c", 0)):
            put(store, scribe.start(name, kind=kind, available_at=after(due)))
        assert names(store.claim(["x"], 9, granting(scribe), after(9))) == []
        assert names(store.claim([], 9, granting(scribe), after(9))) == []
        # Oldest first and limited over all kinds together, not kind by kind.
        assert names(store.claim(["a", "b"], 2, granting(scribe), after(9))) == ["b1", "a2"]
        assert names(store.claim(["a", "b"], 2, granting(scribe), after(9))) == ["a1"]

    def test_held_run_is_due_at_its_deadline(self, store: RunStore, scribe: Scribe) -> None:
        put_held(store, scribe)
        other = granting(scribe, "worker-2")
        assert store.claim(None, 10, other, after(TTL) - INSTANT) == []
        (granted,) = store.claim(None, 10, other, after(TTL))
        assert (granted.record.fencing_token, granted.record.attempt) == (2, 2)
        assert granted.record.lease is not None
        assert granted.record.lease.owner == "worker-2"

    def test_renewed_run_is_not_claimed(self, store: RunStore, scribe: Scribe) -> None:
        put_held(store, scribe)
        store.renew([LeaseRef("run", 1, TTL)], after(TTL - 1))
        assert store.claim(None, 10, granting(scribe, "worker-2"), after(TTL)) == []
        assert names(store.claim(None, 10, granting(scribe, "worker-2"), after(2 * TTL))) == ["run"]

    def test_abandoned_runs_queue_up_with_the_others(self, store: RunStore, scribe: Scribe) -> None:
        put(store, scribe.start("later", available_at=after(TTL + 1)))
        put_held(store, scribe, "abandoned")
        put(store, scribe.start("sooner", available_at=after(TTL - 1)))
        claimed = store.claim(None, 10, granting(scribe, "worker-2"), after(2 * TTL))
        assert names(claimed) == ["sooner", "abandoned", "later"]

    def test_released_run_is_due_again(self, store: RunStore, scribe: Scribe) -> None:
        put(store, scribe.release(put_held(store, scribe), after(5)), after(1), LIVE)
        assert store.claim(None, 10, granting(scribe), after(5) - INSTANT) == []
        (granted,) = store.claim(None, 10, granting(scribe), after(5))
        assert (granted.record.fencing_token, granted.record.attempt) == (2, 1)

    def test_suspended_and_ended_runs_are_never_due(self, store: RunStore, scribe: Scribe) -> None:
        put(store, scribe.suspend(put_held(store, scribe, "suspended")), START, LIVE)
        put(store, scribe.complete(put_held(store, scribe, "completed"))[0], START, LIVE)
        assert store.claim(None, 10, granting(scribe), after(TTL * 1000)) == []

    def test_no_two_claims_get_the_same_run(self, store: RunStore, scribe: Scribe) -> None:
        due = [f"run-{n:02}" for n in range(30)]
        for name in due:
            put(store, scribe.start(name))

        def claim_all(number: int) -> list[str]:
            mine: list[str] = []
            while got := names(store.claim(None, 3, granting(scribe, f"worker-{number}"), START)):
                mine += got
            return mine

        claimed: list[str] = []
        for answer in race(6, claim_all):
            assert not isinstance(answer, RunStoreError)
            claimed += answer
        assert sorted(claimed) == due
        assert all(topics(store, name) == ["queued", "lease_granted"] for name in due)

    def test_one_run_and_many_claims(self, store: RunStore, scribe: Scribe) -> None:
        for n in range(10):
            name = f"run-{n}"
            put(store, scribe.start(name))

            def claim(number: int) -> list[str]:
                return names(store.claim(None, 1, granting(scribe, f"worker-{number}"), START))

            answers = race(4, claim)
            assert sorted(map(str, answers)) == sorted(map(str, [[], [], [], [name]]))

    def test_run_that_cannot_be_granted_is_set_aside(self, store: RunStore, scribe: Scribe) -> None:
        for n in range(6):
            put(store, scribe.start(f"bad-{n}", available_at=after(n)))
        for n in range(3):
            put(store, scribe.start(f"good-{n}", available_at=after(100 + n)))
        grant = granting(scribe, unreadable="bad")
        claimed: list[str] = []
        # A whole page of bad ones stands in front: some call must still get past it.
        for _ in range(6 + 3):
            claimed += names(store.claim(None, 2, grant, after(200)))
        assert claimed == ["good-0", "good-1", "good-2"]
        aside = store.attention()
        assert sorted(mark.run_id for mark in aside) == [f"bad-{n}" for n in range(6)]
        assert all(mark.reason for mark in aside)
        # Set aside means: out of every later claim, whoever asks.
        assert store.claim(None, 10, granting(scribe), after(200)) == []
        assert all(topics(store, f"bad-{n}") == ["queued"] for n in range(6))

    def test_run_that_is_ended_instead_is_passed_over(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        for n in range(3):
            put_held(store, scribe, f"spent-{n}", delivery_ref="inbox" if n else None)
        put(store, scribe.start("good", available_at=after(100)))
        ends: dict[str, list[Change]] = {}

        def grant(record: RunRecord, now: datetime) -> list[Change]:
            if record.run_id == "good":
                return [scribe.grant(record, now)]
            return ends.setdefault(record.run_id, scribe.complete(record))

        assert names(store.claim(None, 1, grant, after(200))) == ["good"]
        assert sorted(ends) == ["spent-0", "spent-1", "spent-2"]
        for run_id, changes in ends.items():
            assert stored(store, run_id) == changes[0].record
            assert topics(store, run_id)[-1] == "completed"
            for request in changes[1:]:
                assert [e.topic for e in store.read(request.stream)] == ["delivery.requested"]
        waiting = store.deliveries(status=None, attention=False, limit=10)
        assert sorted(d.run_id for d in waiting) == ["spent-1", "spent-2"]
        assert store.attention() == []
        assert store.claim(None, 10, grant, after(200)) == []

    def test_run_beyond_a_limit_is_set_aside(self, store: RunStore, scribe: Scribe) -> None:
        put(store, scribe.start("full"))
        put(store, scribe.start("good", available_at=after(1)))

        def grant(record: RunRecord, now: datetime) -> list[Change]:
            if record.run_id == "full":
                raise RunStoreError(RUN_LIMIT_EXCEEDED, "events_per_run", "too many events")
            return [scribe.grant(record, now)]

        assert names(store.claim(None, 1, grant, after(2))) == ["good"]
        assert [mark.run_id for mark in store.attention()] == ["full"]
        assert topics(store, "full") == ["queued"]

    def test_run_set_aside_by_hand_is_not_claimed(self, store: RunStore, scribe: Scribe) -> None:
        assert store.attention() == []
        put(store, scribe.start("aside"))
        put_held(store, scribe, "held")
        put(store, scribe.start("other"))
        store.set_aside("aside", "an operator looks at it")
        store.set_aside("held", "nobody may take it from its holder")
        assert names(store.claim(None, 10, granting(scribe), START)) == ["other"]
        assert [tuple(m) for m in store.attention()] == [("aside", "an operator looks at it")]
        assert names(store.claim(None, 1, granting(scribe), after(TTL))) == ["held"]

    def test_next_append_puts_a_run_back(self, store: RunStore, scribe: Scribe) -> None:
        record = put(store, scribe.start("aside"))
        store.set_aside("aside", "an operator looks at it")
        put(store, scribe.grant(record))
        assert store.attention() == []
        assert names(store.claim(None, 1, granting(scribe), after(TTL))) == ["aside"]

    # Through a ledger.

    def test_ledger_claims_one_or_many(self, store: RunStore, clock: SteppedClock) -> None:
        ledger = ledger_on(store, clock)
        assert ledger.claim() is None
        assert ledger.claim(limit=5) == []
        for name in ("a", "b", "c"):
            ledger.start(name, kind="report", input={"name": name})
            clock.advance(1)
        first = ledger.claim(["report"])
        assert first is not None
        assert (first.run_id, first.input, first.held) == ("a", {"name": "a"}, True)
        first.complete()
        assert [handle.run_id for handle in ledger.claim(limit=5)] == ["b", "c"]
        assert ledger.claim() is None

    def test_ledger_claims_an_abandoned_run_with_its_checkpoint(
        self, store: RunStore, clock: SteppedClock
    ) -> None:
        ledger_on(store, clock).acquire("run").save_checkpoint({"offset": 7})
        clock.advance(TTL)
        handle = ledger_on(store, clock, "worker-2").claim()
        assert handle is not None
        assert (handle.attempt, handle.fencing_token) == (2, 2)
        assert handle.checkpoint == {"offset": 7}
