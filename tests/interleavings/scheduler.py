"""Runs several commands step by step, in every order that their steps can have.

Each command runs in a thread of its own, and stops before each step: a statement, the begin or the
commit of a transaction. Only one of them is let go at a time, so an order is a list of names, and
the same list gives the same run again. A step that has to wait for another's lock is recognised
by asking the database, and the others go on until it can.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

#: Seconds after which an order that does not go on has failed.
PATIENCE = 30.0
#: Seconds before the database is asked whether a step waits for a lock: most are done by then.
LOOK = 0.002

_here = threading.local()

Act = Callable[[], Any]
Choose = Callable[[Sequence[str]], str]
#: How many of these sessions, by their process ids, wait for a lock.
Waiting = Callable[[Sequence[int]], int]


class Stopped(BaseException):  # noqa: N818 - it ends a thread, and is no error
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
    """Who could go on, and who did."""

    ready: tuple[str, ...]
    taken: str


class Order:
    """One run of a race, in an order that `choose` makes up as it goes."""

    def __init__(
        self, acts: Mapping[str, Act], waiting: Waiting, faults: Mapping[str, str] | None = None
    ) -> None:
        self.stopped = False
        self.choices: list[Choice] = []
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
                self.choices.append(Choice(ready, taken))
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
            self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            for player in self.players.values():
                if player.state == "blocked":
                    player.state = "ready"

    def _ready(self) -> tuple[str, ...]:
        """Who can go on. While all wait for one another the server has to end one of them."""
        end = time.monotonic() + PATIENCE
        while True:
            states = {p.state for p in self.players.values()}
            ready = tuple(n for n, p in self.players.items() if p.state == "ready")
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


def every_order(play: Play) -> Iterator[None]:
    """Play every order there is, each once: the last choice that has another way out is changed."""
    plan: list[str] = []
    while True:
        choices = play(_following(plan))
        yield
        at = len(choices) - 1
        while at >= 0 and choices[at].taken == choices[at].ready[-1]:
            at -= 1
        if at < 0:
            return
        ready, taken = choices[at]
        plan = [c.taken for c in choices[:at]] + [ready[ready.index(taken) + 1]]


def some_orders(play: Play, count: int, seed: str) -> Iterator[None]:
    """Play so many orders that a seed picks; one may come twice."""
    dice = random.Random(seed)
    for _ in range(count):
        play(dice.choice)
        yield


def serial_orders(play: Play, names: Sequence[str]) -> None:
    """Play the orders in which one command is done before the next one begins."""
    for sequence in permutations(names):
        play(lambda ready, sequence=sequence: next(n for n in sequence if n in ready))  # type: ignore[misc]


def _following(plan: Sequence[str]) -> Choose:
    """Follow a plan, and then let the first one go on that can."""
    steps = iter(plan)

    def choose(ready: Sequence[str]) -> str:
        name = next(steps, ready[0])
        assert name in ready, f"the same order went another way: {name} is not among {ready}"
        return name

    return choose
