"""Anchors: the heads of all streams, to be kept where nobody who can write the journal can write.

An anchor is a text of JSON lines: a header, one line per stream in the order of the streams, and
a trailer with the digest of all lines before it. Sign the file with any tool you trust.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any

from ..domain.checks import refuse
from ..domain.ports import JournalStore, PayloadCodec
from .findings import Anchored
from .streams import walk

SCHEMA = "runjournal.anchor.v1"


def write_anchor(store: JournalStore, codec: PayloadCodec, now: datetime) -> Iterator[str]:
    """The lines of an anchor of the journal as it is."""
    digest = sha256()
    count = 0

    def line(document: dict[str, Any]) -> str:
        text = json.dumps(document, separators=(",", ":")) + "\n"
        digest.update(text.encode())
        return text

    yield line({"schema": SCHEMA, "createdAt": now.isoformat()})
    for streams, _ in walk(store, codec):
        for stream in streams:
            count += 1
            yield line({"stream": stream.name, "version": stream.version, "head": stream.head})
    yield json.dumps({"streams": count, "digest": digest.hexdigest()}, separators=(",", ":")) + "\n"


def read_anchor(lines: Iterable[str], name: str) -> Iterator[Anchored]:
    """The streams of an anchor, in order; the digest is checked at the end.

    name  what the anchor is called in a refusal

    Raises RUN_VALIDATION_ERROR / anchor with the line. Trust none of it before its end was read.
    """
    digest = sha256()
    count = 0
    last = ""
    trailer: Any = None
    for number, text in enumerate(lines, start=1):
        where = f"{name}: line {number}"
        if trailer is not None:
            raise refuse("anchor", f"{where}: there is something after the trailer")
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise refuse("anchor", f"{where} is not JSON") from e
        if not isinstance(document, dict):
            raise refuse("anchor", f"{where} is no object")
        if number == 1:
            if document.get("schema") != SCHEMA:
                raise refuse("anchor", f"{where}: this is no {SCHEMA}")
        elif "digest" in document:
            trailer = document
            continue
        else:
            anchored = _anchored(document, where)
            if anchored.stream.encode() <= last.encode():
                raise refuse("anchor", f"{where}: the streams are not in order")
            last, count = anchored.stream, count + 1
            yield anchored
        digest.update(text.encode())
    if trailer != {"streams": count, "digest": digest.hexdigest()}:
        raise refuse("anchor", f"{name} is cut short or was changed: its digest is another")


def _anchored(document: dict[str, Any], where: str) -> Anchored:
    stream, version, head = (document.get(k) for k in ("stream", "version", "head"))
    if not (isinstance(stream, str) and type(version) is int and isinstance(head, str)) or (
        version < 1
    ):
        raise refuse("anchor", f"{where} names no stream, version and head")
    try:
        stream.encode()
    except UnicodeEncodeError:
        raise refuse("anchor", f"{where} names a stream with a lone surrogate") from None
    return Anchored(stream, version, head)


class AnchorFile:
    """The streams of an anchor, asked for in their order: the Anchor that `walk` is given."""

    def __init__(self, anchored: Iterator[Anchored]) -> None:
        self._anchored = anchored
        self._next = next(anchored, None)

    def expected(self, name: str) -> tuple[list[Anchored], Anchored | None]:
        missing: list[Anchored] = []
        while self._next is not None and self._next.stream.encode() < name.encode():
            missing.append(self._next)
            self._next = next(self._anchored, None)
        if self._next is None or self._next.stream != name:
            return missing, None
        found, self._next = self._next, next(self._anchored, None)
        return missing, found

    def rest(self) -> list[Anchored]:
        missing = [] if self._next is None else [self._next, *self._anchored]
        self._next = None
        return missing
