"""Contestants of many workers: processes of some threads each, all measured in turns.

Each contestant's processes are started once, connect, warm up, and then rest while others are
measured. A turn lasts a given time; what counts is all that was done, divided by the time until the
last worker had finished.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

#: Does one operation; its argument counts up from 0 in each worker.
Step = Callable[[int], None]
#: Given the database's address and the number of threads, one step for each thread.
Open = Callable[[str, int], AbstractContextManager[Sequence[Step]]]

#: Seconds from the word until all begin at once.
HEAD_START = 0.03


class Workers:
    """One contestant: `processes` x `threads` workers on the database at `url`."""

    def __init__(self, opener: Open, url: str, processes: int, threads: int) -> None:
        context = get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes: list[Any] = []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_process, args=(opener, url, threads, theirs), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            _answer(pipe)

    def rate(self, seconds: float) -> float:
        """Operations per second of all workers together."""
        begin = time.monotonic() + HEAD_START
        for pipe in self._pipes:
            pipe.send((begin, seconds))
        answers = [_answer(pipe) for pipe in self._pipes]
        done = sum(count for count, _ in answers)
        return float(done / (max(end for _, end in answers) - begin))

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _tb: TracebackType | None,
    ) -> None:
        self.close()


def in_turns(
    openers: dict[str, tuple[Open, str, int, int]], seconds: float, rounds: int
) -> dict[str, list[float]]:
    """Seconds per operation of each contestant in each round; every other round backwards."""
    took: dict[str, list[float]] = {name: [] for name in openers}
    with ExitStack() as stack:
        groups = {name: stack.enter_context(Workers(*how)) for name, how in openers.items()}
        for workers in groups.values():
            workers.rate(min(1.0, seconds))
        for number in range(rounds):
            order = list(groups.items())
            for name, workers in order if number % 2 == 0 else reversed(order):
                took[name].append(1 / workers.rate(seconds))
    return took


def _answer(pipe: Connection) -> Any:
    try:
        kind, value = pipe.recv()
    except EOFError:
        raise SystemExit("a worker process ended before its time") from None
    if kind == "failed":
        raise SystemExit(value)
    return value


def _process(opener: Open, url: str, threads: int, pipe: Connection) -> None:
    try:
        with opener(url, threads) as steps:
            counts = [0] * threads
            pipe.send(("ready", None))
            while True:
                begin, seconds = pipe.recv()
                pipe.send(("done", _turn(steps, counts, begin, begin + seconds)))
    except EOFError:
        pass  # the benchmark is over
    except BaseException:  # noqa: BLE001 - whatever it is, the benchmark says it
        pipe.send(("failed", traceback.format_exc()))


def _turn(steps: Sequence[Step], counts: list[int], begin: float, end: float) -> tuple[int, float]:
    """Every thread does its step until the end; how many there were, and when the last ended."""
    before, failures = sum(counts), []

    def work(number: int) -> None:
        step, count = steps[number], counts[number]
        try:
            time.sleep(max(0.0, begin - time.monotonic()))
            while time.monotonic() < end:
                step(count)
                count += 1
        except BaseException as error:  # noqa: BLE001 - raised below, in the process's own thread
            failures.append(error)
        counts[number] = count

    if len(steps) == 1:
        work(0)
    else:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(steps))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
    return sum(counts) - before, time.monotonic()
