"""Values and events to stored bytes and back, with orjson.

What is accepted is exactly what comes back equal and of the same type: dict with str keys, list,
str, int from -2**63 to 2**63-1, finite float, bool, None, nested at most 254 deep. orjson alone
would turn NaN into null, tuples into lists and UUIDs into strings, so everything is looked at.
"""

from __future__ import annotations

import marshal
from hashlib import sha256
from math import isfinite
from typing import Any

import orjson
from pydantic import BaseModel

from ..domain.chain import chain_hash
from ..domain.checks import refuse, shown
from ..domain.errors import RUN_INTEGRITY_ERROR, RUN_VALIDATION_ERROR, RunStoreError
from ..domain.events import Event, Payload
from ..domain.ports import PayloadCodec, SealedEvent, StoredEvent
from ..domain.registry import EventRegistry
from .ciphering import MARK, Cipher, deciphered, enciphered, event_place

#: How deep orjson writes.
MAX_DEPTH = 254
_INT_LIMIT = 2**63
_STRICT = (
    orjson.OPT_STRICT_INTEGER
    | orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
)

_NOT_STORED = frozenset({"originator_id", "originator_version", "prev_hash", "hash"})


def _plain(value: Any) -> Any:
    """orjson's hook for what it does not know: our own model parts and encoded payloads."""
    if isinstance(value, Payload):
        return orjson.Fragment(value.data)
    if isinstance(value, BaseModel):
        return value.__dict__
    raise TypeError(f"{type(value).__name__} has no stored form")


class OrjsonCodec:
    """The PayloadCodec port on orjson, over a closed registry of events.

    cipher        what the stored bytes of an event go through, if anything; the hash chain covers
                  the bytes as stored
    writes_plain  False refuses to write without a cipher
    """

    def __init__(
        self, registry: EventRegistry, cipher: Cipher | None = None, *, writes_plain: bool = True
    ) -> None:
        self.registry = registry
        self.cipher = cipher
        self._refuses = cipher is None and not writes_plain

    def encode(self, value: Any, what: str) -> Payload:
        # Each checkpoint pays for this, so the common case is judged by C code alone. The bytes
        # are the copy: orjson reads the value in one step that no other thread can come between
        # (test_case_48).
        try:
            data = orjson.dumps(value, option=_STRICT)
            if _is_lossless(value, data):
                return Payload(data, sha256(data).hexdigest())
        except (orjson.JSONEncodeError, orjson.JSONDecodeError, ValueError, RuntimeError):
            pass
        return self._encode_copy(value, what)

    def _encode_copy(self, value: Any, what: str) -> Payload:
        """The value is refused, or holds large ints, or another thread is changing it."""
        try:
            value = marshal.loads(marshal.dumps(value))
        except ValueError:
            pass  # not plain data, or nested without end: the next line says where
        _refuse_lossy(value, what)
        data = orjson.dumps(value)
        return Payload(data, sha256(data).hexdigest())

    def decode(self, data: bytes) -> Any:
        """The value back from its bytes."""
        return orjson.loads(data)

    def seal(self, event: Event, previous: str) -> SealedEvent:
        if self._refuses:
            raise RunStoreError(
                RUN_VALIDATION_ERROR,
                "missing_key",
                f"{event.originator_id!r} is not written to: the journal is encrypted, and was "
                "opened without a key",
            )
        fields: dict[str, Any] = {"schema_version": event.schema_version, "prev_hash": previous}
        for name, value in event.__dict__.items():
            # What the event's columns hold, and what reading computes, is not in its bytes; nor
            # are the fields that say nothing.
            if value is None or name in _NOT_STORED:
                continue
            fields[name] = orjson.Fragment(value.data) if type(value) is Payload else value
        data = orjson.dumps(fields, default=_plain)
        stream, version, topic = event.originator_id, event.originator_version, event.topic
        if self.cipher is not None:
            data = enciphered(self.cipher, data, event_place(stream, version, topic))
        return SealedEvent(
            stream, version, topic, data, chain_hash(previous, stream, version, topic, data)
        )

    def open(self, stored: StoredEvent) -> Event:
        stream, version, topic, _data = stored
        return self.registry.build(stream, version, topic, self._fields(stored))

    def open_linked(self, stored: StoredEvent, previous: str) -> Event:
        stream, version, topic, data = stored
        try:
            fields = orjson.loads(self._decrypted(stored) if data.startswith(MARK) else data)
            if fields["prev_hash"] == previous:
                fields["hash"] = chain_hash(previous, stream, version, topic, data)
                event = self.registry.revive(stream, version, topic, fields)
                if event is not None:
                    return event
        except Exception:  # noqa: BLE001 - the next line says what is wrong with it
            pass
        return self.open(stored)

    def _decrypted(self, stored: StoredEvent) -> bytes:
        stream, version, topic, data = stored
        return deciphered(self.cipher, data, event_place(stream, version, topic))

    def _fields(self, stored: StoredEvent) -> dict[str, Any]:
        stream, version, topic, data = stored
        try:
            plain = self._decrypted(stored) if data.startswith(MARK) else data
            fields: dict[str, Any] = orjson.loads(plain)
            previous = fields["prev_hash"]
            fields["hash"] = chain_hash(previous, stream, version, topic, data)
        except RunStoreError:
            raise  # a key that is not here
        except Exception as e:
            raise RunStoreError(
                RUN_INTEGRITY_ERROR,
                "unreadable_event",
                f"event {version} of stream {stream!r} ({topic}) cannot be decoded: {e}",
            ) from e
        return fields


