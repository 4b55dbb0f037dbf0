"""What makes a run whole: its stream, checked as it comes, and its delivery's that belongs to it.

What is exported or copied is held against these rules, and so is what is imported.
"""

from __future__ import annotations

from ..domain.checks import check_identifier
from ..domain.delivery import DELIVERY_STREAM, DeliveryRecord, delivery_invocation_id
from ..domain.errors import RunStoreError
from ..domain.events import LeaseGranted, RunQueued
from ..domain.ports import PayloadCodec, StoredEvent
from ..domain.record import RunRecord
from .streams import Stream, is_delivery, is_run


def take_sound(stream: Stream, stored: StoredEvent, codec: PayloadCodec) -> str | None:
    """Go on with the next event of a stream; what is wrong with it, if anything is.

    Beyond what `verify` asks: a run is queued once and first of all, nothing comes after its end,
    and its token rises with every grant.
    """
    before = stream.record
    ended = isinstance(before, RunRecord) and before.is_terminal
    token = before.fencing_token if isinstance(before, RunRecord) else 0
    event = stream.take(stored, codec)
    if stream.findings:
        return stream.findings[0].message
    after = stream.record
    if stream.version == 1:
        problem = _identity_problem(stream)
        if problem is not None:
            return problem
    if is_run(stream) and isinstance(event, RunQueued) != (stream.version == 1):
        return f"event {stored.version} of {stream.name} has no meaning at that place"
    if ended:
        return f"event {stored.version} of {stream.name} comes after its end"
    least = token + isinstance(event, LeaseGranted)
    if isinstance(after, RunRecord) and after.fencing_token < least:
        return f"event {stored.version} of {stream.name} has a fencing token that does not rise"
    return None


def _identity_problem(stream: Stream) -> str | None:
    """Why a stream's name, or what its first event names, is not what this code would write."""
    record = stream.record
    if (record is None) == (is_run(stream) or is_delivery(stream)):
        return f"{stream.name} does not begin as such a stream does"
    try:
        check_identifier(stream.key if record else stream.name, "stream")
        if isinstance(record, RunRecord):
            check_identifier(record.kind, "kind")
            if record.delivery_ref is not None:
                check_identifier(record.delivery_ref, "delivery_ref")
    except RunStoreError as e:
        return e.message
    return None


def expected_delivery(record: RunRecord) -> str | None:
    """The stream of the delivery that this run must have; None if it must have none."""
    if record.delivery_ref is None or not record.is_terminal:
        return None
    return DELIVERY_STREAM + delivery_invocation_id(record.run_id, record.delivery_ref)


def delivery_problem(run: RunRecord, delivery: DeliveryRecord) -> str | None:
    """Why this delivery is not the one of this run's end; None if it is."""
    asked = delivery.run_id, delivery.delivery_ref
    ended = delivery.terminal_version, delivery.terminal_hash
    if asked == (run.run_id, run.delivery_ref) and ended == (run.version, run.head):
        return None
    return f"delivery {delivery.invocation_id} was not requested for this end of {run.run_id!r}"
