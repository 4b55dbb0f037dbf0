"""Plays a race in many orders, and checks after each what must hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runjournal import Journal, RunLeaseHandle, RunRecord, RunStoreError
from runjournal.domain.delivery_ledger import Claimed
from runjournal.domain.events import run_stream
from runjournal.projections.whole import expected_delivery

from .races import Race
from .scheduler import Act, Choice, Choose, Order, every_order, serial_orders, some_orders
from .world import World

Verify = Callable[[Journal, str], None]

#: What a race came to: what each command was told, and what the journal then held.
Outcome = tuple[tuple[tuple[str, Any], ...], Any]


@dataclass
class Played:
    """The orders of one race, under one fault."""

    race: Race
    world: World
    verify_run: Verify
    faults: Mapping[str, str] = field(default_factory=dict)
    locked: bool = False
    orders: int = 0
    ends: set[tuple[str, ...]] = field(default_factory=set)
    serial: set[Outcome] = field(default_factory=set)

    def one(self, choose: Choose) -> list[Choice]:
        """Play one order on a new run, and check how it ended."""
        outcome, order = self._play(choose, self.faults)
        told = dict(outcome[0])
        story = " ".join(c.taken for c in order.choices), outcome
        for name, answer in told.items():
            # What was sent may yet arrive, so it can stay open whether it did.
            allowed = self.race.refusals | (
                _OPEN if name in self.race.open and self.faults else frozenset()
            )
            refused = isinstance(answer, str) and answer.startswith("RUN_")
            assert not refused or answer in allowed, (name, story)
        if not self.faults:
            self._check_holder(order, told)
        if not self.faults and not (self.locked and self.race.also):
            assert outcome in self.serial, (story, self.serial)
        self.orders += 1
        return order.choices

    def learn(self) -> None:
        """Note how the orders end in which one command is done before the next begins."""
        names: list[str] = []

        def play(choose: Choose) -> list[Choice]:
            outcome, order = self._play(choose, {})
            names[:] = order.players
            self.serial.add(outcome)
            return order.choices

        play(lambda steps: next(iter(steps)))
        serial_orders(play, names)

    def _play(self, choose: Choose, faults: Mapping[str, str]) -> tuple[Outcome, Order]:
        world, run_id = self.world, f"run-{next(_numbers):06d}"
        world.next_day()
        if self.race.apart:
            world.journals[-1].prune_all(world.now)
        began = world.now
        acts: dict[str, Act] = dict(self.race.prepare(world, run_id))
        if self.locked:
            acts["locker"] = world.lock(run_id)
        journal = world.journals[-1]
        before = _versions(journal, run_id)
        order = Order(acts, world.waiting, faults)
        answers = order.play(choose)
        told = tuple((name, _told(answer)) for name, answer in answers.items())
        end = self._check(journal, run_id, before, answers)
        also = self.race.also if faults or self.locked else frozenset()
        assert end in self.race.ends | also, (end, [c.taken for c in order.choices], told)
        self.ends.add(end)
        state: Any = None
        if end != PRUNED:
            record = journal.get(run_id)
            assert record is not None
            left = (record.lease.expires_at - began).total_seconds() if record.lease else None
            state = record.status, record.fencing_token, record.kind == run_id, left
        return (told, (end, state)), order

    def _check_holder(self, order: Order, told: Mapping[str, Any]) -> None:
        """A holder that was judged after its lease's time, whatever it waited for, was refused."""
        name = self.race.holder
        if name is None:
            return
        judged = [n for n, e in enumerate(order.log) if e in _judged(name)]
        passed = next(n for n, e in enumerate(order.log) if e[1:] == ("takes", "time passes"))
        if judged and judged[-1] > passed:
            assert str(told[name]).startswith("RUN_"), (told, order.log)

    def _check(
        self, journal: Journal, run_id: str, before: Mapping[str, int], answers: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Check the run and its delivery; what has happened to them since."""
        for name, answer in answers.items():
            if isinstance(answer, BaseException) and not isinstance(answer, RunStoreError):
                raise AssertionError(f"{name} raised") from answer
        if journal.store.buried(run_id) is not None:
            assert journal.store.get(run_id).record is None
            assert not journal.store.read(run_stream(run_id))
            return PRUNED
        record = journal.get(run_id)
        assert record is not None
        self.verify_run(journal, run_id)
        history = list(journal.events(run_id))
        _check_fences(history)
        if not self.race.taken_back:
            _check_answers(history, answers)
        told = [_name(e) for e in history if e.originator_version > before.get("run", 0)]
        delivery = expected_delivery(record)
        if delivery is not None:
            key = delivery.removeprefix("delivery/")
            assert journal.delivery(key) is not None
            sent = list(journal.delivery_events(key))
            assert [e.originator_version for e in sent] == list(range(1, len(sent) + 1))
            told += [_name(e) for e in sent if e.originator_version > before.get("delivery", 0)]
        return tuple(told)


#: The steps that neither write nor lock: SQLite's, and the names of statements on Postgres.
READS = frozenset(
    {
        "select",
        "get",
        "get_delivery",
        "read_stream",
        "walk",
        "images_of_run_records",
        "images_of_delivery_outbox",
        "ended",
        "tombstones_of",
        "deliveries_of",
        "live_children",
        "positions",
        "heads_of_run_records",
        "states",
    }
)
PRUNED = ("pruned",)
#: Orders of one race under one fault, beyond which not all of them are played.
MOST = 600
_numbers = itertools.count(1)
_OPEN = frozenset({"RUN_OUTCOME_UNKNOWN/reply_lost"})


def play(
    race: Race, world: World, verify_run: Verify, *, orders: int | None, seed: str
) -> dict[str, str]:
    """Play a race under each of its faults; how many orders of each.

    orders  so many of each that the seed picks, more where nothing fails;
            None: all there are where they are at most MOST, and else MOST and half as many
            that the seed picks

    The count of those that were not all is marked with a plus.
    """
    counts: dict[str, str] = {}
    variants: dict[str, Played] = {"plain": Played(race, world, verify_run)}
    if race.locked:
        variants["locked"] = Played(race, world, verify_run, locked=True)
    for name in race.faulty:
        for fault in ("rolled back", "reply lost"):
            variants[f"{name} {fault}"] = Played(race, world, verify_run, {name: fault})
    for variant, played in variants.items():
        if not played.faults:
            played.learn()
        plain = not played.faults and not played.locked
        most = MOST if orders is None else 3 * orders if plain else 0
        # Who only locks has few orders in which it matters.
        count = (orders or MOST // 2) * (4 if played.locked and orders else 1)
        if most and exhaust(every_order(played.one, independent), most):
            count = 0
        exhaust(some_orders(played.one, count, f"{seed} {variant}"))
        counts[variant] = f"{played.orders}{'+' if count else ''}"
    plain = variants["plain"]
    assert plain.ends == race.ends or orders is not None, race.ends - plain.ends
    verification = world.journals[-1].verify()
    assert not verification.findings, verification.findings
    return counts


def _judged(name: str) -> set[tuple[str, str, str]]:
    """What shows that a command's write was judged: it comes before the end of a transaction."""
    return {(name, "before", "commit"), (name, "before", "rollback")}


def independent(step: str, other: str) -> bool:
    """Whether no order of these two steps of two commands can make a difference.

    What reads waits for nobody, and sees only what was committed.
    """
    kinds = {_kind(step), _kind(other)}
    if "own" in kinds:
        return True
    return kinds <= {"read", "write", "lock"} and kinds & {"read"} != set()


def _kind(step: str) -> str:
    if step == "set_lock_timeout":
        return "own"
    if step in ("commit", "rollback", "let go", "time passes"):
        return step
    if step in ("lock", "begin"):
        return "lock"
    return "read" if step in READS else "write"


def exhaust(orders: Iterator[None], most: int | None = None) -> bool:
    """Play these orders, so many at most; whether these were all."""
    played = sum(1 for _ in itertools.islice(orders, most))
    return most is None or played < most


def _versions(journal: Journal, run_id: str) -> dict[str, str]:
    record = journal.get(run_id)
    if record is None:
        return {}
    delivery = expected_delivery(record)
    sent = journal.delivery(delivery.removeprefix("delivery/")) if delivery else None
    return {"run": record.version, "delivery": sent.version if sent else 0}


def _told(answer: Any) -> Any:
    """An answer without what differs from order to order."""
    match answer:
        case RunStoreError():
            return f"{answer.code}/{answer.reason}"
        case RunLeaseHandle():
            return "lease", answer.fencing_token, answer.attempt, answer.record.version
        case RunRecord():
            return "record", answer.status, answer.version, answer.fencing_token
        case Claimed():
            return "claimed", answer.record.attempts
        case None | str():
            return answer
    return type(answer).__name__


def _name(event: Any) -> str:
    """What happened, in short."""
    words = [event.topic.partition(".")[2]]
    if event.topic != "run.cancelled":
        shown = ("owner", "fencing_token", "key")
        words += [str(getattr(event, name)) for name in shown if hasattr(event, name)]
    if event.topic == "run.approval_decided":
        words.append(f"{event.approval_id}={event.decision}")
    if hasattr(event, "outcome"):
        words.append(event.outcome.code)
    return " ".join(words)


def _check_fences(history: list[Any]) -> None:
    """Whoever wrote as the holder held the run when it was written; `a` writes its own name."""
    holder: str | None = None
    for event in history:
        match event.topic:
            case "run.lease_granted":
                holder = event.owner
            case "run.checkpoint_saved":
                assert event.key == holder, history
            case "run.completed":
                assert event.outcome.code == holder, history
            case "run.suspended" | "run.lease_released" | "run.cancelled" | "run.failed":
                holder = None


def _check_answers(history: list[Any], answers: Mapping[str, Any]) -> None:
    """Nobody was told what the journal does not hold."""
    heads = {event.originator_version: event.hash for event in history}
    for answer in answers.values():
        record = answer.record if isinstance(answer, RunLeaseHandle) else answer
        if isinstance(record, RunRecord):
            assert heads[record.version] == record.head
