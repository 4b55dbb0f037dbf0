"""The exit codes, and the one line on stderr that goes with each failure.

Everything here works on the names of error codes, not on the error class, so that `--help` does
not have to load the domain.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from ..masking import mask

OK: Final = 0
UNPROVED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
CONFLICT: Final = 4
LEASE: Final = 5
INTEGRITY: Final = 6
UNAVAILABLE: Final = 7
LEFT_BEHIND: Final = 8
DOUBTFUL: Final = 9
NOT_NOW: Final = 73
GIVEN_UP: Final = 75
NOT_EXECUTABLE: Final = 126
NOT_FOUND_COMMAND: Final = 127
HUNG_UP: Final = 129
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143

#: What each exit code tells a script; the help and docs/cli.md print this.
EXITS: Final[dict[int, str]] = {
    OK: "done",
    UNPROVED: "the demo's proof failed, or a defect of runjournal (with a traceback)",
    USAGE: "bad usage or input: RUN_VALIDATION_ERROR, RUN_LIMIT_EXCEEDED, "
    "RUN_STORE_ATOMIC_REQUIRED",
    NOT_FOUND: "no such run: RUN_NOT_FOUND",
    CONFLICT: "the run's state does not allow it: RUN_CONFLICT, RUN_INVALID_TRANSITION, "
    "RUN_ALREADY_TERMINAL, RUN_SUSPENDED",
    LEASE: "somebody else holds the run: RUN_LEASE_HELD, RUN_LEASE_LOST",
    INTEGRITY: "what is stored cannot be trusted or read: RUN_INTEGRITY_ERROR, or something that "
    "`verify` found",
    UNAVAILABLE: "the store or the system failed, or a reply was lost: RUN_STORE_UNAVAILABLE, "
    "RUN_OUTCOME_UNKNOWN",
    LEFT_BEHIND: "a worker ended and left a run to its lease's expiry, because the handler did not "
    "stop within --grace or the store was away",
    DOUBTFUL: "doctor: a check failed; with --strict, or one warned",
    NOT_NOW: "exec: the run cannot be had now: somebody else holds it, or it is not due yet",
    GIVEN_UP: "exec: the lease was lost, and the command was ended",
    NOT_EXECUTABLE: "exec: the command cannot be executed; the run was released",
    NOT_FOUND_COMMAND: "exec: the command was not found; the run was released",
    HUNG_UP: "exec: ended by SIGHUP; the run was released",
    INTERRUPTED: "interrupted by Ctrl-C",
    BROKEN_PIPE: "the reader of the output went away",
    TERMINATED: "exec: ended by SIGTERM; the run was released",
}

#: Beside them: what a command that was run exits with.
PASSED_ON: Final = (
    "exec: as the command exited; 128 + n if signal n ended it. Only a line on stderr that begins "
    "with `runjournal:` is from runjournal itself"
)

#: The exit code of every error code, read off the table above.
EXIT_OF: Final[dict[str, int]] = {
    code: number for number, text in EXITS.items() for code in re.findall(r"RUN_[A-Z_]+", text)
}


def one_line(text: str) -> str:
    """The text with everything that would break the line or move the cursor escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def complain(code: str, reason: str, message: str, hint: str) -> int:
    """Print a failure as one line on stderr; return the exit code that goes with it."""
    line = mask(one_line(f"{code}/{reason}: {message} (hint: {hint})"))
    print(f"runjournal: {line}", file=sys.stderr, flush=True)
    return EXIT_OF[code]
