"""Reading a journal in parts, by processes beside one another: Python folds on one core only.

Each runs a command of the CLI that opens the journal and serves parts (`serve_parts`): it is told
one part a line, and answers with lines of JSON: {"events": n} as it goes on, {"finding": ...}, and
{"done": ...} or {"error": ...} at last. When this process dies, a child ends at its next line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import IO, Any

from ..domain.errors import RUN_STORE_UNAVAILABLE, RunStoreError
from ..projections.parts import Part

#: A message of a child, with the place of its part among all; None: the child has no more.
Message = tuple[int, dict[str, Any]] | None
#: Parts for each process: one that meets long streams does not leave the others idle.
SHARES = 8
#: Events of the smallest part, so that starting one is nothing beside reading it.
SMALLEST = 10_000


def usable_cores() -> int:
    """How many processes can compute beside one another here."""
    affinity = getattr(os, "sched_getaffinity", None)
    return os.cpu_count() or 1 if affinity is None else len(affinity(0))


class PartProcesses:
    """Processes that read parts of the journal at an address beside one another.

    url      the journal's, as `open_journal` takes it; with RUNJOURNAL_* of the environment beside
    count    how many of them run at once
    schema, pooler  as for `open_journal`
    key_file        the keys of an encrypted journal (`KeyRing.from_file`)
    """

    def __init__(
        self,
        url: str,
        count: int | None = None,
        *,
        schema: str = "public",
        pooler: bool = False,
        key_file: str | None = None,
    ) -> None:
        self._count = usable_cores() if count is None else count
        # Through the environment, where no list of processes shows a password.
        self._environment = os.environ | {"RUNJOURNAL_DB": url, "RUNJOURNAL_SCHEMA": schema}
        self._environment["RUNJOURNAL_POOLER"] = str(int(pooler))
        if key_file is not None:
            self._environment["RUNJOURNAL_KEY_FILE"] = key_file
        self._command = [sys.executable, "-m", "runjournal.adapters.cli.main", "part"]

    def divided(self, store: Any, within: Part) -> list[Part]:
        """The streams of `within` in parts of about the same number of events."""
        events = store.max_notification_id() or 0
        ends = store.divide(max(SMALLEST, events // (self._count * SHARES) + 1))
        inside = [e for e in ends if e > within.after and (within.upto is None or e < within.upto)]
        starts = [within.after, *inside]
        return [Part(a, u) for a, u in zip(starts, [*inside, within.upto], strict=True)]

    def run(
        self, work: Sequence[str], parts: Sequence[Part], stopped: Callable[[], bool]
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """What they say of the parts, as it comes: the place of the part, and the message.

        work     what to do: added to the command
        stopped  asked at each message; once it says so, all end where they are

        Raises what a child was refused, and RUN_STORE_UNAVAILABLE / failed if one died.
        """
        waiting = deque(enumerate(parts))
        said: SimpleQueue[Message] = SimpleQueue()
        children = [self._start(work) for _ in range(min(self._count, len(parts)))]
        leaders = [
            threading.Thread(target=_lead, args=(child, waiting, said), daemon=True)
            for child in children
        ]
        for leader in leaders:
            leader.start()
        try:
            ended = 0
            while ended < len(leaders) and not stopped():
                message = said.get()
                if message is None:
                    ended += 1
                elif "error" in message[1]:
                    raise RunStoreError(*message[1]["error"])
                else:
                    yield message
        finally:
            waiting.clear()
            for child in children:
                child.kill()
            for child, leader in zip(children, leaders, strict=True):
                leader.join()
                child.wait()
                _close(child)

    def _start(self, work: Sequence[str]) -> subprocess.Popen[str]:
        # In a session of its own: Ctrl-C is for this process, which ends the others; and where
        # sessions share the machine, theirs can give way to all others.
        return subprocess.Popen(
            [*self._command, *work],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=self._environment,
            start_new_session=True,
        )


def _lead(
    child: subprocess.Popen[str], waiting: deque[tuple[int, Part]], said: SimpleQueue[Message]
) -> None:
    """Give parts to a child until there are no more, and pass on what it says."""
    assert child.stdin is not None
    assert child.stdout is not None
    at = 0
    try:
        while waiting:
            at, part = waiting.popleft()
            child.stdin.write(json.dumps(part) + "\n")
            child.stdin.flush()
            for line in child.stdout:
                message = json.loads(line)
                said.put((at, message))
                if "done" in message:
                    break
            else:
                raise EOFError
    except IndexError:  # another child took the last one
        pass
    except (OSError, EOFError, ValueError):
        problem = f"a process that read a part of the journal ended with status {child.wait()}"
        said.put((at, {"error": [RUN_STORE_UNAVAILABLE, "failed", problem]}))
    said.put(None)


def _close(child: subprocess.Popen[str]) -> None:
    for pipe in (child.stdin, child.stdout):
        try:
            if pipe is not None:
                pipe.close()
        except OSError:  # what was not sent any more
            pass


def serve_parts(
    read: Callable[[Part, Callable[[dict[str, Any]], None]], dict[str, Any]],
    told: IO[str],
    out: IO[str],
) -> None:
    """Read the parts that are told, one a line, and answer as PartProcesses expects.

    read  reads one part, says what it finds to its second argument, and returns the last word
    """

    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    for line in told:
        try:
            done = read(Part(*json.loads(line)), say)
        except RunStoreError as e:
            say({"error": [e.code, e.reason, e.message]})
            return
        say({"done": done})
