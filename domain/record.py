"""The run's current state, with the field names of seed 003 in its JSON form.

`record.model_dump(by_alias=True)` gives runId, fencingToken and so on; fields beyond the seed's
are additions. A record holds what is needed to decide every command and nothing that grows with
the run: checkpoint states, inputs and results are read from their events.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import AwareDatetime, ConfigDict, Field
from pydantic.alias_generators import to_camel

from .events import Outcome
from .frozen import FrozenDecisions, FrozenDict, FrozenTexts
from .status import TERMINAL_STATUSES, RunLifecycleStatus
from .trusted import TrustedModel


class _Part(TrustedModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class Lease(_Part):
    """Who may write, and until when unless renewed. `ttl` is in seconds."""

    owner: str
    acquired_at: AwareDatetime
    expires_at: AwareDatetime
    ttl: float


class CheckpointRef(_Part):
    """Where the last saved state is: the event `version` of the run's stream."""

    key: str
    snapshot_version: int
    saved_at: AwareDatetime
    version: int
    digest: str
    size: int
    command_id: str | None = None


class Suspension(_Part):
    """What a suspended run waits for. Decided approvals leave the list."""

    suspended_at: AwareDatetime
    pending_approval_ids: tuple[str, ...] = ()
    resume_when_decided: bool = False


class AppliedCommand(_Part):
    """An operator command that landed: its id, the version it wrote, its arguments' digest."""

    command_id: str
    version: int
    digest: str


class RunRecord(_Part):
    """One run as it is now: a projection of its stream (`fold`), never edited by hand.

    version        the stream's version: the compare-and-set token of the next write
    attempt        grows only when an abandoned run is taken over
    fencing_token  grows whenever the lease changes hands and on cancel; never reset
    failures       how often a holder released the run with an error
    approvals      the last suspension's approvals and their decisions, None while undecided
    commands       the last 32 operator commands, so that a repeated one is recognised
    head           the hash of the stream's last event
    pruned_at      when the run was pruned; then only what answers a repeated command is left of it
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    run_id: str
    version: int
    status: RunLifecycleStatus
    attempt: int = 1
    fencing_token: int = 0
    lease: Lease | None = None
    checkpoint_ref: CheckpointRef | None = None
    outcome: Outcome | None = None
    suspension: Suspension | None = None
    created_at: AwareDatetime
    updated_at: AwareDatetime

    kind: str = "default"
    labels: FrozenTexts = Field(default_factory=FrozenDict)
    delivery_ref: str | None = None
    authority_ref: str | None = None
    parent_run_id: str | None = None
    available_at: AwareDatetime | None = None
    failures: int = 0
    last_error: str | None = None
    approvals: FrozenDecisions = Field(default_factory=FrozenDict)
    ended_at: AwareDatetime | None = None
    start_digest: str
    commands: tuple[AppliedCommand, ...] = ()
    head: str
    pruned_at: AwareDatetime | None = None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATUSES

    def changed(self, changes: dict[str, Any]) -> Self:
        """A copy with these fields replaced, as `model_copy(update=changes)` would make it."""
        return self.trusted(self.__dict__ | changes, self.__pydantic_fields_set__)

    def with_deadline(self, deadline: datetime) -> Self:
        """The record with the lease's current deadline laid over its folded expiry."""
        if self.lease is None or self.lease.expires_at == deadline:
            return self
        lease = self.lease.__dict__ | {"expires_at": deadline}
        return self.changed({"lease": Lease.trusted(lease, self.lease.__pydantic_fields_set__)})

    def applied(self, command_id: str | None) -> AppliedCommand | None:
        """The operator command of that id, if it is among the last 32 that landed."""
        for command in self.commands:
            if command.command_id == command_id:
                return command
        return None
