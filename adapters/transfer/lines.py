"""The lines of an export: a header, one line per event, and a trailer with a digest of it all.

The data of an event are the bytes as they are stored: a text where they are UTF-8, base64 where
they are not (encrypted or compressed). There are no positions and no time of writing, so the same
streams make the same file, whichever database they are in.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import takewhile
from typing import Any, NamedTuple

import orjson

from ...domain.audit import AUDIT_STREAM
from ...domain.chain import GENESIS, chain_hash
from ...domain.ports import StoredEvent
from ...domain.registry import EventRegistry
from ...domain.tombstone import Tombstone
from .units import Unit

SCHEMA = "runjournal.export.v1"
#: How the first line begins.
HEADER = b'{"schema":"' + SCHEMA.encode() + b'"'
#: A first line that is longer is none of ours, and need not be read to its end.
HEADER_BYTES = 1 << 16


class Exported(NamedTuple):
    """What an export holds: how many streams, events and tombstones, and its SHA-256 in hex."""

    streams: int
    events: int
    digest: str
    tombstones: int = 0


def lines_of(
    registry: EventRegistry, units: Iterable[Unit], tombstones: Iterable[Tombstone] = ()
) -> Iterator[bytes]:
    """The lines of an export of these units, and of what is left of pruned streams.

    Of the tombstones only those that an exported event of `journal/audit` tells of.
    """
    digest = sha256()
    streams = events = buried = audited = 0

    def line(document: dict[str, Any]) -> bytes:
        written = _line(document)
        digest.update(written)
        return written

    yield line({"schema": SCHEMA, "schemaVersions": dict(sorted(registry.schema_versions.items()))})
    for unit in units:
        for strand in unit:
            head = GENESIS
            for stored in strand.events(0):
                head = chain_hash(head, *stored)
                yield line(event_document(stored, head))
                events += 1
            streams += 1
            if strand.stream.name == AUDIT_STREAM:
                audited = strand.stream.version
    for tombstone in takewhile(lambda t: t.audit_version <= audited, tombstones):
        yield line(_tombstone_document(tombstone))
        buried += 1
    trailer = {"streams": streams, "events": events, "digest": digest.hexdigest()}
    yield _line(trailer | ({"tombstones": buried} if buried else {}))


def _line(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def event_document(stored: StoredEvent, head: str) -> dict[str, Any]:
    """An event as JSON; `head` is its hash."""
    document = {
        "stream": stored.stream,
        "version": stored.version,
        "topic": stored.topic,
        "hash": head,
    }
    try:
        return document | {"data": stored.data.decode()}
    except UnicodeDecodeError:
        return document | {"base64": base64.b64encode(stored.data).decode()}


def read_event(document: dict[str, Any]) -> tuple[StoredEvent, str] | None:
    """The event of a line, and its hash; None if it is none."""
    match document:
        case {
            "stream": str(stream),
            "version": int(version),
            "topic": str(topic),
            "hash": str(head),
            **data,
        }:
            pass
        case _:
            return None
    match data:
        case {"data": str(text), **more} if not more:
            found = text.encode()
        case {"base64": str(text), **more} if not more:
            try:
                found = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return None
        case _:
            return None
    return StoredEvent(stream, version, topic, found), head


def _tombstone_document(tombstone: Tombstone) -> dict[str, Any]:
    stream, audit_version, version, head, body = tombstone
    document = {
        "tombstone": stream,
        "auditVersion": audit_version,
        "version": version,
        "head": head,
    }
    return document if body is None else document | {"body": body.decode()}


def read_tombstone(document: dict[str, Any]) -> Tombstone | None:
    """The tombstone of a line; None if it is none."""
    match document:
        case {
            "tombstone": str(stream),
            "auditVersion": int(audit_version),
            "version": int(version),
            "head": str(head),
            **more,
        }:
            pass
        case _:
            return None
    match more:
        case {"body": str(text), **rest} if not rest:
            return Tombstone(stream, audit_version, version, head, text.encode())
        case _:
            return None if more else Tombstone(stream, audit_version, version, head, None)


def read_trailer(document: dict[str, Any]) -> Exported | None:
    """What a trailer says; None if it is none."""
    match document:
        case {"streams": int(streams), "events": int(events), "digest": str(digest), **more}:
            pass
        case _:
            return None
    match more:
        case {"tombstones": int(buried), **rest} if not rest and buried > 0:
            return Exported(streams, events, digest, buried)
        case _:
            return None if more else Exported(streams, events, digest)
