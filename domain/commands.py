"""What can be asked of a run. `decide` turns a command into events or refuses it.

Holder commands carry the fencing token of the lease they are made under. Operator commands do
not hold the lease; their arguments are fingerprinted so that a repeated command id is recognised.

Nobody changes a command once it is made. The dataclasses are not frozen all the same: freezing
doubles what making one costs, and each checkpoint makes one.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from .chain import fingerprint
from .events import Payload


@dataclass(slots=True, kw_only=True)
class Command:
    run_id: str
    command_id: str
    actor: str | None = None


@dataclass(slots=True, kw_only=True)
class OperatorCommand(Command):
    """A command from outside the lease. `action` is its name to an Authorizer."""

    action: ClassVar[str]

    @abstractmethod
    def digest(self) -> str:
        """Fingerprint of what is asked for, without who asks and under which command id."""


@dataclass(slots=True, kw_only=True)
class Start(OperatorCommand):
    action = "start"

    kind: str = "default"
    input: Payload
    delivery_ref: str | None = None
    authority_ref: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    parent_run_id: str | None = None
    available_at: datetime | None = None

    def digest(self) -> str:
        return fingerprint(
            "start",
            self.kind,
            self.input.digest,
            self.delivery_ref,
            self.authority_ref,
            self.labels,
            self.parent_run_id,
            self.available_at and self.available_at.isoformat(),
        )


@dataclass(slots=True, kw_only=True)
class Cancel(OperatorCommand):
    """Business cancel. With a token it is the holder's own; without, an operator's."""

    action = "cancel"

    message: str | None = None
    fencing_token: int | None = None

    def digest(self) -> str:
        return fingerprint("cancel", self.message)


@dataclass(slots=True, kw_only=True)
class GiveUp(OperatorCommand):
    """An operator ends a run that nobody holds as failed."""

    action = "fail"

    code: str
    message: str | None = None

    def digest(self) -> str:
        return fingerprint("fail", self.code, self.message)


@dataclass(slots=True, kw_only=True)
class RequestResume(OperatorCommand):
    action = "request_resume"

    def digest(self) -> str:
        return fingerprint("resume")


@dataclass(slots=True, kw_only=True)
class RecordDecision(OperatorCommand):
    action = "record_decision"

    approval_id: str
    decision: str

    def digest(self) -> str:
        return fingerprint("decide", self.approval_id, self.decision)


@dataclass(slots=True, kw_only=True)
class Acquire(Command):
    """Ask for the lease. `resume` also takes a suspended run (the seed's restore)."""

    owner: str
    ttl: float
    resume: bool = False
    start: Start | None = None


@dataclass(slots=True, kw_only=True)
class HolderCommand(Command):
    """A command made under a lease."""

    fencing_token: int


@dataclass(slots=True, kw_only=True)
class SaveCheckpoint(HolderCommand):
    key: str
    snapshot_version: int
    state: Payload


@dataclass(slots=True, kw_only=True)
class Suspend(HolderCommand):
    pending_approval_ids: tuple[str, ...] = ()
    resume_when_decided: bool = False


@dataclass(slots=True, kw_only=True)
class Complete(HolderCommand):
    code: str
    message: str | None = None
    result: Payload


@dataclass(slots=True, kw_only=True)
class Fail(HolderCommand):
    code: str
    message: str | None = None


@dataclass(slots=True, kw_only=True)
class Release(HolderCommand):
    reason: str | None = None
    error: str | None = None
    available_at: datetime | None = None
