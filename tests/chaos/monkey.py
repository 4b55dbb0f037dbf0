"""Many processes on one journal, and whatever can happen to them, at random."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import psycopg

from ..faults.checker import Ack
from ..postgres.servers import OwnServer
from .network import Network

PROCESS = Path(__file__).with_name("chaos_process.py")
#: Seconds that a host's clock steps by, in every other process on Postgres.
STEPS = (3600.0, -3600.0)
#: Seconds that something hangs: shorter and longer than a lease lasts.
HANG = (0.2, 3.0)


class Member(NamedTuple):
    role: str
    process: subprocess.Popen[bytes]
    errors: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


class Monkey:
    """Starts processes and disturbs them; `faults` counts what it did by kind.

    network, server  what a journal on Postgres is disturbed through; half of the processes are
                     behind the network
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        roles: dict[str, int],
        chance: random.Random,
        network: Network | None = None,
        server: OwnServer | None = None,
    ) -> None:
        self.url = url
        self.faults: Counter[str] = Counter()
        self.started = 0
        self._folder = folder
        self._chance = chance
        self._network = network
        self._server = server
        self._choosing = threading.Lock()
        self.members = [self._start(role) for role, count in roles.items() for _ in range(count)]

    # What happens.

    def disturb(self, seconds: float) -> None:
        """Every kind of fault once, side by side; then one after the other, now and then two."""
        kinds: list[tuple[Callable[[], None], int]] = [(self.kill, 4), (self.stop, 4)]
        if self._server is None:
            kinds += [(self.lock, 2), (self.fold_log, 2)]
        else:
            kinds += [(self.restart, 1), (self.terminate, 4), (self.slow, 2), (self.cut, 2)]
            kinds += [(self.lose_servers, 2), (self.lose_clients, 2)]
        acts, weights = [act for act, _ in kinds], [weight for _, weight in kinds]
        end = time.monotonic() + seconds
        hanging = []
        for act in self._chance.sample(acts, len(acts)):
            hanging.append(self._begin(act))
            time.sleep(self._chance.uniform(0.1, 0.4))
        while time.monotonic() < end:
            (act,) = self._chance.choices(acts, weights)
            hanging.append(self._begin(act))
            if self._chance.random() < 0.7 or act == self.restart:
                hanging[-1].join()
            time.sleep(self._chance.uniform(0, 0.3))
        for thread in hanging:
            thread.join()

    def _begin(self, act: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=act)
        thread.start()
        return thread

    def kill(self) -> None:
        """kill -9, and another process in its place."""
        with self._choosing:
            member = self._any()
            self.members.remove(member)
        member.kill()
        self.faults[f"kill -9 of a {member.role}"] += 1
        self.members.append(self._start(member.role))

    def stop(self) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        process = self._any().process
        process.send_signal(signal.SIGSTOP)
        self._hang()
        process.send_signal(signal.SIGCONT)
        self.faults["SIGSTOP and SIGCONT"] += 1

    def lock(self) -> None:
        """Somebody else writes to the file for a while, and rolls back."""
        with (
            closing(sqlite3.connect(self._path(), timeout=5, isolation_level=None)) as other,
            suppress(sqlite3.OperationalError),  # a stopped process has it
        ):
            other.execute("BEGIN IMMEDIATE")
            self._hang()
            other.execute("ROLLBACK")
            self.faults["file locked"] += 1

    def fold_log(self) -> None:
        """The log is folded into the file, as a backup may have it."""
        with closing(sqlite3.connect(self._path(), timeout=1)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self.faults["log folded"] += 1

    def restart(self) -> None:
        """Postgres crashes, and recovers from its log."""
        assert self._server is not None
        self._server.restart("immediate")
        self.faults["Postgres restarted"] += 1

    def terminate(self) -> None:
        """Backends are ended by an administrator."""
        assert self._server is not None
        with (
            suppress(psycopg.OperationalError),
            psycopg.connect(self._server.url, autocommit=True) as conn,
        ):
            ended = conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'runjournal-%' ORDER BY random() LIMIT 2"
            ).fetchall()
            self.faults["backend terminated"] += len(ended)

    def slow(self) -> None:
        assert self._network is not None
        self._network.delay = self._chance.uniform(0.01, 0.3)
        self._hang()
        self._network.delay = 0.0
        self.faults["network slow"] += 1

    def cut(self) -> None:
        assert self._network is not None
        self._network.down = True
        self.faults["connection cut"] += self._network.cut()
        self._hang()
        self._network.down = False

    def lose_servers(self) -> None:
        self._half_open("server", Network.lose_servers)

    def lose_clients(self) -> None:
        self._half_open("client", Network.lose_clients)

    def _half_open(self, end: str, lose: Callable[[Network], int]) -> None:
        """The one end is gone, and the other one is told after a while."""
        assert self._network is not None
        self.faults[f"half-open, the {end} gone"] += lose(self._network)
        self._hang()
        self._network.cut()

    # The processes.

    def dead(self) -> list[str]:
        """What processes said that ended by themselves."""
        return [
            f"{m.role} ended with {m.process.returncode}: {m.errors.read_text()[-3000:]}"
            for m in list(self.members)
            if m.process.poll() is not None
        ]

    def ask_to_end(self, *roles: str) -> list[str]:
        """Have the processes with these roles end; what those said that did not do so well."""
        asked = [m for m in self.members if m.role in roles]
        for member in asked:
            assert member.process.stdin is not None
            member.process.stdin.close()
        for member in asked:
            with suppress(subprocess.TimeoutExpired):
                member.process.wait(30)
        said = [
            f"{m.role} ended with {m.process.poll()}: {m.errors.read_text()[-3000:]}"
            for m in asked
            if m.process.poll() != 0
        ]
        self.members = [m for m in self.members if m not in asked]
        return said

    def kill_all(self) -> None:
        for member in self.members:
            member.kill()

    def logged(self) -> tuple[list[Ack], list[str]]:
        """What the processes were told is written, and what was received."""
        acks: list[Ack] = []
        received: list[str] = []
        for log in self._folder.glob("*.log"):
            for line in log.read_text().splitlines():
                said = json.loads(line)
                if "ack" in said:
                    acks.append(Ack(*said["ack"]))
                else:
                    received.append(said["received"])
        return acks, received

    def _start(self, role: str) -> Member:
        number = self.started
        self.started += 1
        owner = f"{role}-{number}"
        url, step = self.url, 0.0
        if self._network is not None:
            url = self._network.url if number % 2 else url
            step = STEPS[number // 2 % 2] if number // 2 % 4 < 2 else 0.0
        if step:
            self.faults["clock that steps"] += 1
        errors = self._folder / f"{owner}.errors"
        log = self._folder / f"{owner}.log"
        with errors.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, str(PROCESS), role, url, owner, str(log), str(step)],
                stdin=subprocess.PIPE,
                stderr=file,
            )
        return Member(role, process, errors)

    def _any(self) -> Member:
        """Of each role as often as of any other."""
        members = list(self.members)
        role = self._chance.choice(sorted({member.role for member in members}))
        return self._chance.choice([member for member in members if member.role == role])

    def _hang(self) -> None:
        time.sleep(self._chance.uniform(*HANG))

    def _path(self) -> str:
        return self.url.removeprefix("sqlite:///")
