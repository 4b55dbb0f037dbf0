"""Child: a command that runs under a keeper, its output passed on as it comes."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from . import keeper

#: Bytes read from the child at once.
CHUNK = 1 << 16
#: Of each stream so many of the last bytes are kept.
TAIL = 4096
#: Seconds between two looks whether a silent child has ended.
LOOK_EVERY = 0.05
#: Seconds that a keeper may take for its own work, beyond the grace period.
KEEPER_TAKES = 5.0


class Ending(NamedTuple):
    """How a child ended.

    exit_code, signal, errno  one of them is not None; `errno` says why it could not be started
    untrusted                 its keeper ended it, because nobody vouched for the lease any more
    """

    exit_code: int | None = None
    signal: int | None = None
    errno: int | None = None
    untrusted: bool = False


class Pump(threading.Thread):
    """Passes one stream of the child on as it comes, and keeps the last bytes of it.

    A thread, since whoever reads our output may keep us waiting, and the lease must not wait along.
    When nobody reads it any more the rest is thrown away: the work is worth more than its output.
    """

    def __init__(self, source: IO[bytes], target: int) -> None:
        super().__init__(daemon=True)
        self._source = source
        self._target: int | None = target
        self._seen = 0
        self._tail = b""
        self.child_has_ended = threading.Event()

    def run(self) -> None:
        with self._source as source:
            while True:
                # A process that has left the child's group may hold the pipe open for ever.
                ended = self.child_has_ended.is_set()
                ready, _, _ = select.select([source], [], [], LOOK_EVERY)
                chunk = os.read(source.fileno(), CHUNK) if ready else b""
                if not chunk and (ready or ended):
                    return
                self._seen += len(chunk)
                self._tail = (self._tail + chunk)[-TAIL:]
                self._pass_on(chunk)

    def _pass_on(self, chunk: bytes) -> None:
        while chunk and self._target is not None:
            try:
                chunk = chunk[os.write(self._target, chunk) :]
            except OSError:
                self._target = None

    @property
    def tail(self) -> bytes:
        """The last bytes of the stream."""
        return self._tail

    @property
    def truncated(self) -> bool:
        """Whether there was more than its tail."""
        return self._seen > len(self._tail)


class Child:
    """A command with its keeper, from its start to the end of its whole process group.

    argv           the command and its arguments; no shell
    environment    all of its environment
    folder         of its own; removed at the end, whatever happens to this process
    grace          seconds between SIGTERM and SIGKILL when it has to end
    trusted_until  the instant on `clocks.ticks` at which it has to end unless told a later one
    """

    def __init__(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        grace: float,
        trusted_until: float,
    ) -> None:
        self._folder = folder
        self._grace = grace
        self._told = 0.0
        self._said = b""
        control, self._control = os.pipe()
        self._status, status = os.pipe()
        os.set_blocking(self._control, False)
        self.trust_until(trusted_until)
        command = [sys.executable, "-I", "-S", keeper.__file__, str(control), str(status)]
        try:
            self._keeper = subprocess.Popen(
                [*command, repr(grace), str(folder), *argv],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                pass_fds=(control, status),
                # What is sent to our own group, as by Ctrl-C, is for us alone to act upon.
                start_new_session=True,
            )
        finally:
            os.close(control)
            os.close(status)
        assert self._keeper.stdout is not None
        assert self._keeper.stderr is not None
        self.stdout = Pump(self._keeper.stdout, 1)
        self.stderr = Pump(self._keeper.stderr, 2)
        self.stdout.start()
        self.stderr.start()

    def trust_until(self, instant: float) -> None:
        """Let the child run until then, on the clock `clocks.ticks`."""
        if instant < self._told + LOOK_EVERY:  # nothing new
            return
        try:
            os.write(self._control, b"%r\n" % instant)
            self._told = instant
        except OSError:  # a keeper that does not read keeps to what it knows
            pass

    def wait(self, seconds: float) -> Ending | None:
        """How the child ended; None while it runs, after so many seconds.

        Its process group has ended too. Its output may still be on its way: see `is_printing`.
        """
        ready, _, _ = select.select([self._status], [], [], seconds)
        if not ready:
            return None
        said = os.read(self._status, CHUNK)
        self._said += said
        return None if said else self._conclude()

    def end(self) -> Ending:
        """Have the child and its group end: TERM, and KILL after the grace period."""
        self._close_control()
        until = keeper.ticks() + self._grace + KEEPER_TAKES
        while (left := until - keeper.ticks()) > 0:
            ending = self.wait(left)
            if ending is not None:
                return ending
        self._keeper.kill()  # it hangs or was stopped
        return self._conclude()

    def close(self) -> None:
        """End the child if it still runs, and let go of everything."""
        if self._status >= 0:
            self.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _conclude(self) -> Ending:
        words = self._said.decode().split()
        said = {word: int(number) for word, number in zip(words[::2], words[1::2], strict=True)}
        untrusted = "untrusted" in said
        ending = Ending(said.get("exit"), said.get("signal"), said.get("error"), untrusted)
        if ending[:3] == (None, None, None):  # the keeper was killed
            ending = Ending(signal=signal.SIGKILL, untrusted=untrusted)
            self._kill_group(said.get("started"))
        self._keeper.wait()
        self._close_control()
        os.close(self._status)
        self._status = -1
        for pump in (self.stdout, self.stderr):
            pump.child_has_ended.set()
        return ending

    def is_printing(self, seconds: float) -> bool:
        """Whether some output of a child that has ended is not yet passed on, after so long."""
        for pump in (self.stdout, self.stderr):
            pump.join(seconds)
        return self.stdout.is_alive() or self.stderr.is_alive()

    def _kill_group(self, group: int | None) -> None:
        try:
            if group is not None:
                os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass

    def _close_control(self) -> None:
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
