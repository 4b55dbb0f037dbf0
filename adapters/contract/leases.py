"""Leases at the port: guards at the exact boundary, deadlines, renewals."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ...domain.ports import Change, Guard, LeaseRef, Reply, RunStore
from .scribe import INSTANT, START, TTL, Scribe, after, record_of
from .tools import StoreHooks, deadline_of, put, put_held, race, stored, trace, won

LIVE = Guard(1, "live")
EXPIRED = Guard(1, "expired")


def stays_at(deadline: datetime, reply: Reply) -> bool:
    """Whether the reply says that the deadline did not move; it may leave out where it is."""
    return not reply.moved and reply.deadline in (None, deadline)


class LeaseContract(StoreHooks):
    """The guards of `append`, the deadlines it sets, and `renew`."""

    # Guards.

    def test_live_guard_holds_until_the_deadline(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe)
        record = put(store, scribe.checkpoint(record), after(1), LIVE)
        # The last instant before the deadline is still the holder's.
        put(store, scribe.checkpoint(record), after(TTL) - INSTANT, LIVE)

    def test_live_guard_fails_at_the_deadline(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe)
        before = trace(store)
        for now in (after(TTL), after(TTL) + INSTANT, after(TTL * 1000)):
            assert store.append([scribe.checkpoint(record)], LIVE, now) is None
        assert trace(store) == before

    @pytest.mark.parametrize("token", [0, 2, 2**32 + 1])
    def test_live_guard_fails_for_another_token(
        self, store: RunStore, scribe: Scribe, token: int
    ) -> None:
        record = put_held(store, scribe)
        before = trace(store)
        guard = Guard(token, "live")
        assert store.append([scribe.checkpoint(record)], guard, START) is None
        assert trace(store) == before

    def test_no_guard_holds_where_nobody_holds_the_run(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        # The token is the stored one, and the due times lie on either side of the instant.
        for run_id, due in (("due", None), ("later", after(30))):
            held = put_held(store, scribe, run_id)
            released = put(store, scribe.release(held, due), START, LIVE)
            before = trace(store, run_id)
            for guard in (LIVE, EXPIRED):
                assert store.append([scribe.grant(released)], guard, after(1)) is None
            assert trace(store, run_id) == before

    def test_live_guard_does_not_excuse_a_stale_version(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)
        put(store, scribe.checkpoint(record, "first"), START, LIVE)
        before = trace(store)
        assert store.append([scribe.checkpoint(record, "second")], LIVE, START) is None
        assert trace(store) == before

    def test_expired_guard_holds_from_the_deadline_on(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)
        takeover = scribe.grant(record, after(TTL), "worker-2")
        for change in (takeover, scribe.checkpoint(record)):
            assert store.append([change], EXPIRED, after(TTL) - INSTANT) is None
        assert stored(store) == record
        reply = store.append([takeover], EXPIRED, after(TTL))
        assert reply is not None
        assert reply.deadline == after(TTL + TTL)
        taken = stored(store)
        assert (taken.fencing_token, taken.attempt) == (2, 2)

    def test_expired_guard_fails_for_another_token(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe)
        takeover = scribe.grant(record, after(TTL), "worker-2")
        before = trace(store)
        assert store.append([takeover], Guard(2, "expired"), after(TTL)) is None
        assert trace(store) == before

    def test_takeover_does_not_overrule_a_renewal(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe)
        takeover = scribe.grant(record, after(TTL), "worker-2")
        assert store.renew([LeaseRef("run", 1, TTL)], after(TTL - 1))
        # Decided on the old deadline, and the version has not moved: only the guard can tell.
        assert store.append([takeover], EXPIRED, after(TTL)) is None
        assert stored(store).fencing_token == 1

    def test_takeover_race_has_one_winner(self, store: RunStore, scribe: Scribe) -> None:
        record = put_held(store, scribe)
        now = after(TTL)
        changes = [scribe.grant(record, now, f"worker-{n}") for n in range(8)]

        def take(number: int) -> Reply | None:
            return store.append([changes[number]], EXPIRED, now)

        winners = won(race(len(changes), take))
        assert len(winners) == 1
        lease = stored(store).lease
        assert lease is not None
        assert lease.owner == f"worker-{winners[0]}"

    # Deadlines.

    def test_grant_lasts_ttl_from_the_instant_of_the_append(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        queued = put(store, scribe.start("run"))
        # Decided at START, written 5 s later: the event's stamp says one, the store the other.
        reply = store.append([scribe.grant(queued)], None, after(5))
        assert reply == Reply(after(5), after(5 + TTL), True)
        assert reply.time_left == TTL
        assert deadline_of(store) == after(5 + TTL)

    def test_write_leaves_the_deadline_while_half_the_ttl_is_left(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)
        reply = store.append([scribe.checkpoint(record)], LIVE, after(TTL / 2))
        assert reply is not None
        assert stays_at(after(TTL), reply)
        assert deadline_of(store) == after(TTL)

    def test_write_moves_the_deadline_when_less_than_half_is_left(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)
        now = after(TTL / 2) + INSTANT
        reply = store.append([scribe.checkpoint(record)], LIVE, now)
        assert reply == Reply(now, now + timedelta(seconds=TTL), True)
        assert deadline_of(store) == now + timedelta(seconds=TTL)

    def test_deadline_ends_with_the_lease(self, store: RunStore, scribe: Scribe) -> None:
        for run_id, end in (
            ("released", scribe.release),
            ("suspended", scribe.suspend),
            ("completed", lambda record: scribe.complete(record)[0]),
        ):
            change: Change = end(put_held(store, scribe, run_id))
            reply = store.append([change], LIVE, after(1))
            assert reply is not None
            assert (reply.deadline, reply.time_left) == (None, 0)
            assert deadline_of(store, run_id) is None
            assert store.renew([LeaseRef(run_id, 1, TTL)], after(2)) == {}

    # Renewals.

    def test_renewal_moves_the_deadline_and_nothing_else(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        put_held(store, scribe)
        before = trace(store)
        answer = store.renew([LeaseRef("run", 1, TTL)], after(1))
        assert answer == {"run": Reply(after(1), after(1 + TTL), True)}
        renewed = trace(store)
        assert renewed.events == before.events
        assert renewed.record is not None
        assert before.record is not None
        assert renewed.record.lease is not None
        assert renewed.record.lease.expires_at == after(1 + TTL)
        # No event, no version, no stamp: only the deadline is another.
        assert renewed.record.model_copy(update={"lease": before.record.lease}) == before.record

    def test_renewal_never_moves_a_deadline_backwards(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        put_held(store, scribe)
        for ref, now in ((LeaseRef("run", 1, 1.0), START), (LeaseRef("run", 1, TTL), after(-9))):
            answer = store.renew([ref], now)
            assert set(answer) == {"run"}
            assert stays_at(after(TTL), answer["run"])
            assert deadline_of(store) == after(TTL)

    def test_renewal_at_the_deadline_comes_too_late(self, store: RunStore, scribe: Scribe) -> None:
        put_held(store, scribe)
        for now in (after(TTL), after(TTL) + INSTANT, after(TTL * 1000)):
            assert store.renew([LeaseRef("run", 1, TTL)], now) == {}
        assert deadline_of(store) == after(TTL)
        # The instant before is still in time.
        assert store.renew([LeaseRef("run", 1, TTL)], after(TTL) - INSTANT)

    @pytest.mark.parametrize("token", [0, 2, 2**32 + 1])
    def test_renewal_under_another_token_is_unknown(
        self, store: RunStore, scribe: Scribe, token: int
    ) -> None:
        put_held(store, scribe)
        assert store.renew([LeaseRef("run", token, TTL)], after(1)) == {}
        assert deadline_of(store) == after(TTL)

    def test_renewal_of_a_run_nobody_holds_is_unknown(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        put(store, scribe.start("queued"))
        refs = [LeaseRef("queued", 0, TTL), LeaseRef("missing", 1, TTL)]
        assert store.renew(refs, after(1)) == {}
        assert deadline_of(store, "queued") is None

    def test_many_leases_are_renewed_at_once(self, store: RunStore, scribe: Scribe) -> None:
        names = [f"run-{n}" for n in range(40)]
        for name in names:
            put_held(store, scribe, name)
        refs = [LeaseRef(name, 1 + (n % 4 == 0), TTL) for n, name in enumerate(names)]
        answer = store.renew(refs, after(10))
        assert set(answer) == {name for n, name in enumerate(names) if n % 4}
        assert set(answer.values()) == {Reply(after(10), after(10 + TTL), True)}
        assert store.renew([], after(10)) == {}

    def test_renewals_and_writes_do_not_disturb_one_another(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        record = put_held(store, scribe)

        def act(number: int) -> int:
            nonlocal record
            for step in range(20):
                if number:
                    assert store.renew([LeaseRef("run", 1, TTL)], after(1 + step / 100))
                else:
                    record = put(store, scribe.checkpoint(record, step), after(1), LIVE)
            return number

        assert race(3, act) == [0, 1, 2]
        assert stored(store).version == record.version == 22
        assert deadline_of(store) == after(1.19 + TTL)

    # The store's own clock.

    def test_without_a_given_instant_the_store_judges_by_its_own_clock(
        self, store: RunStore, scribe: Scribe
    ) -> None:
        earliest = store.now()
        assert earliest.utcoffset() is not None
        queued = record_of(scribe.start("run", earliest))
        assert store.append([scribe.start("run", earliest)]) is not None
        reply = store.append([scribe.grant(store.get("run").record or queued, earliest)])
        assert reply is not None
        assert abs(reply.now - earliest) < timedelta(seconds=30)
        assert reply.deadline == reply.now + timedelta(seconds=TTL)
        renewed = store.renew([LeaseRef("run", 1, TTL * 2)])["run"]
        assert renewed.moved
        assert renewed.now >= reply.now
        assert store.get("run").now >= renewed.now
