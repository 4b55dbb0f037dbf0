"""The keeper: the parent of one child process, which does not let it outlive its lease.

    python -I -S keeper.py CONTROL STATUS GRACE FOLDER CMD ARGS...

CONTROL  a pipe to read: lines with the instant, on this module's clock, until which the lease is
         trusted. When the pipe ends (it was closed, or its owner died in whatever way) or that
         instant has passed, the child has to end
STATUS   a pipe to write: "started PID", then "untrusted 1" if the child had to end for the lease's
         sake, then "exit N" or "signal N"; or only "error ERRNO" when it could not be started
GRACE    seconds between SIGTERM and SIGKILL
FOLDER   removed at the end

It is a process of its own, because only a process that is still alive can end the child of one that
was killed or stopped. It has one thread, so that forking is safe, and because PR_SET_PDEATHSIG
fires when the *thread* that forked ends. It imports nothing of runjournal, and is up at once.
"""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

#: Seconds between two looks at a group that shall end.
LOOK_EVERY = 0.01
#: The longest wait: select's own clock stands still while the host sleeps, the lease's does not.
LOOK_AT_LEAST = 1.0
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

#: As `adapters.clocks.ticks`, which cannot be imported here: both processes must agree.
ticks: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Keeper:
    """One child, its process group, and until when it may run."""

    def __init__(self, control: int, status: int, grace: float) -> None:
        self._control = control
        self._status = status
        self._grace = grace
        self._trusted_until = 0.0
        self._told_to_end = False
        self._heard = b""
        self._prctl = getattr(ctypes.CDLL(None), "prctl", None)
        self._ended: str | None = None
        self._pid = 0
        # A child's end interrupts the wait, and so does a signal that somebody sends to us.
        self._awake, wake = os.pipe()
        for end in (self._awake, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # so it stays for the child too
                signal.signal(number, self._on_signal)

    def run(self, argv: list[str]) -> None:
        """Start the child, wait until it has ended or has to, and leave nothing of it behind."""
        self._hear()  # until when, first of all
        if not self._start(argv):
            return
        while self._ended is None and not self._has_to_end():
            self._wait()
            self._reap()
        if self._ended is None and not self._told_to_end:
            self._say("untrusted 1")
        self._end_group()
        if self._ended is not None:
            self._say(self._ended)

    def _start(self, argv: list[str]) -> bool:
        parent = os.getpid()

        def end_with_the_keeper() -> None:
            if self._prctl is not None:
                self._prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it ended before the child could ask for that
                os._exit(1)

        if self._prctl is not None:
            # What the child leaves behind is ours to reap: not every container has an init.
            self._prctl(PR_SET_CHILD_SUBREAPER, 1)
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=end_with_the_keeper,  # safe: there is one thread
            )
        except OSError as error:
            self._say(f"error {error.errno}")
            return False
        self._pid = child.pid
        child.returncode = 0  # it is reaped here
        self._say(f"started {child.pid}")
        # The output belongs to the child: whoever reads it shall not wait for the keeper.
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(null, stream)
        return True

    def _on_signal(self, *_: object) -> None:
        self._told_to_end = True

    def _has_to_end(self) -> bool:
        return self._told_to_end or ticks() >= self._trusted_until

    def _wait(self) -> None:
        left = max(0.0, min(self._trusted_until - ticks(), LOOK_AT_LEAST))
        ready, _, _ = select.select([self._control, self._awake], [], [], left)
        if self._awake in ready:
            os.read(self._awake, 4096)
        if self._control in ready:
            self._hear()

    def _hear(self) -> None:
        said = os.read(self._control, 4096)
        if not said:
            self._told_to_end = True
        *lines, self._heard = (self._heard + said).split(b"\n")
        if lines:
            self._trusted_until = float(lines[-1])

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self._ended = f"exit {code}" if code >= 0 else f"signal {-code}"

    def _end_group(self) -> None:
        """TERM to the child and all that it started, then KILL to what is left of them."""
        self._signal_group(signal.SIGTERM)
        self._signal_group(signal.SIGCONT)  # one that is stopped could not act on it
        end = ticks() + self._grace
        while self._signal_group(0) and ticks() < end:
            time.sleep(LOOK_EVERY)
            self._reap()
        while self._signal_group(signal.SIGKILL):
            time.sleep(LOOK_EVERY)
            self._reap()

    def _signal_group(self, number: int) -> bool:
        """Whether there is still somebody of ours in the child's group."""
        try:
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):  # none left; none that may be signalled
            return False
        return True

    def _say(self, line: str) -> None:
        try:
            os.write(self._status, f"{line}\n".encode())
        except OSError:  # nobody is there to read it
            pass


def main(control: str, status: str, grace: str, folder: str, *argv: str) -> None:
    try:
        Keeper(int(control), int(status), float(grace)).run(list(argv))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