class Validating:
    """A PayloadCodec that takes nothing on trust, for what a good chain does not vouch for."""

    def __init__(self, codec: PayloadCodec) -> None:
        self.encode, self.seal, self.open = codec.encode, codec.seal, codec.open

    def open_linked(self, stored: StoredEvent, _previous: str) -> Event:
        return self.open(stored)


def _is_lossless(value: Any, data: bytes) -> bool:
    """Whether what orjson made of the value decodes to that very value.

    marshal takes plain values only, so no enums and nothing else that merely equals one. What both
    take and only JSON loses are tuples, for which marshal writes a parenthesis, and floats that are
    not finite, for which orjson writes null. Where neither is in the bytes, neither is in the
    value; where they are, perhaps in a text, decoding and comparing tells.
    """
    plain = marshal.dumps(value, 2)
    if b"(" not in plain and b"null" not in data:
        return True
    return bool(orjson.loads(data) == value)


def _refuse_lossy(value: Any, path: str, depth: int = 0) -> None:
    """Raise the refusal of the first value in it that JSON cannot hold, with its path."""
    kind = type(value)
    if kind in (dict, list) and depth >= MAX_DEPTH:
        raise refuse("payload", f"{path[:200]}… is nested deeper than {MAX_DEPTH} levels")
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise refuse("payload", f"{path} has the key {shown(key)}; keys must be str")
            if not _is_utf8(key):
                raise refuse("payload", f"{path} has the key {key!r} with a lone surrogate")
            _refuse_lossy(item, f"{path}.{key}", depth + 1)
    elif kind is list:
        for i, item in enumerate(value):
            _refuse_lossy(item, f"{path}[{i}]", depth + 1)
    elif kind is str:
        if not _is_utf8(value):
            raise refuse("payload", f"{path} has a lone surrogate: {value[:80]!r}")
    elif kind is int:
        if not -_INT_LIMIT <= value < _INT_LIMIT:
            raise refuse("payload", f"{path} is {shown(value)}, beyond 64 bits")
    elif kind is float:
        if not isfinite(value):
            raise refuse("payload", f"{path} is {value}, which JSON cannot hold")
    elif kind is not bool and value is not None:
        raise refuse("payload", f"{path} is a {kind.__name__}, which JSON cannot hold exactly")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
