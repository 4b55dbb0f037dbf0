"""Tombstones: what is left of a stream that was pruned.

A stream's events are gone for good, and its id must not come to mean something else. So its
version and last hash stay, and of a run also what answers a repeated command: a record without
payloads, texts and checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from .errors import RUN_INTEGRITY_ERROR, RunStoreError
from .events import Event, run_stream
from .record import AppliedCommand, RunRecord

#: The fields of a run's record that stay: who it was, how it ended, and what it was asked for.
#: An Authorizer judges by the references and labels, so they stay as well.
KEPT = frozenset(
    {
        "run_id", "version", "status", "attempt", "fencing_token", "created_at", "updated_at",
        "kind", "labels", "delivery_ref", "authority_ref", "parent_run_id", "ended_at",
        "start_digest", "head",
    }
)  # fmt: skip


class Tombstone(NamedTuple):
    """What is left of one stream.

    audit_version  which event of `journal/audit` tells of its end
    version, head  what its last event was
    body           of a run: its record in short, as JSON bytes; None for a delivery
    """

    stream: str
    audit_version: int
    version: int
    head: str
    body: bytes | None

    @property
    def record(self) -> RunRecord | None:
        """The run's record in short. Raises RUN_INTEGRITY_ERROR / unreadable_record."""
        try:
            return None if self.body is None else RunRecord.model_validate_json(self.body)
        except ValueError as e:
            raise RunStoreError(
                RUN_INTEGRITY_ERROR,
                "unreadable_record",
                f"what is left of the pruned {self.stream} cannot be read",
            ) from e


def run_tombstone(
    record: RunRecord, last: Event, audit_version: int, pruned_at: datetime
) -> Tombstone:
    """The tombstone of an ended run, whose last event is `last`.

    That event's command is kept among the operators' ones: so a holder whose reply was lost finds
    out that it had landed.
    """
    commands = record.commands
    if last.command_id is not None and record.applied(last.command_id) is None:
        applied = AppliedCommand(
            command_id=last.command_id, version=record.version, digest=last.command_digest or ""
        )
        commands = (*commands, applied)
    short = RunRecord(
        **{name: getattr(record, name) for name in KEPT},
        outcome=record.outcome and record.outcome.model_copy(update={"message": None}),
        commands=commands,
        pruned_at=pruned_at,
    )
    body = short.model_dump_json(exclude_defaults=True).encode()
    return Tombstone(run_stream(record.run_id), audit_version, record.version, record.head, body)


def digest_of(tombstones: Iterable[Tombstone]) -> str:
    """SHA-256 in hex over one line each, in the order of the streams' names as UTF-8.

    The line has the stream's name, version and head, and the digest of the tombstone's body: so
    that neither a removed stream nor an answer can be forged without another audit event.
    """
    digest = sha256()
    for t in tombstones:
        body = sha256(t.body).hexdigest() if t.body is not None else "-"
        digest.update(f"{t.stream} {t.version} {t.head} {body}\n".encode())
    return digest.hexdigest()
