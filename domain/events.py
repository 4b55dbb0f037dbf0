"""The facts of a run: frozen, in the past tense, each with a fixed topic and a schema version.

A topic is a name of its own, never a module path: a class may move or be renamed without
orphaning what is stored, and a stored string can never cause an import.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from pydantic import AwareDatetime, ConfigDict, Field

from .frozen import FrozenDict, FrozenTexts
from .trusted import TrustedModel

RUN_STREAM = "run/"


def run_stream(run_id: str) -> str:
    """The name of a run's stream."""
    return RUN_STREAM + run_id


class Payload(NamedTuple):
    """A JSON value as its exact bytes: encoded once, and thereby copied, at the call."""

    data: bytes
    digest: str

    @property
    def size(self) -> int:
        return len(self.data)


class Event(TrustedModel):
    """What every event carries.

    originator_id       the stream
    originator_version  the place in the stream; the first is 1
    timestamp           the store's time, UTC; never runs backwards within a stream
    actor               who asked for it, as far as the caller said
    command_id          the command that caused it: how a lost reply is found again
    command_digest      fingerprint of an operator command's arguments, so that a repeated id with
                        other arguments is noticed; None on what the lease holder writes
    correlation_id, causation_id   free for the host: what this belongs to, what it follows from
    prev_hash           the hash of the event before it in the stream
    hash                its own hash; computed from the stored bytes on reading, never stored
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="utf8")

    topic: ClassVar[str] = ""
    schema_version: ClassVar[int] = 1

    originator_id: str
    originator_version: int
    timestamp: AwareDatetime
    actor: str | None = None
    command_id: str | None = None
    command_digest: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    prev_hash: str = ""
    hash: str = ""


class TookOver(TrustedModel):
    """Whose lease a grant ended: the abandoned one's owner and fencing token."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    owner: str
    fencing_token: int


class Outcome(TrustedModel):
    """How a run ended: a code for programs, a message for people (seed 003)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: str
    message: str | None = None


class RunEvent(Event):
    """An event of a run's stream."""

    @property
    def run_id(self) -> str:
        return self.originator_id.removeprefix(RUN_STREAM)


class RunQueued(RunEvent):
    """The run was created. `input` is its JSON input."""

    topic: ClassVar[str] = "run.queued"

    kind: str
    input: Any = None
    authority_ref: str | None = None
    delivery_ref: str | None = None
    labels: FrozenTexts = Field(default_factory=FrozenDict)
    parent_run_id: str | None = None
    available_at: AwareDatetime | None = None
    start_digest: str


class LeaseGranted(RunEvent):
    """`owner` may write under `fencing_token` for `ttl` seconds, longer when it renews."""

    topic: ClassVar[str] = "run.lease_granted"

    owner: str
    fencing_token: int
    attempt: int
    ttl: float
    took_over: TookOver | None = None


class CheckpointSaved(RunEvent):
    """The state to go on from, inline: its fence and its data are one event."""

    topic: ClassVar[str] = "run.checkpoint_saved"

    key: str
    snapshot_version: int
    state: Any = None
    digest: str
    size: int


class RunSuspended(RunEvent):
    """The holder let go of the run until decisions or a resume request arrive."""

    topic: ClassVar[str] = "run.suspended"

    pending_approval_ids: tuple[str, ...] = ()
    resume_when_decided: bool = False


class ApprovalDecided(RunEvent):
    """One approval of a suspended run was decided."""

    topic: ClassVar[str] = "run.approval_decided"

    approval_id: str
    decision: str


class ResumeRequested(RunEvent):
    """A suspended run may be taken again."""

    topic: ClassVar[str] = "run.resume_requested"


class LeaseReleased(RunEvent):
    """The holder handed the run back unfinished; `error` counts it as a failure."""

    topic: ClassVar[str] = "run.lease_released"

    reason: str | None = None
    error: str | None = None
    available_at: AwareDatetime | None = None


class RunCompleted(RunEvent):
    """Terminal: the work is done."""

    topic: ClassVar[str] = "run.completed"

    outcome: Outcome
    result: Any = None
    digest: str | None = None


class RunFailed(RunEvent):
    """Terminal: the work cannot be done. On an abandoned run an operator bumps the token."""

    topic: ClassVar[str] = "run.failed"

    outcome: Outcome
    fencing_token: int


class RunCancelled(RunEvent):
    """Terminal: the business wants the work no more. Always bumps the token (seed 003)."""

    topic: ClassVar[str] = "run.cancelled"

    outcome: Outcome
    fencing_token: int


RUN_EVENTS: tuple[type[RunEvent], ...] = (
    RunQueued,
    LeaseGranted,
    CheckpointSaved,
    RunSuspended,
    ApprovalDecided,
    ResumeRequested,
    LeaseReleased,
    RunCompleted,
    RunFailed,
    RunCancelled,
)
TERMINAL_EVENTS = (RunCompleted, RunFailed, RunCancelled)
