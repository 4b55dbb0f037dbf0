"""Runs several commands step by step, in every order that their steps can have.

Each command runs in a thread of its own, and stops before each step: a statement, the begin or the
commit of a transaction. Only one of them is let go at a time, so an order is a list of names, and
the same list gives the same run again, but for who of several gets a lock that they wait for: there
the server has its say. A step that has to wait for another's lock is recognised by asking the
database, and the others go on until it can.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, NamedTuple

#: Seconds after which an order that does not go on has failed.
PATIENCE = 30.0
#: Seconds before the database is asked whether a step waits for a lock: most are done by then.
LOOK = 0.002

_here = threading.local()

Act = Callable[[], Any]
#: Of those who can go on, with the step that each would take, who does.
Choose = Callable[[Mapping[str, str]], str]
#: How many of these sessions, by their process ids, wait for a lock.
Waiting = Callable[[Sequence[int]], int]


class Stopped(BaseException):
    """The order was given up: its threads must end."""


class Player:
    """One command of a race."""

    def __init__(self, name: str, act: Act, order: Order, fault: str | None) -> None:
        self.name = name
        self.state = "new"  # then running, ready, blocked (until `wake`), done
        self.session = 0
        self.answer: Any = None
        self.steps: list[str] = []
        self._fault = fault
        self._act = act
        self._order = order
        self._go = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.state = "running"
        self._thread.start()

    def join(self) -> None:
        self._thread.join(PATIENCE)

    def _run(self) -> None:
        _here.player = self
        try:
            self.answer = self._act()
        except BaseException as error:
            self.answer = error
        self._order.tell(self, "done")

    def step(self, name: str, session: int = 0) -> None:
        """Wait until it is this command's turn to do what is called so, on that session."""
        self.session = session
        self.steps.append(name)
        self._wait("ready")

    def block(self) -> None:
        """Wait until another's transaction has ended, and then for one's turn."""
        self._wait("blocked")

    def wake(self) -> None:
        """A transaction has ended: whoever was blocked may try again."""
        self._order.wake()

    def take_fault(self) -> str | None:
        """What shall go wrong with this commit: once for each command."""
        fault, self._fault = self._fault, None
        return fault

    def go(self) -> None:
        self._go.release()

    def _wait(self, state: str) -> None:
        self._order.tell(self, state)
        if not self._go.acquire(timeout=PATIENCE) or self._order.stopped:
            raise Stopped


def current() -> Player | None:
    """The command that this thread runs; None for a thread that no order governs."""
    return getattr(_here, "player", None)


class Choice(NamedTuple):
    """Who took which step."""

    taken: str
    step: str


class Order:
    """One run of a race, in an order that `choose` makes up as it goes."""

    def __init__(
        self, acts: Mapping[str, Act], waiting: Waiting, faults: Mapping[str, str] | None = None
    ) -> None:
        self.stopped = False
        self.choices: list[Choice] = []
        #: All that happened: who came before which step, and who took it.
        self.log: list[tuple[str, str, str]] = []
        self._changed = threading.Condition()
        self._waiting = waiting
        self.players = {n: Player(n, act, self, (faults or {}).get(n)) for n, act in acts.items()}

    def play(self, choose: Choose) -> dict[str, Any]:
        """Run to the end; what each command returned or raised."""
        for player in self.players.values():
            player.start()
            self._settle()  # one after the other, so that each order begins alike
        try:
            while ready := self._ready():
                taken = choose(ready)
                self.choices.append(Choice(taken, ready[taken]))
                self.log.append((taken, "takes", ready[taken]))
                self.tell(self.players[taken], "running")
                self.players[taken].go()
                self._settle()
        except BaseException:
            self.stopped = True
            for player in self.players.values():
                player.go()
            raise
        for player in self.players.values():
            player.join()
        return {name: player.answer for name, player in self.players.items()}

    def tell(self, player: Player, state: str) -> None:
        with self._changed:
            player.state = state
            if state == "ready":
                self.log.append((player.name, "before", player.steps[-1]))
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            for player in self.players.values():
                if player.state == "blocked":
                    player.state = "ready"

    def _ready(self) -> dict[str, str]:
        """Who can go on. While all wait for one another the server has to end one of them."""
        end = time.monotonic() + PATIENCE
        while True:
            states = {p.state for p in self.players.values()}
            ready = {n: p.steps[-1] for n, p in self.players.items() if p.state == "ready"}
            if ready or states == {"done"}:
                return ready
            assert "running" in states, f"nobody can go on: {self._story()}"
            assert time.monotonic() < end, f"nobody goes on: {self._story()}"
            with self._changed:
                self._changed.wait(LOOK)
            self._settle()

    def _settle(self) -> None:
        """Wait until each command is before a step, has ended, or waits for a lock."""
        end = time.monotonic() + PATIENCE
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: not self._moving(), LOOK):
                    return
                sessions = [p.session for p in self._moving()]
            if all(sessions) and self._waiting(sessions) == len(sessions):
                return
            assert time.monotonic() < end, f"a step does not end: {self._story()}"

    def _moving(self) -> list[Player]:
        return [p for p in self.players.values() if p.state == "running"]

    def _story(self) -> str:
        states = {n: (p.state, p.steps) for n, p in self.players.items()}
        return f"{[c.taken for c in self.choices]} {states}"


