"""Running a command under a lease, and writing what became of it."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from ...domain.errors import RUN_LIMIT_EXCEEDED, RunStoreError
from ...domain.lease import RunLeaseHandle
from ...domain.record import RunRecord
from ..clocks import ticks
from ..masking import mask
from .child import LOOK_EVERY, TAIL, Child, Ending

#: Seconds that output may still take to be passed on when the lease is lost.
LAST_WORDS = 1.0
#: Seconds between two tries to write how the run ended.
RETRY_EVERY = 0.2
#: Characters of stderr in the message of a failure.
MESSAGE = 1900
#: Seconds before a run that has failed once is due again; doubled each time, up to the second.
FIRST_BACKOFF, LAST_BACKOFF = 1.0, 300.0

Why = Literal["ended", "interrupted", "lost"]


@dataclass(frozen=True)
class Terms:
    """How a command is run.

    grace         seconds between SIGTERM and SIGKILL when it has to end
    max_attempts  how often it may fail before the run has failed
    interrupted   whether a signal has come that asks for a detach
    hide          takes the journal's own credentials out of what the command printed
    now           the store's clock
    """

    grace: float
    max_attempts: int
    interrupted: Callable[[], bool]
    hide: Callable[[str], str]
    now: Callable[[], datetime]


class Done(NamedTuple):
    """How it ended: the child's ending, why, and the record that was written, if one was.

    refused  why the end could not be written, as far as it is known
    """

    ending: Ending
    why: Why
    record: RunRecord | None
    refused: RunStoreError | None = None


def run_command(
    lease: RunLeaseHandle, argv: Sequence[str], environment: Mapping[str, str], terms: Terms
) -> Done:
    """Run the command, not longer than the lease can be trusted, and write how it ended."""
    folder = Path(tempfile.mkdtemp(prefix="runjournal-exec-"))
    given = {**environment, **_files(lease, folder)}
    child = Child(argv, given, folder, terms.grace, ticks() + lease.trusted_for)
    try:
        ending, why = _watch(child, lease, terms.interrupted)
        printed = _Printed(child, terms.hide)
    finally:
        child.close()
    if why == "lost" and not ending.untrusted:
        return Done(ending, why, None, lease.lost)
    try:
        if why == "lost":
            lease.ensure_held()  # this process stood still: is the run still ours, and if not, why?
        record = _until_written(lease, lambda: _write_end(lease, ending, why, printed, terms))
    except RunStoreError as error:
        return Done(ending, why if why == "interrupted" else "lost", None, error)
    return Done(ending, why, record)


def _files(lease: RunLeaseHandle, folder: Path) -> dict[str, str]:
    """The files that the command finds its input and its last checkpoint in."""
    files = {"RUNJOURNAL_INPUT": folder / "input.json"}
    _write_private(files["RUNJOURNAL_INPUT"], lease.input)
    files["RUNJOURNAL_CHECKPOINT"] = folder / "checkpoint.json"
    if lease.record.checkpoint_ref is not None:
        _write_private(files["RUNJOURNAL_CHECKPOINT"], lease.checkpoint)
    return {name: str(path) for name, path in files.items()}


def _write_private(path: Path, value: Any) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE))


def _watch(
    child: Child, lease: RunLeaseHandle, interrupted: Callable[[], bool]
) -> tuple[Ending, Why]:
    """Wait for the child, or end it when the lease is lost or a signal has come."""
    ending: Ending | None = None
    why: Why = "ended"
    while ending is None:
        ending = child.wait(LOOK_EVERY)
        if ending is None and not lease.held:
            ending, why = child.end(), "lost"
        elif ending is None and interrupted():
            ending, why = child.end(), "interrupted"
        elif ending is None:
            child.trust_until(ticks() + lease.trusted_for)
    if ending.untrusted:
        why = "lost"
    until = ticks() + LAST_WORDS
    while child.is_printing(LOOK_EVERY):
        # Whoever reads the output may be slow; that is no reason to give up what is done.
        if ticks() >= until and (why != "ended" or interrupted() or not lease.held):
            break
    return ending, why


class _Printed:
    """The last words of a command, as they are stored."""

    def __init__(self, child: Child, hide: Callable[[str], str]) -> None:
        self.output = hide(_text(child.stdout.tail))
        self.truncated = child.stdout.truncated
        errors = _readable(mask(hide(_text(child.stderr.tail)))).strip()
        cut = len(errors) > MESSAGE or child.stderr.truncated
        self.errors = f"…{errors[-MESSAGE:]}" if cut else errors


def _text(tail: bytes) -> str:
    """The bytes as text; whatever is no UTF-8 becomes a replacement character."""
    if len(tail) == TAIL:  # it may begin within a character
        start = next((i for i in range(4) if tail[i] & 0xC0 != 0x80), 0)
        tail = tail[start:]
    return tail.decode("utf-8", "replace")


def _readable(text: str) -> str:
    """The text with the control characters escaped that would spoil a terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def _write_end(
    lease: RunLeaseHandle, ending: Ending, why: Why, printed: _Printed, terms: Terms
) -> RunRecord:
    if why == "interrupted":
        # Also when it exited with 0: an observed stop is not a completion.
        return lease.release(reason="interrupted")
    if why == "lost":
        return lease.release(reason="exec stood still")
    if ending.exit_code == 0:
        return _complete(lease, printed)
    if ending.errno is not None:
        # Another host may have it.
        error = f"the command could not be started: {os.strerror(ending.errno)}"
        return lease.release(reason="not started", error=error)
    code = name_of(ending)
    failures = lease.record.failures + 1
    if failures >= terms.max_attempts:
        return lease.fail(code, printed.errors or None)
    return lease.release(
        reason=f"attempt {failures} of {terms.max_attempts} failed",
        error=f"{code}: {printed.errors}" if printed.errors else code,
        available_at=terms.now() + timedelta(seconds=_backoff(failures)),
    )


def _complete(lease: RunLeaseHandle, printed: _Printed) -> RunRecord:
    result = {"exitCode": 0, "outputTail": printed.output, "truncated": printed.truncated}
    try:
        return lease.complete(result)
    except RunStoreError as error:
        if error.code != RUN_LIMIT_EXCEEDED:
            raise
        # What it printed must not be able to undo what it did.
        return lease.complete({"exitCode": 0, "outputTail": "", "truncated": True})


def name_of(ending: Ending) -> str:
    """The outcome's code: `exit_3`, `signal_KILL`."""
    if ending.signal is None:
        return f"exit_{ending.exit_code}"
    try:
        return f"signal_{signal.Signals(ending.signal).name.removeprefix('SIG')}"
    except ValueError:  # a real-time signal
        return f"signal_{ending.signal}"


def _backoff(failures: int) -> float:
    """Seconds, half of them random: hosts that failed at once shall not try again at once."""
    longest = min(LAST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 30))
    return longest * random.uniform(0.5, 1)


def _until_written(lease: RunLeaseHandle, write: Callable[[], RunRecord]) -> RunRecord:
    """Hours of work are not given up for a store that is away for a moment."""
    while True:
        try:
            return write()
        except RunStoreError as error:
            if not error.retryable or not lease.held:
                raise
            time.sleep(RETRY_EVERY)
