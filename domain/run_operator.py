"""RunOperator: what can be asked of a run from outside its lease."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import commands as c
from .checks import (
    check_delivery_ref,
    check_identifier,
    check_labels,
    check_optional,
    check_text,
    check_time,
)
from .engine import Engine
from .limits import label_bytes
from .record import RunRecord
from .refusals import pruned


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What became of a command: whether it landed, at which version, and the run as it is now."""

    run_id: str
    command_id: str
    applied: bool
    version: int | None
    record: RunRecord | None


class RunOperator:
    """Start, get, cancel, fail, resume, decide and resolve: no lease is needed for any of them.

    Every method may raise RUN_STORE_UNAVAILABLE (nothing was written), RUN_OUTCOME_UNKNOWN (see
    `resolve`), and RUN_VALIDATION_ERROR before anything is written. A command repeated under its
    `command_id` changes nothing a second time and returns the run's record, however far the run
    has moved on; the same id for something else is RUN_CONFLICT / command_reused.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def start(
        self,
        run_id: str,
        kind: str = "default",
        input: Any = None,  # noqa: A002 - the word of the field
        delivery_ref: str | None = None,
        authority_ref: str | None = None,
        labels: Mapping[str, str] | None = None,
        parent_run_id: str | None = None,
        available_at: datetime | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """Create the run, queued. Starting it again with the same arguments returns its record.

        input         JSON for the worker
        delivery_ref  a name under which the host knows where the result is to go; what looks like
                      credentials is RUN_VALIDATION_ERROR / credentials
        authority_ref a name under which the host finds on whose behalf the run acts
        available_at  not before this time (aware) may it be claimed

        Raises RUN_CONFLICT / different_arguments, or pruned for a run that is there no more (with
        the same arguments, what is left of its record is returned), RUN_LIMIT_EXCEEDED /
        input_bytes, labels or label_bytes.
        """
        return self.prepare_start(
            run_id,
            kind,
            input,
            delivery_ref,
            authority_ref,
            labels,
            parent_run_id,
            available_at,
            actor,
            command_id,
        )()

    def get(self, run_id: str) -> RunRecord | None:
        """The run's record without taking ownership; None when there is none.

        Raises RUN_NOT_FOUND / pruned, with what is left of it.
        """
        record = self._engine.read(check_identifier(run_id, "run id")).record
        if record is not None and record.pruned_at is not None:
            raise pruned(record)
        return record

    def cancel(
        self,
        run_id: str,
        message: str | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """End the run for business reasons and fence its holder at its next write.

        A cancelled run stays as it is. Raises RUN_NOT_FOUND, RUN_ALREADY_TERMINAL.
        """
        return self._operate(
            c.Cancel, run_id, actor, command_id, message=check_text(message, "message")
        )

    def fail(
        self,
        run_id: str,
        code: str,
        message: str | None = None,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """Give up a run that nobody holds (queued, suspended or abandoned).

        Raises RUN_NOT_FOUND, RUN_ALREADY_TERMINAL, RUN_LEASE_HELD while a worker is on it.
        """
        return self._operate(
            c.GiveUp,
            run_id,
            actor,
            command_id,
            code=check_identifier(code, "code"),
            message=check_text(message, "message"),
        )

    def request_resume(
        self, run_id: str, actor: str | None = None, command_id: str | None = None
    ) -> RunRecord:
        """Make a suspended run eligible again; one that is not suspended stays as it is.

        Undecided approvals do not hinder it; they stay visible as undecided in `approvals`.
        Raises RUN_NOT_FOUND, RUN_ALREADY_TERMINAL.
        """
        return self._operate(c.RequestResume, run_id, actor, command_id)

    def record_decision(
        self,
        run_id: str,
        approval_id: str,
        decision: str,
        actor: str | None = None,
        command_id: str | None = None,
    ) -> RunRecord:
        """Record one decision a suspended run waits for. Repeating it converges.

        Raises RUN_CONFLICT / different_decision, RUN_INVALID_TRANSITION / not_suspended,
        RUN_VALIDATION_ERROR / unknown_approval, RUN_NOT_FOUND, RUN_ALREADY_TERMINAL.
        """
        return self._operate(
            c.RecordDecision,
            run_id,
            actor,
            command_id,
            approval_id=check_identifier(approval_id, "approval id"),
            decision=check_identifier(decision, "decision"),
        )

    def resolve(self, command_id: str, run_id: str) -> CommandOutcome:
        """What became of a command whose reply was lost.

        `applied` False means that no event carries it so far; a server that still works on the
        lost request could yet write it. Repeating the command under its id settles it for good.
        Of a pruned run the last commands are known; any other id is RUN_NOT_FOUND / pruned.
        """
        check_identifier(command_id, "command id")
        record = self._engine.read(check_identifier(run_id, "run id")).record
        version = None if record is None else self._engine.version_of(command_id, record)
        return CommandOutcome(run_id, command_id, version is not None, version, record)

    def prepare_start(
        self,
        run_id: str,
        kind: str,
        input: Any,  # noqa: A002 - the word of the field
        delivery_ref: str | None,
        authority_ref: str | None,
        labels: Mapping[str, str] | None,
        parent_run_id: str | None,
        available_at: datetime | None,
        actor: str | None,
        command_id: str | None,
    ) -> Callable[[], RunRecord]:
        """Check and copy now; what it returns writes, as `start` does. For the async face."""
        checked = check_labels(labels)
        check_identifier(run_id, "run id")
        self._engine.limits.check("labels", len(checked), run_id)
        self._engine.limits.check("label_bytes", label_bytes(checked), run_id)
        command = c.Start(
            run_id=run_id,
            command_id=self._command_id(command_id),
            actor=check_optional(actor, "actor"),
            kind=check_identifier(kind, "kind"),
            input=self._engine.encode("input_bytes", input, "input", run_id),
            delivery_ref=None if delivery_ref is None else check_delivery_ref(delivery_ref),
            authority_ref=check_optional(authority_ref, "authority_ref"),
            labels=checked,
            parent_run_id=check_optional(parent_run_id, "parent_run_id"),
            available_at=None if available_at is None else check_time(available_at, "available_at"),
        )
        return lambda: self._engine.perform(command, assume_new=True).record

    def _command_id(self, command_id: str | None) -> str:
        if command_id is None:
            return self._engine.new_id()
        return check_identifier(command_id, "command id")

    def _operate(
        self,
        make: type[c.OperatorCommand],
        run_id: str,
        actor: str | None,
        command_id: str | None,
        **arguments: Any,
    ) -> RunRecord:
        command = make(
            run_id=check_identifier(run_id, "run id"),
            command_id=self._command_id(command_id),
            actor=check_optional(actor, "actor"),
            **arguments,
        )
        return self._engine.perform(command).record