#: Plays one order, and gives back the choices that were made.
Play = Callable[[Choose], Sequence[Choice]]
#: Whether it makes no difference which of two commands takes its next step first.
Independent = Callable[[str, str], bool]


@dataclass
class _Fork:
    """A place where several could go on: who did, who has done so in orders played before.

    sleeping  whose step was played before, and nothing since has touched what it touches: to let
              it go on here as well would be the same order once more
    """

    steps: dict[str, str]
    sleeping: set[str]
    taken: str
    done: set[str] = field(default_factory=set)

    def left(self) -> list[str]:
        return [n for n in self.steps if n not in self.done | self.sleeping | {self.taken}]


def every_order(
    play: Play, independent: Independent = lambda _step, _other: False
) -> Iterator[None]:
    """Play every order there is, of those that differ in independent steps only the first.

    After each order the last fork that has another way out is changed (sleep sets, Godefroid).
    """
    forks: list[_Fork] = []
    while True:
        play(_Explorer(forks, independent))
        yield
        while forks and not forks[-1].left():
            forks.pop()
        if not forks:
            return
        last = forks[-1]
        last.done.add(last.taken)
        last.taken = next(n for n in last.steps if n not in last.done | last.sleeping)


class _Explorer:
    """Follows the forks there are, and notes further ones."""

    def __init__(self, forks: list[_Fork], independent: Independent) -> None:
        self._forks = forks
        self._independent = independent
        self._at = 0
        self._again = False

    def __call__(self, steps: Mapping[str, str]) -> str:
        if self._again:
            return next(iter(steps))
        if self._at < len(self._forks) and self._forks[self._at].steps != steps:
            # Of two that wait for one lock the server let the other one have it this time.
            del self._forks[self._at :]
        if self._at == len(self._forks):
            asleep = self._asleep()
            awake = [n for n in steps if n not in asleep]
            if not awake:
                self._again = True  # from here on it is an order that was played before
                return next(iter(steps))
            self._forks.append(_Fork(dict(steps), asleep, awake[0]))
        fork = self._forks[self._at]
        self._at += 1
        return fork.taken

    def _asleep(self) -> set[str]:
        if not self._forks:
            return set()
        before = self._forks[-1]
        step = before.steps[before.taken]
        return {
            name
            for name in before.sleeping | before.done
            if self._independent(before.steps[name], step)
        }


def some_orders(play: Play, count: int, seed: str) -> Iterator[None]:
    """Play so many orders that a seed picks; one may come twice."""
    dice = random.Random(seed)
    for _ in range(count):
        play(lambda steps: dice.choice(list(steps)))
        yield


def serial_orders(play: Play, names: Sequence[str]) -> None:
    """Play the orders in which one command is done before the next one begins."""
    for sequence in permutations(names):
        play(lambda steps, sequence=sequence: next(n for n in sequence if n in steps))  # type: ignore[misc]
