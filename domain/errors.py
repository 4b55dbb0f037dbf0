"""The one error of the product, and the closed list of what can cause it.

    RunStoreError
      RUN_LEASE_HELD              somebody else holds the run
      RUN_LEASE_LOST              this holder no longer does
      RUN_ALREADY_TERMINAL        the run has ended
      RUN_SUSPENDED               the run waits for a decision or a resume
      RUN_INVALID_TRANSITION      the run's status does not allow it
      RUN_CONFLICT                the same name already stands for something else
      RUN_NOT_FOUND               no such run
      RUN_VALIDATION_ERROR        the input is refused; nothing was written
      RUN_LIMIT_EXCEEDED          it is more than the deployment allows
      RUN_INTEGRITY_ERROR         what is stored cannot be trusted or read
      RUN_STORE_ATOMIC_REQUIRED   the store promises less than was asked for
      RUN_STORE_UNAVAILABLE       the store cannot be reached or is busy; nothing was written
      RUN_OUTCOME_UNKNOWN         the reply was lost; `ledger.resolve` settles it

A cause is the pair (code, reason). Programs branch on the pair, people read the message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from .record import RunRecord

RUN_LEASE_HELD: Final = "RUN_LEASE_HELD"
RUN_LEASE_LOST: Final = "RUN_LEASE_LOST"
RUN_ALREADY_TERMINAL: Final = "RUN_ALREADY_TERMINAL"
RUN_SUSPENDED: Final = "RUN_SUSPENDED"
RUN_INVALID_TRANSITION: Final = "RUN_INVALID_TRANSITION"
RUN_INTEGRITY_ERROR: Final = "RUN_INTEGRITY_ERROR"
RUN_VALIDATION_ERROR: Final = "RUN_VALIDATION_ERROR"
RUN_CONFLICT: Final = "RUN_CONFLICT"
RUN_NOT_FOUND: Final = "RUN_NOT_FOUND"
RUN_STORE_ATOMIC_REQUIRED: Final = "RUN_STORE_ATOMIC_REQUIRED"
RUN_STORE_UNAVAILABLE: Final = "RUN_STORE_UNAVAILABLE"
RUN_OUTCOME_UNKNOWN: Final = "RUN_OUTCOME_UNKNOWN"
RUN_LIMIT_EXCEEDED: Final = "RUN_LIMIT_EXCEEDED"


class Cause(NamedTuple):
    """What a (code, reason) pair advises: the hint, and whether the same call may succeed later."""

    hint: str
    retryable: bool = False


#: Every cause there is. A pair that is not listed here cannot be raised.
CAUSES: Final[dict[tuple[str, str], Cause]] = {
    (RUN_LEASE_HELD, "held"): Cause("wait until the lease expires or is released", True),
    (RUN_LEASE_LOST, "expired"): Cause("acquire the run again to go on from its last checkpoint"),
    (RUN_LEASE_LOST, "taken_over"): Cause("stop: the run belongs to the newer holder"),
    (RUN_LEASE_LOST, "cancelled"): Cause("stop: the run was cancelled"),
    (RUN_LEASE_LOST, "released"): Cause("acquire the run again before writing to it"),
    (RUN_LEASE_LOST, "abandoned"): Cause("stop: the worker no longer waits for this handler"),
    (RUN_LEASE_LOST, "rewound"): Cause("stop: the store was restored to an earlier state"),
    (RUN_LEASE_LOST, "forked"): Cause("a lease does not cross a fork: acquire in the child"),
    (RUN_ALREADY_TERMINAL, "completed"): Cause("read its outcome; start a new run for new work"),
    (RUN_ALREADY_TERMINAL, "failed"): Cause("read its outcome; start a new run to try again"),
    (RUN_ALREADY_TERMINAL, "cancelled"): Cause("start a new run if the work is wanted after all"),
    (RUN_SUSPENDED, "suspended"): Cause("request a resume, or use restore"),
    (RUN_INVALID_TRANSITION, "not_suspended"): Cause("only a suspended run takes decisions"),
    (RUN_INVALID_TRANSITION, "unreported"): Cause("retry it once it is on record as unknown", True),
    (RUN_CONFLICT, "different_arguments"): Cause("use another run id for different work"),
    (RUN_CONFLICT, "pruned"): Cause("use another run id: this one was used and pruned"),
    (RUN_CONFLICT, "different_request"): Cause("the run's end was rewritten: verify the journal"),
    (RUN_CONFLICT, "different_decision"): Cause("an approval is decided once; read the record"),
    (RUN_CONFLICT, "command_reused"): Cause("use a new command id for a new command"),
    (RUN_CONFLICT, "contended"): Cause("other writers were always first; try again", True),
    (RUN_CONFLICT, "already_running"): Cause("wait until the other one has ended", True),
    (RUN_CONFLICT, "not_projected"): Cause(
        "mend the projector or the event, then resume or rebuild the projection"
    ),
    (RUN_CONFLICT, "projection_version"): Cause("rebuild the projection, or run its own version"),
    (RUN_CONFLICT, "unexpected_version"): Cause("somebody wrote under this token; acquire again"),
    (RUN_NOT_FOUND, "run"): Cause("check the id, or start the run first"),
    (RUN_NOT_FOUND, "pruned"): Cause("read it in the archive, if it was archived"),
    (RUN_NOT_FOUND, "delivery"): Cause("check the invocation id; only ended runs have one"),
    (RUN_NOT_FOUND, "version"): Cause("ask for a version or a time at which the run existed"),
    (RUN_VALIDATION_ERROR, "identifier"): Cause(
        "use 1 to 255 bytes of UTF-8 without control characters or outer spaces"
    ),
    (RUN_VALIDATION_ERROR, "payload"): Cause(
        "use JSON values only: dict with str keys, list, str, int in 64 bits, finite float, "
        "bool, None"
    ),
    (RUN_VALIDATION_ERROR, "argument"): Cause("correct the argument"),
    (RUN_VALIDATION_ERROR, "time"): Cause("give a datetime with a time zone"),
    (RUN_VALIDATION_ERROR, "credentials"): Cause(
        "use a plain name; keep credentials in the gateway's own configuration"
    ),
    (RUN_VALIDATION_ERROR, "unknown_approval"): Cause("name an approval the run waits for"),
    (RUN_VALIDATION_ERROR, "address"): Cause("use memory:, sqlite:///FILE or postgresql://..."),
    (RUN_VALIDATION_ERROR, "read_only"): Cause("make the file writable, or grant the role"),
    (RUN_VALIDATION_ERROR, "anchor"): Cause("name a whole file that `runjournal anchor` wrote"),
    (RUN_VALIDATION_ERROR, "export_file"): Cause(
        "name a whole file that `runjournal export` wrote"
    ),
    (RUN_VALIDATION_ERROR, "missing_key"): Cause(
        "open the journal with the key that is named, or say that it is lost"
    ),
    (RUN_VALIDATION_ERROR, "backup_file"): Cause("name a file that `runjournal backup` wrote"),
    (RUN_VALIDATION_ERROR, "closed"): Cause("open the journal again"),
    (RUN_LIMIT_EXCEEDED, "checkpoint_bytes"): Cause("store the data elsewhere and save a ref"),
    (RUN_LIMIT_EXCEEDED, "input_bytes"): Cause("store the data elsewhere and pass a ref"),
    (RUN_LIMIT_EXCEEDED, "result_bytes"): Cause("store the data elsewhere and return a ref"),
    (RUN_LIMIT_EXCEEDED, "labels"): Cause("use fewer labels"),
    (RUN_LIMIT_EXCEEDED, "label_bytes"): Cause("use fewer or shorter labels"),
    (RUN_LIMIT_EXCEEDED, "approvals"): Cause("ask for fewer approvals at once"),
    (RUN_LIMIT_EXCEEDED, "events_per_run"): Cause("end it and go on in a new run"),
    (RUN_LIMIT_EXCEEDED, "attempts"): Cause("find out what ends its workers, then start a new run"),
    (RUN_LIMIT_EXCEEDED, "run_seconds"): Cause("end it and go on in a new run"),
    (RUN_LIMIT_EXCEEDED, "lease_ttl"): Cause("use a lease_ttl within the deployment's range"),
    (RUN_INTEGRITY_ERROR, "unknown_topic"): Cause("register the event, or upgrade runjournal"),
    (RUN_INTEGRITY_ERROR, "newer_event"): Cause("upgrade runjournal: newer code wrote this event"),
    (RUN_INTEGRITY_ERROR, "unreadable_event"): Cause("restore the run from a backup"),
    (RUN_INTEGRITY_ERROR, "unreadable_record"): Cause("rebuild the run records from the events"),
    (RUN_INTEGRITY_ERROR, "lost_key"): Cause("find the key, or restore it from a backup"),
    (RUN_INTEGRITY_ERROR, "missing_upcaster"): Cause("register the missing upcaster"),
    (RUN_INTEGRITY_ERROR, "not_a_journal"): Cause("name a runjournal database, or run migrate"),
    (RUN_INTEGRITY_ERROR, "newer_database"): Cause("upgrade runjournal"),
    (RUN_INTEGRITY_ERROR, "unsound"): Cause(
        "run `runjournal verify`; what is known and stays so can be acknowledged"
    ),
    (RUN_INTEGRITY_ERROR, "damaged_database"): Cause("restore the database from a backup"),
    (RUN_STORE_ATOMIC_REQUIRED, "atomicity"): Cause("use a journal in a database"),
    (RUN_STORE_UNAVAILABLE, "busy"): Cause("other writers kept the store busy; try again", True),
    (RUN_STORE_UNAVAILABLE, "failed"): Cause("look at the store (disk space, permissions)", True),
    (RUN_STORE_UNAVAILABLE, "moved"): Cause(
        "run `runjournal restore-check`: it verifies the journal and raises the token epoch", True
    ),
    (RUN_OUTCOME_UNKNOWN, "reply_lost"): Cause("ask ledger.resolve(command_id, run_id)", True),
}  # fmt: skip


class RunStoreError(Exception):
    """A refused or failed command.

    code       one of the constants of this module: stable, for programs
    reason     which of the code's causes it was: stable, for programs
    message    one sentence that names the run and the values, for people
    hint       what to do about it
    retryable  whether the same call may succeed later without anything being changed
    record     the run's record as it was read when the failure was detected, else None
    """

    def __init__(
        self, code: str, reason: str, message: str, *, record: RunRecord | None = None
    ) -> None:
        super().__init__(message)
        cause = CAUSES[code, reason]
        self.code = code
        self.reason = reason
        self.message = message
        self.hint = cause.hint
        self.retryable = cause.retryable
        self.record = record

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own form would call __init__ with the message alone.
        return _revive, (self.code, self.reason, self.message, self.record)

    def __repr__(self) -> str:
        return f"RunStoreError({self.code}/{self.reason}: {self.message})"


def _revive(code: str, reason: str, message: str, record: RunRecord | None) -> RunStoreError:
    return RunStoreError(code, reason, message, record=record)
