"""One run as one JSON document."""

from __future__ import annotations

from typing import Any

from ...domain.chain import GENESIS, chain_hash
from .lines import event_document
from .units import Strand, Unit

SCHEMA = "runjournal.run.v1"


def run_document(unit: Unit) -> dict[str, Any]:
    """The run of a unit, with its delivery if it has one."""
    run, *deliveries = (_stream_document(strand) for strand in unit)
    return {"schema": SCHEMA, **run, "deliveries": deliveries}


def _stream_document(strand: Strand) -> dict[str, Any]:
    stream, events, head = strand.stream, [], GENESIS
    for stored in strand.events(0):
        head = chain_hash(head, *stored)
        document = event_document(stored, head)
        del document["stream"]  # it is the same for all
        events.append(document)
    record = None if stream.record is None else stream.record.model_dump(mode="json", by_alias=True)
    return {"stream": stream.name, "head": stream.head, "record": record, "events": events}
