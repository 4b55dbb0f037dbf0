"""The table of events, as the JSON that the page carries: bounded, and safe to show."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import orjson

from ...domain.events import (
    TERMINAL_EVENTS,
    CheckpointSaved,
    Event,
    LeaseGranted,
    LeaseReleased,
    RunSuspended,
)
from ...domain.ports import StoredEvent
from ..cli.exits import one_line

#: Of a payload, so many characters are shown; of any other field, so many.
PAYLOAD_SHOWN = 16_384
FIELD_SHOWN = 2_000
#: Of all payloads of a page together, so many characters: it must open in a browser.
PAGE_SHOWN = 8_000_000

_PAYLOADS = ("input", "state", "result")
#: What the table has columns for, and what the payload's own line says.
_IDS = frozenset({"command_id", "correlation_id", "causation_id"})
_ELSEWHERE = {*Event.model_fields, *_PAYLOADS, "digest", "size", "start_digest"} - _IDS
_NOT_SUMMED = frozenset({"owner", *(name.replace("_", " ") for name in _IDS)})
#: Characters that would reorder or hide text; inside JSON texts their escapes mean the same.
_ESCAPED = {
    code: f"\\u{code:04x}"
    for code in (*range(0x7F, 0xA0), 0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F),
                 *range(0x2060, 0x2070), 0xFEFF)
}  # fmt: skip


class Rows:
    """The rows of one page, run after run. `payloads` False leaves their content out."""

    def __init__(self, payloads: bool) -> None:
        self.payloads = payloads
        self.rows: list[dict[str, Any]] = []
        self._left = PAGE_SHOWN
        self._lease: LeaseGranted | None = None

    def begin(self) -> list[dict[str, Any]]:
        """Start the rows of the next run."""
        self.rows, self._lease = [], None
        return self.rows

    def add(self, event: Event) -> None:
        """One event."""
        fields = event.model_dump(mode="json", exclude=_ELSEWHERE, exclude_none=True)
        details = [
            (name.replace("_", " "), _field(value))
            for name, value in fields.items()
            if value not in ({}, [])
        ]
        payloads = [
            self._payload(name, getattr(event, name))
            for name in _PAYLOADS
            if getattr(event, name, None) is not None
        ]
        lease = self._written_under(event)
        owner = getattr(event, "owner", None) or (lease.owner if lease else "")
        self.rows.append(
            {
                "v": event.originator_version,
                "t": event.timestamp.isoformat(timespec="milliseconds"),
                "topic": event.topic,
                "by": one_line(event.actor or owner),
                "token": str(lease.fencing_token) if lease else "",
                "what": _summary(details, payloads),
                "details": details,
                "hash": event.hash,
                "payloads": payloads,
            }
        )

    def add_unreadable(self, stored: StoredEvent, why: str) -> None:
        """One event of which only the stored bytes are there."""
        self.rows.append(
            {
                "v": stored.version,
                "t": "",
                "topic": one_line(stored.topic),
                "by": "",
                "token": "",
                "what": "cannot be read",
                "error": one_line(why),
                "details": [
                    ("stored bytes", f"{len(stored.data):,}"),
                    ("sha256", sha256(stored.data).hexdigest()),
                ],
                "payloads": [],
            }
        )

    def _written_under(self, event: Event) -> LeaseGranted | None:
        """The lease that the event was written under; None when it came from outside."""
        if isinstance(event, LeaseGranted):
            self._lease = event
        lease = self._lease
        # Operators' commands have a digest; so has a cancel, whoever asks for it.
        ended = isinstance(event, (LeaseReleased, RunSuspended, *TERMINAL_EVENTS))
        if ended:
            self._lease = None
        by_holder = ended or isinstance(event, LeaseGranted | CheckpointSaved)
        return lease if by_holder and event.command_digest is None else None

    def _payload(self, name: str, value: Any) -> dict[str, Any]:
        data = orjson.dumps(value)
        told = {"name": name, "size": len(data), "digest": sha256(data).hexdigest()}
        if not self.payloads:
            return {**told, "text": "", "note": "left out of this page"}
        allowed = min(PAYLOAD_SHOWN, self._left)
        if len(data) <= allowed:
            laid_out = orjson.dumps(value, option=orjson.OPT_INDENT_2)
            text = (laid_out if len(laid_out) <= 4 * len(data) else data).decode()
            note = ""
        else:
            # A cut inside a character loses that one.
            text = data[:allowed].decode(errors="ignore")
            note = f"cut after {allowed:,} bytes" if allowed else "left out: the page holds so much"
        self._left -= min(len(data), allowed)
        return {**told, "text": text.translate(_ESCAPED), "note": note}


def _field(value: Any) -> str:
    text = one_line(value if isinstance(value, str) else orjson.dumps(value).decode())
    return text if len(text) <= FIELD_SHOWN else f"{text[:FIELD_SHOWN]}… ({len(text):,} characters)"


def _summary(details: list[tuple[str, str]], payloads: list[dict[str, Any]]) -> str:
    """The first few fields, short; who and under which command is told elsewhere."""
    told = [f"{n} {v[:40]}{'…' * (len(v) > 40)}" for n, v in details if n not in _NOT_SUMMED]
    told += [f"{payload['name']} {payload['size']:,} bytes" for payload in payloads]
    return " · ".join(told[:4])
